-- The run that is to blame if the worker dies: one that was taken over alone because several workers
-- died with it, or one that blocks a thread of the worker.
alter table workers add column suspect text;

-- How many deaths of workers a run is to blame for, how many it was part of that nothing explains, and
-- until when these count. Versions before this one count every death in n_deaths alone.
alter table runs add column n_blamed integer not null default 0;
alter table runs add column n_suspicions integer not null default 0;
alter table runs add column suspected_until integer;
