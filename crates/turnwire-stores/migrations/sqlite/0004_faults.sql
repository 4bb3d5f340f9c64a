-- When the worker last wrote something to see whether it can.
alter table workers add column probed_at integer;

-- How often nobody could take up the run since somebody last worked on it, when it may be tried
-- again, and who tried last: others go first.
alter table runs add column n_failed_takeovers integer not null default 0;
alter table runs add column claimable_at integer;
alter table runs add column deferred_by text;

-- Workers whose settings lack what the run needs, and what that is. They leave it to others.
create table declined_runs (
    run_id text not null,
    worker text not null,
    reason text not null,
    primary key (run_id, worker)
);

-- When a run or a client last used the conversation; retention goes by it.
alter table conversations add column used_at integer not null default 0;
update conversations set used_at = cast(unixepoch('subsec') * 1000000 as integer);
create index conversations_by_use on conversations (used_at);
