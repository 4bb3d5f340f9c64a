-- Files that people have handed in, and the collections they are searched in.
--
-- The same tables as in PostgreSQL, but for the index of words. Times are microseconds since 1970.

create table files (
    tenant     text    not null,
    id         text    not null,
    -- The name and the purpose are JSON strings: a database need not cope with every character.
    name       text    not null,
    bytes      integer not null,
    purpose    text    not null,
    created_at integer not null,
    -- When it goes by itself; null: never.
    expires_at integer,
    primary key (tenant, id)
) without rowid;
create index files_by_expiry on files (expires_at) where expires_at is not null;

-- What is in a file, in slices, so that no statement has to carry a whole big one.
create table file_slices (
    tenant  text    not null,
    file_id text    not null,
    place   integer not null,
    body    blob    not null,
    primary key (tenant, file_id, place)
);

create table collections (
    number         integer primary key autoincrement,
    tenant         text    not null,
    id             text    not null,
    created_at     integer not null,
    last_active_at integer not null,
    -- The name and the metadata, as JSON.
    notes          text    not null,
    expires_days   integer,
    unique (tenant, id)
);

create table file_batches (
    tenant     text    not null,
    id         text    not null,
    collection integer not null,
    created_at integer not null,
    cancelled  integer not null default 0,
    primary key (tenant, id)
) without rowid;
create index file_batches_of_collection on file_batches (collection);

-- A file in a collection. Those in progress are the queue of whoever reads files.
create table attachments (
    number      integer primary key autoincrement,
    tenant      text    not null,
    collection  integer not null,
    file_id     text    not null,
    created_at  integer not null,
    attributes  text    not null,
    chunking    text    not null,
    batch_id    text,
    -- in_progress, completed, failed or cancelled.
    state       text    not null default 'in_progress',
    why         text    not null default '',
    reason      text    not null default '',
    usage_bytes integer not null default 0,
    n_passages  integer not null default 0,
    -- Whose vectors it has; empty: nobody's.
    model       text    not null default '',
    -- Counts claims and what ends them. Only the last claim counts.
    claim       integer not null default 0,
    n_claims    integer not null default 0,
    -- Nobody claims it before: somebody is at it, or it has to wait.
    not_before  integer not null default 0,
    unique (collection, file_id)
);
create index attachments_of_file on attachments (tenant, file_id);
create index attachments_of_batch on attachments (batch_id) where batch_id is not null;
create index attachments_by_claim on attachments (claim);
create index attachments_to_read on attachments (number) where state = 'in_progress';
create index attachments_to_embed on attachments (model, not_before) where state = 'completed';

create table passages (
    number     integer primary key autoincrement,
    tenant     text    not null,
    attachment integer not null,
    place      integer not null,
    text       text    not null
);
create index passages_of_attachment on passages (attachment, place);

-- The words of the passages, each set in the scope of its collection. The texts are not kept
-- again.
create virtual table passage_words using fts5 (
    scope, words, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
);

-- A passage and its words are written as one, and go as one.
create view worded_passages as
    select tenant, attachment, place, text, '' as scope, '' as words from passages;
create trigger passages_come instead of insert on worded_passages begin
    insert into passages (tenant, attachment, place, text)
        values (new.tenant, new.attachment, new.place, new.text);
    insert into passage_words (rowid, scope, words)
        values (last_insert_rowid(), new.scope, new.words);
end;
create trigger passages_go after delete on passages begin
    delete from passage_words where rowid = old.number;
end;

-- Vectors of neighbouring passages, one behind the other: n of them from `place` on.
create table passage_vectors (
    attachment integer not null,
    place      integer not null,
    tenant     text    not null,
    model      text    not null,
    n          integer not null,
    body       blob    not null,
    primary key (attachment, place)
);

create index passage_vectors_by_tenant on passage_vectors (tenant);

-- Attachments that are gone, and whose passages have to follow.
create table attachments_gone (
    number integer primary key
);
