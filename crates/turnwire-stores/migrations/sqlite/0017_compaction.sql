-- Retention looks at finished runs by age. Hidden ones are deleted with the run that continues them, so
-- it must not pass them every time, as it did with the index before.
drop index runs_by_age;
create index runs_finished on runs (finished_at, id) where state = 'finished';
create index runs_hidden on runs (id) where state = 'hidden';

-- How far the compaction of journals has come: all runs that finished before this one, or at the same
-- time and with a smaller id, have had their turn.
create table compaction (
    is_only_row integer primary key default 1 check (is_only_row = 1),
    finished_at integer not null,
    run_id      text not null
);
insert into compaction (finished_at, run_id) values (-1, '');

-- workers.reads_lists is 2 for a worker that can also read the rows that compaction writes. Journals are
-- not compacted while there is one that cannot.
