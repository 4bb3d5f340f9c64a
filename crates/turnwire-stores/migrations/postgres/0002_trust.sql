-- What people have allowed for longer than one call.

-- Tools that a person has allowed for the rest of a conversation. Gone with it.
create table allowed (
    tenant          text not null,
    conversation_id text not null,
    tool            text not null,
    definition      text not null,
    primary key (tenant, conversation_id, tool, definition)
);

-- The definition of each tool of a server that is trusted.
create table pins (
    tenant     text not null,
    server     text not null,
    tool       text not null,
    definition text not null,
    primary key (tenant, server, tool)
);
