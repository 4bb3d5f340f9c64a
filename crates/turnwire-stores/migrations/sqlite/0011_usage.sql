-- What tenants (`holder` is empty) and holders of keys used in a window. Each process writes rows of
-- its own, so that writing again changes nothing and nobody waits for a row of another process.
create table usage_counters (
    tenant     text not null,
    holder     text not null,
    starts_at  integer not null,
    ends_at    integer not null,
    node       text not null,
    requests   integer not null,
    tokens     integer not null,
    tool_calls integer not null,
    cost_nanos integer not null,
    primary key (tenant, holder, starts_at, ends_at, node)
);
create index usage_counters_by_end on usage_counters (ends_at);
