-- Entries that a later run has replaced. The conversation no longer has them; runs that began before
-- still have seen them. The position of the last entry of the conversation at that time.
alter table entries add column superseded_upto integer;
