-- What is asked of a running run is called a command everywhere else.
alter table wishes rename to commands;
alter table commands rename column wish to command;
drop index wishes_by_run;
create index commands_by_run on commands (run_id);

-- The version before knows the old name, and may open the file again.
create view wishes as select id, run_id, tenant, command as wish from commands;
create trigger wishes_insert instead of insert on wishes begin
    insert into commands (run_id, tenant, command) values (new.run_id, new.tenant, new.wish);
end;
create trigger wishes_delete instead of delete on wishes begin
    delete from commands where id = old.id;
end;
