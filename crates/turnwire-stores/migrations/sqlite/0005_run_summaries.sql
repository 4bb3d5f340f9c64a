-- What a list says about a run, so that no journal is read to list runs. Null in runs of versions
-- before this one.
alter table runs add column model text;
-- Beginning of the person's text.
alter table runs add column input_text text;
-- Names of the tools that were called, as a JSON array.
alter table runs add column tools text;
alter table runs add column n_calls integer not null default 0;
alter table runs add column n_failed_calls integer not null default 0;
-- The worker that recorded that the run waits for a person. A worker of an earlier version that
-- takes the run over leaves it as it is, so it holds only while that worker has the run or nobody.
alter table runs add column waiting_by text;
-- When any of this, or the state, last changed.
alter table runs add column changed_at integer;
-- When the lease of the worker before ended, in microseconds. Null if it released the run.
alter table runs add column previous_lease_until integer;
create index runs_by_change on runs (tenant, changed_at) where changed_at is not null;

-- Runs are counted by status without reading their requests.
drop index runs_by_tenant;
create index runs_by_tenant on runs (tenant, number desc, state, worker, waiting_by, outcome, id)
    where state <> 'hidden';
