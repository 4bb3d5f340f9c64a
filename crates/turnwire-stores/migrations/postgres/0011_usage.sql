-- What tenants (`holder` is empty) and holders of keys used in a window. Each process writes rows of
-- its own, so that writing again changes nothing and nobody waits for a row of another process.
create table usage_counters (
    tenant     text not null,
    holder     text not null,
    starts_at  bigint not null,
    ends_at    bigint not null,
    node       text not null,
    requests   bigint not null,
    tokens     bigint not null,
    tool_calls bigint not null,
    cost_nanos bigint not null,
    primary key (tenant, holder, starts_at, ends_at, node)
);
create index usage_counters_by_end on usage_counters (ends_at);
