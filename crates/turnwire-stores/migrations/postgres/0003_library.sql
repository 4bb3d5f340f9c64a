-- Files that people have handed in, and the collections they are searched in.
--
-- The same tables as in SQLite, but for the index of words. Times are microseconds since 1970.

create table files (
    tenant     text    not null,
    id         text    not null,
    -- The name and the purpose are JSON strings: a database need not cope with every character.
    name       text    not null,
    bytes      bigint  not null,
    purpose    text    not null,
    created_at bigint  not null,
    -- When it goes by itself; null: never.
    expires_at bigint,
    primary key (tenant, id)
);
create index files_by_expiry on files (expires_at) where expires_at is not null;

-- What is in a file, in slices, so that no statement has to carry a whole big one.
create table file_slices (
    tenant  text    not null,
    file_id text    not null,
    place   bigint  not null,
    body    bytea   not null,
    primary key (tenant, file_id, place)
);

create table collections (
    number         bigint generated always as identity primary key,
    tenant         text    not null,
    id             text    not null,
    created_at     bigint  not null,
    last_active_at bigint  not null,
    -- The name and the metadata, as JSON.
    notes          text    not null,
    expires_days   bigint,
    unique (tenant, id)
);

create table file_batches (
    tenant     text    not null,
    id         text    not null,
    collection bigint  not null,
    created_at bigint  not null,
    cancelled  bigint  not null default 0,
    primary key (tenant, id)
);
create index file_batches_of_collection on file_batches (collection);

-- A file in a collection. Those in progress are the queue of whoever reads files.
create table attachments (
    number      bigint generated always as identity primary key,
    tenant      text    not null,
    collection  bigint  not null,
    file_id     text    not null,
    created_at  bigint  not null,
    attributes  text    not null,
    chunking    text    not null,
    batch_id    text,
    -- in_progress, completed, failed or cancelled.
    state       text    not null default 'in_progress',
    why         text    not null default '',
    reason      text    not null default '',
    usage_bytes bigint  not null default 0,
    n_passages  bigint  not null default 0,
    -- Whose vectors it has; empty: nobody's.
    model       text    not null default '',
    -- Counts claims and what ends them. Only the last claim counts.
    claim       bigint  not null default 0,
    n_claims    bigint  not null default 0,
    -- Nobody claims it before: somebody is at it, or it has to wait.
    not_before  bigint  not null default 0,
    unique (collection, file_id)
);
create index attachments_of_file on attachments (tenant, file_id);
create index attachments_of_batch on attachments (batch_id) where batch_id is not null;
create index attachments_by_claim on attachments (claim);
create index attachments_to_read on attachments (number) where state = 'in_progress';
create index attachments_to_embed on attachments (model, not_before) where state = 'completed';

create table passages (
    number     bigint generated always as identity primary key,
    tenant     text    not null,
    attachment bigint  not null,
    place      bigint  not null,
    text       text    not null,
    words      tsvector not null
);
create index passages_of_attachment on passages (attachment, place);

-- Each set of words begins with a sign for its collection, so that the index finds both at once.
create index passages_by_words on passages using gin (words);

-- Vectors of neighbouring passages, one behind the other: n of them from `place` on.
create table passage_vectors (
    attachment bigint  not null,
    place      bigint  not null,
    tenant     text    not null,
    model      text    not null,
    n          bigint  not null,
    body       bytea   not null,
    primary key (attachment, place)
);

create index passage_vectors_by_tenant on passage_vectors (tenant);

-- Attachments that are gone, and whose passages have to follow.
create table attachments_gone (
    number bigint primary key
);
