-- Secrets that requests bring for their MCP servers, encrypted. A row exists from the creation of a
-- run to its end.
create table run_secrets (
    tenant text not null,
    run_id text not null,
    server text not null,
    key_id text not null,
    sealed text not null,
    primary key (run_id, server)
);
