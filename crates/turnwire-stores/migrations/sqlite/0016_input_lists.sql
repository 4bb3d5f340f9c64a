-- Long requests, in two parts that are stored once for all requests that have them: a list of input
-- items for all that begin with them, and a preamble of instructions and tools. A list has what its
-- parent has, and one item after it. Either is there as long as a run has it or another list continues
-- it.
create table input_lists (
    tenant  text not null,
    -- A hash of everything in it.
    id      text not null,
    -- Null for a list of one item, and for a preamble.
    parent  text,
    -- How many items it has, with those of its parents. 0 for a preamble.
    n_items integer not null,
    item    text not null,
    primary key (tenant, id)
);
create index input_lists_by_parent on input_lists (tenant, parent) where parent is not null;

-- Null if the request is stored whole.
alter table runs add column input_list text;
alter table runs add column preamble text;
create index runs_by_input_list on runs (tenant, input_list) where input_list is not null;
create index runs_by_preamble on runs (tenant, preamble) where preamble is not null;

-- Whether the worker can read lists. Workers of versions before this one cannot, and nobody writes
-- lists while one of them is there.
alter table workers add column reads_lists integer not null default 0;
