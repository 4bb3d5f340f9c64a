-- Everything a run needs to outlive its client, its process and its machine.
--
-- Times are microseconds since 1970 where a client sees them (they come with the event or the
-- run), and timestamptz where they are compared with the clock, which is always the database's.

-- The processes that work on runs. A worker that has not been heard of by lease_until is gone.
create table workers (
    id          text primary key,
    lease_until timestamptz not null
);

create table runs (
    id              text primary key,
    tenant          text   not null,
    -- Runs are listed in the order they came.
    number          bigint generated always as identity,
    created_at      bigint not null,
    request         text   not null,
    conversation_id text,
    -- How far the conversation had come when the run began.
    history_upto    bigint not null default 0,
    -- The run it continues, where there is no conversation.
    continues       text,
    -- active, finished, or hidden: forgotten, but a later run still continues it.
    state           text   not null default 'active',
    outcome         text,
    finished_at     timestamptz,
    -- Who works on it. Empty: nobody; while it is active, somebody should.
    worker          text   not null default '',
    -- How many workers died over it.
    n_deaths        integer not null default 0
);
create index runs_by_tenant on runs (tenant, number desc) where state <> 'hidden';
create index runs_at_work on runs (worker, number) where state = 'active';
create index runs_by_age on runs (finished_at) where state <> 'active';
create index runs_continued on runs (continues) where continues is not null;
-- A conversation has one run at a time.
create unique index runs_one_per_conversation on runs (tenant, conversation_id)
    where state = 'active' and conversation_id is not null;

-- The journal. Neighbouring deltas share a row; every other event has one of its own, so that
-- the database itself can see to it that there is one end per call and one per run. The key is
-- the fence: whoever writes at a place where somebody else has written, does not.
create table run_events (
    tenant    text   not null,
    run_id    text   not null,
    first_seq bigint not null,
    last_seq  bigint not null,
    -- Tells the rows of one append from those of another: how a writer that never got an answer
    -- finds out whether it had written.
    tag       bigint not null,
    -- 'delta', 'start' and 'end' of a call, 'over' for the end of the run, 'event' for the rest.
    kind      text   not null,
    call_id   text,
    body      text   not null,
    primary key (run_id, first_seq)
);
create unique index run_events_one_over on run_events (run_id) where kind = 'over';
create unique index run_events_one_start on run_events (run_id, call_id) where kind = 'start';
create unique index run_events_one_end on run_events (run_id, call_id) where kind = 'end';

create table conversations (
    tenant     text   not null,
    id         text   not null,
    created_at bigint not null,
    metadata   text   not null,
    primary key (tenant, id)
);

-- What runs and people have added, in the order they did. An entry is there for as long as its
-- run or its conversation is.
create table entries (
    position        bigint generated always as identity primary key,
    tenant          text not null,
    run_id          text,
    conversation_id text,
    -- Its name, to find it by.
    id              text not null,
    -- All of it, with its name.
    entry           text not null
);
create index entries_by_run on entries (tenant, run_id, position) where run_id is not null;
create index entries_by_conversation on entries (tenant, conversation_id, position)
    where conversation_id is not null;
create index entries_by_name on entries (tenant, id);

-- What people ask of whoever works on a run. Not fenced: everybody may leave something here.
create table wishes (
    id     bigint generated always as identity primary key,
    run_id text not null,
    tenant text not null,
    wish   text not null
);
create index wishes_by_run on wishes (run_id);

-- Requests that were sent with a key, and the run that came of them.
create table request_keys (
    tenant      text not null,
    endpoint    text not null,
    key         text not null,
    fingerprint text not null,
    run_id      text not null,
    expires_at  timestamptz not null,
    primary key (tenant, endpoint, key)
);
create index request_keys_by_age on request_keys (expires_at);
create index request_keys_by_run on request_keys (run_id);

-- Results too big for the journal.
create table blobs (
    tenant text not null,
    id     text not null,
    run_id text not null,
    body   bytea not null,
    primary key (tenant, id)
);
create index blobs_by_run on blobs (run_id);

-- What all workers on this database know and nobody else does: news is signed with it.
create table secrets (
    name  text primary key,
    value text not null
);
insert into secrets (name, value)
    values ('news', gen_random_uuid()::text || gen_random_uuid()::text);
