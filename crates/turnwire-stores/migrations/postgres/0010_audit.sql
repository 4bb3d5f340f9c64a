-- Who did what. Each process writes a chain of its own; `hash` of an entry depends on all before
-- it in its chain. `record` is what was hashed, the columns beside it are for queries.
create table audit_entries (
    chain  text not null,
    seq    bigint not null,
    at     bigint not null,
    tenant text not null,
    action text not null,
    object text not null,
    record text not null,
    hash   text not null,
    primary key (chain, seq)
);
create index audit_entries_by_tenant on audit_entries (tenant, at);
create index audit_entries_by_time on audit_entries (at);
create index audit_entries_by_object on audit_entries (object, at);
create index audit_entries_by_action on audit_entries (action, at);

-- Where each chain begins and ends, so that entries missing at either end are noticed. `start` is
-- the hash before the first entry that is still kept.
create table audit_chains (
    chain     text primary key,
    first_seq bigint not null,
    start     text not null,
    last_seq  bigint not null,
    hash      text not null
);
