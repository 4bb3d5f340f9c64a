-- Keys that encrypt what is stored for a tenant, themselves encrypted with a key of the operator. The
-- one with the highest number encrypts; the others decrypt what they encrypted. There are none
-- without [encryption] in the settings.
create table tenant_keys (
    tenant     text not null,
    number     bigint not null,
    -- Stands in front of everything that it has encrypted.
    id         text not null,
    -- ID of the key of the operator.
    wrapped_by text not null,
    wrapped    text not null,
    -- Microseconds since 1970.
    created_at bigint not null,
    primary key (tenant, number),
    unique (tenant, id)
);
