-- Who asked for a run: the key, or the subject of a token, as in usage_counters. Null in runs of
-- versions before this one, and if nobody needs a key. Active runs are counted by it.
alter table runs add column holder text;
create index runs_active on runs (tenant, holder) where state = 'active';

-- The size of all files of a tenant is read from the index alone.
create index files_by_size on files (tenant, bytes);
