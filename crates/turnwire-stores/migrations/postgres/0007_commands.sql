-- What is asked of a running run is called a command everywhere else.
alter table wishes rename to commands;
alter table commands rename column wish to command;
alter index wishes_by_run rename to commands_by_run;

-- The version before knows the old name, and may run at the same time. A view of one table can be
-- written to.
create view wishes as select id, run_id, tenant, command as wish from commands;
