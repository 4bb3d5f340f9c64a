-- Events for receivers outside: what is to be sent, and what was. A row is written in the transaction
-- of the event that causes it. Times are microseconds since 1970. `due_at` is when it may be sent
-- next; while a process sends it, when its claim ends.
create table webhook_deliveries (
    id              text primary key,
    tenant          text not null,
    url             text not null,
    event           text not null,
    run_id          text not null,
    call_id         text,
    created_at      bigint not null,
    status          text not null,
    n_attempts      bigint not null default 0,
    due_at          bigint,
    claim           bigint not null default 0,
    last_attempt_at bigint,
    http_status     bigint,
    error           text
);
create index webhook_deliveries_due on webhook_deliveries (tenant, url, due_at)
    where status = 'pending';
create index webhook_deliveries_by_tenant on webhook_deliveries (tenant, created_at, id);
create index webhook_deliveries_by_run on webhook_deliveries (tenant, run_id);
