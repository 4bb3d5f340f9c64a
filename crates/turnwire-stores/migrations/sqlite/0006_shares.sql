-- Links that show one run to whoever has them. The link is the id with a signature.
create table shares (
    id         text primary key,
    tenant     text not null,
    run_id     text not null,
    created_at integer not null,
    expires_at integer not null,
    redact     integer not null
);
create index shares_by_run on shares (run_id, created_at);
create index shares_by_age on shares (expires_at);

-- What links are signed with.
insert into secrets (name, value) values ('shares', lower(hex(randomblob(32))));
