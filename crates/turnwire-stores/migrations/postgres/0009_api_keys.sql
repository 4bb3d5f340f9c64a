-- Keys of the tenants, by the SHA-256 of each; the keys themselves are nowhere.
create table api_keys (
    id           text primary key,
    tenant       text not null,
    project      text,
    name         text not null,
    prefix       text not null,
    digest       text not null unique,
    scopes       text not null,
    created_at   bigint not null,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint,
    replaced_by  text,
    changed_at   bigint not null
);
create index api_keys_by_tenant on api_keys (tenant, created_at);
create index api_keys_by_change on api_keys (changed_at);
