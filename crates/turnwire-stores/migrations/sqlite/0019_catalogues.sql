-- Long lists of tools that a server has told: each is stored once for all runs of a tenant that have
-- it, and the event of the run has its ID.
create table catalogues (
    tenant text not null,
    -- A hash of what is in it.
    id     text not null,
    tools  text not null,
    primary key (tenant, id)
);

-- Which runs have which lists. Retention deletes lists that no run has.
create table run_catalogues (
    tenant    text not null,
    run_id    text not null,
    catalogue text not null,
    primary key (run_id, catalogue)
);
create index run_catalogues_by_catalogue on run_catalogues (tenant, catalogue);

-- workers.reads_lists is 3 for a worker that can also read these lists. None are stored while there is
-- one that cannot.
