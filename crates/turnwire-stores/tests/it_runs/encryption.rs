//! A17: what is stored is encrypted with a key per tenant, which a key of the operator encrypts.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use tokio::time::timeout;
use turnwire_contract::{
    ApprovalAnswer, BlobError, BlobId, BlobStore, CallId, Commands, ConversationId,
    ConversationRecord, Conversations, Decision, Entries, Entry, Event, FileId, FileRecord, Files,
    Item, Journal, JournalError, Leases, LibraryError, RecordedEvent, RunCommand, RunFilter, RunId,
    RunOutcome, RunQuery, RunRecords, RunRequest, Seq, StoreError, TenantId, Timestamp, Tool,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{SecretKeys, Store, StoreOptions};
use turnwire_testkit::{Behaviour, FakeTool, services};
use turnwire_tools::DefaultAnalyzer;

use crate::support::{Backend, run, tenant, until};

const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEW: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

const LEASE: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_mins(1);
const SOON: Duration = Duration::from_secs(30);

/// What is planted, each at its own place.
const CANARIES: [&str; 9] = [
    "cnry-input",
    "cnry-arguments",
    "cnry-result",
    "cnry-answer",
    "cnry-entry",
    "cnry-metadata",
    "cnry-file",
    "cnry-blob",
    "cnry-command",
];

async fn store(backend: &Backend, keys: &str) -> Store {
    store_with(backend, keys, LONG).await
}

/// A store with these keys; none if there are none.
async fn store_with(backend: &Backend, keys: &str, lease: Duration) -> Store {
    let encryption = SecretKeys::read(keys).ok();
    let change = |options: &mut StoreOptions| {
        options.encryption.clone_from(&encryption);
        options.lease = lease;
    };
    backend.store_with(change).await
}

fn engine(store: &Store, model: Scripted) -> Runs {
    let (mut tools, returned) = (Toolbox::default(), Behaviour::Returns("cnry-result".to_owned()));
    tools.add(Arc::new(FakeTool::new("look", returned))).unwrap();
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        tools,
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        ..EngineParts::default()
    })
}

fn looking() -> Scripted {
    Scripted::new([
        Turn::new().call("look", json!({ "what": "cnry-arguments" })),
        Turn::new().text("It is cnry-answer."),
    ])
}

fn slow() -> Scripted {
    Scripted::new([Turn::new().text("Let me ").wait_forever()])
}

fn request() -> RunRequest {
    let mut request = RunRequest::new("m", vec![Item::user("Where is cnry-input?")]);
    request.tenant = tenant();
    let look = FakeTool::new("look", Behaviour::Returns(String::new()));
    request.tools = vec![Arc::new(look.spec().clone())];
    request
}

fn conversation() -> ConversationId {
    ConversationId::from("conv_1")
}

/// Leaves each canary in the store.
async fn plant(store: &Store) -> RunId {
    let runs = engine(store, looking());
    runs.start_worker().await.unwrap();
    let metadata = BTreeMap::from([("note".to_owned(), "cnry-metadata".to_owned())]);
    let created_at = Timestamp::from_micros(1);
    let opened = ConversationRecord { id: conversation(), created_at, metadata };
    Conversations::open_conversation(store, &tenant(), opened).await.unwrap();
    store
        .add_entries(
            &tenant(),
            &conversation(),
            vec![Entry::new("msg_1", Item::user("cnry-entry"))],
        )
        .await
        .unwrap();
    let mut request = request();
    request.conversation_id = Some(conversation());
    let run = runs.start(request).await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let blob = BlobId::from("blob_1");
    store.put(&tenant(), run.id(), &blob, "cnry-blob".to_owned()).await.unwrap();
    let file = FileRecord {
        id: FileId::from("file_1"),
        name: "a.txt".to_owned(),
        bytes: 9,
        purpose: "user_data".to_owned(),
        created_at,
        expires_at: None,
    };
    let library = store.library(Arc::new(DefaultAnalyzer::new(None)));
    library.add_file(&tenant(), file, b"cnry-file".as_slice().into()).await.unwrap();
    // Nobody is there to apply it.
    let waiting = crate::support::run("run_waiting", |_| {});
    RunRecords::create(store, waiting).await.unwrap();
    store.enqueue(&tenant(), &RunId::from("run_waiting"), command()).await.unwrap();
    run.id().clone()
}

fn command() -> RunCommand {
    let arguments = Some("{\"what\":\"cnry-command\"}".to_owned());
    let answer = ApprovalAnswer { arguments, ..ApprovalAnswer::from(Decision::Approved) };
    RunCommand::Answer { call_id: CallId::from("call_1"), answer }
}

/// Everything in the database, as it is on disk or in a dump.
async fn dump(backend: &Backend) -> Vec<u8> {
    if !backend.is_postgres() {
        let file = backend.url.strip_prefix("sqlite://").unwrap();
        let read = |suffix: &str| std::fs::read(format!("{file}{suffix}")).unwrap_or_default();
        return [read(""), read("-wal")].concat();
    }
    let tables = "select tablename::text from pg_tables where schemaname = 'public'";
    let mut all = String::new();
    for table in backend.ask(tables).await {
        all += &backend.ask(&format!("select t::text from \"{table}\" t")).await.join("\n");
    }
    all.into_bytes()
}

/// Those canaries that `dump` has, as they are or as bytes are written in a dump.
fn found_in(dump: &[u8]) -> Vec<&'static str> {
    let has = |text: &[u8]| dump.windows(text.len()).any(|window| window == text);
    let is_found = |canary: &&str| has(canary.as_bytes()) || has(hex::encode(canary).as_bytes());
    CANARIES.into_iter().filter(is_found).collect()
}

/// Everything of a run, as its clients get it.
async fn journal(store: &Store, run_id: &RunId) -> Vec<String> {
    let stored = store.read_stored(&tenant(), run_id, Seq::START).await.unwrap();
    stored.iter().map(|event| serde_json::to_string(&**event).unwrap()).collect()
}

/// A17: nothing that people or models say is in the database, and all of it can be read.
#[tokio::test]
async fn the_database_has_no_content() {
    for backend in Backend::all() {
        let plain = store(&backend, "").await;
        plant(&plain).await;
        plain.close().await;
        assert_eq!(found_in(&dump(&backend).await), CANARIES, "{}", backend.url);
        assert_eq!(backend.ask("select id from tenant_keys").await, [""; 0]);
    }
    for backend in Backend::all() {
        let url = backend.url.as_str();
        let first = store(&backend, OLD).await;
        let run_id = plant(&first).await;
        first.close().await;
        assert_eq!(found_in(&dump(&backend).await), [""; 0], "{url}");

        // Another process, with nothing in memory.
        let other = store(&backend, OLD).await;
        let all = journal(&other, &run_id).await.join("\n");
        for canary in &CANARIES[..4] {
            assert!(all.contains(canary), "{url} {canary}");
        }
        let record = RunRecords::find(&other, &tenant(), &run_id).await.unwrap();
        assert_eq!(record.request.input, request().input, "{url}");
        let listed = other.select(&tenant(), &listing()).await.unwrap().runs;
        let texts: Vec<&str> = listed.iter().map(|run| run.text.as_str()).collect();
        assert!(texts.contains(&"Where is cnry-input?"), "{url} {texts:?}");
        let history = other.history(&tenant(), &conversation()).await.unwrap();
        let history = serde_json::to_string(&history).unwrap();
        assert!(history.contains("cnry-entry") && history.contains("cnry-answer"), "{history}");
        let context = other.context(&tenant(), &run_id).await.unwrap();
        assert!(serde_json::to_string(&context).unwrap().contains("cnry-entry"), "{url}");
        let found = Conversations::conversation(&other, &tenant(), &conversation()).await.unwrap();
        assert_eq!(found.metadata["note"], "cnry-metadata");
        assert_eq!(other.get(&tenant(), &BlobId::from("blob_1")).await.unwrap(), "cnry-blob");
        let library = other.library(Arc::new(DefaultAnalyzer::new(None)));
        let bytes = library.content(&tenant(), &FileId::from("file_1")).await.unwrap();
        assert_eq!(&*bytes, b"cnry-file");
        let waiting = RunId::from("run_waiting");
        let commands = other.pending_commands_for(&waiting).await.unwrap();
        assert_eq!(commands.into_iter().map(|it| it.command).collect::<Vec<_>>(), [command()]);
    }
}

/// A17: what goes through Redis is encrypted, and arrives.
#[tokio::test]
async fn redis_has_no_content() {
    for keys in ["", OLD] {
        let (backend, redis) = (Backend::postgres(), services::Redis::start());
        let mut stores = Vec::new();
        for _ in 0..2 {
            let encryption = SecretKeys::read(keys).ok();
            let change = |options: &mut StoreOptions| {
                options.encryption.clone_from(&encryption);
                options.fanout = Some(redis.url());
            };
            stores.push(backend.store_with(change).await);
        }
        let [writer, reader]: [Store; 2] = stores.try_into().unwrap();
        let mut wire = redis::Client::open(redis.url()).unwrap().get_async_pubsub().await.unwrap();
        wire.psubscribe("*").await.unwrap();
        let mut wire = wire.into_on_message();

        let run_id = RunId::from("run_1");
        RunRecords::create(&writer, run("run_1", |_| {})).await.unwrap();
        writer.append(&tenant(), vec![word(1)]).await.unwrap();
        let mut events = reader.read(&tenant(), &run_id, Seq::START).await.unwrap();
        let mut published = Vec::new();
        for seq in 1..=20 {
            if seq > 1 {
                writer.append(&tenant(), vec![word(seq)]).await.unwrap();
            }
            let event = timeout(SOON, events.next()).await.expect("it arrives").unwrap().unwrap();
            assert_eq!(*event, *word(seq));
        }
        while published.iter().filter(|bytes: &&Vec<u8>| !bytes.is_empty()).count() < 20 {
            let message = timeout(SOON, wire.next()).await.expect("it is published").unwrap();
            published.push(message.get_payload_bytes().to_vec());
        }
        let found = found_in(&published.concat());
        assert_eq!(found.is_empty(), !keys.is_empty(), "{found:?}");
    }
}

fn word(seq: u64) -> Arc<RecordedEvent> {
    let event = Event::TextAdded { item_id: "msg_1".into(), text: "cnry-answer ".to_owned() };
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(seq).unwrap());
    Arc::new(RecordedEvent { run_id: RunId::from("run_1"), seq: Seq(seq), at, event })
}

/// A17: what was stored before encryption was turned on stays as it is and readable, and so does it
/// after it was turned off.
#[tokio::test]
async fn encryption_is_turned_on_and_off() {
    for backend in Backend::both() {
        let plain = store(&backend, "").await;
        let before = plant(&plain).await;
        let events = journal(&plain, &before).await;
        plain.close().await;
        let bodies = "select body from run_events order by run_id, first_seq";
        let kept = backend.ask(bodies).await;
        assert!(kept.iter().all(|body| body.starts_with('[')));

        let on = store(&backend, OLD).await;
        assert_eq!(journal(&on, &before).await, events, "{}", backend.url);
        let history = on.history(&tenant(), &conversation()).await.unwrap();
        assert!(serde_json::to_string(&history).unwrap().contains("cnry-answer"));
        let mut next = request();
        next.conversation_id = Some(conversation());
        let runs = engine(&on, looking());
        runs.start_worker().await.unwrap();
        let run = runs.start(next).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        let after = run.id().clone();
        on.close().await;
        let now = backend.ask(bodies).await;
        assert!(kept.iter().all(|body| now.contains(body)), "{}", backend.url);
        let of_run = format!("select body from run_events where run_id = '{after}'");
        assert!(backend.ask(&of_run).await.iter().all(|body| body.starts_with("~1:")));

        let off = store(&backend, "").await;
        assert_eq!(journal(&off, &before).await, events, "{}", backend.url);
        must_be_missing(&off, &after).await;
        let third = RunId::from("run_third");
        RunRecords::create(&off, run_named("run_third")).await.unwrap();
        let request = "select request from runs where id = 'run_third'";
        assert!(backend.ask(request).await.iter().all(|request| request.starts_with('{')));
        RunRecords::find(&off, &tenant(), &third).await.unwrap();
    }
}

fn run_named(id: &str) -> turnwire_contract::NewRun {
    run(id, |_| {})
}

/// Everything about the run says that the key is missing, but for what needs no content.
async fn must_be_missing(store: &Store, run_id: &RunId) {
    let found = RunRecords::find(store, &tenant(), run_id).await;
    assert!(matches!(found, Err(StoreError::KeyMissing(_))), "{found:?}");
    assert!(RunRecords::status(store, &tenant(), run_id).await.is_ok());
    let listed = store.select(&tenant(), &listing()).await.unwrap().runs;
    let shown = listed.iter().find(|run| run.run_id == *run_id).map(|run| run.text.as_str());
    assert_eq!(shown, Some(""), "{listed:?}");
    let read = store.read_stored(&tenant(), run_id, Seq::START).await;
    assert!(matches!(read, Err(JournalError::KeyMissing(_))), "{read:?}");
    let mut events = store.read(&tenant(), run_id, Seq::START).await.unwrap();
    let read = timeout(SOON, events.try_next()).await.expect("it is told");
    assert!(matches!(read, Err(JournalError::KeyMissing(_))), "{read:?}");
}

/// A17: without the key, or with another one, everything says so, nothing is taken for damaged, and
/// what needs no content still works.
#[tokio::test]
async fn a_missing_key_is_not_damage() {
    for backend in Backend::both() {
        let first = store(&backend, OLD).await;
        let run_id = plant(&first).await;
        first.close().await;
        for keys in ["", NEW] {
            let without = store(&backend, keys).await;
            must_be_missing(&without, &run_id).await;
            let history = without.history(&tenant(), &conversation()).await;
            assert!(matches!(history, Err(StoreError::KeyMissing(_))), "{history:?}");
            let blob = without.get(&tenant(), &BlobId::from("blob_1")).await;
            assert!(matches!(blob, Err(BlobError::KeyMissing(_))), "{blob:?}");
            let library = without.library(Arc::new(DefaultAnalyzer::new(None)));
            let content = library.content(&tenant(), &FileId::from("file_1")).await;
            assert!(matches!(content, Err(LibraryError::KeyMissing(_))), "{content:?}");
            let status = without.encryption_status().await.unwrap();
            assert_eq!(status.closed().map(|closed| closed.n_tenants).sum::<u64>(), 1);
        }
        let wrong = store(&backend, NEW).await;
        // Neither for this tenant nor for a new one is anything written that nobody else can read.
        for of in [tenant(), TenantId::from("new")] {
            let created = RunRecords::create(&wrong, run("run_2", |it| it.tenant = of)).await;
            assert!(matches!(created, Err(StoreError::KeyMissing(_))), "{created:?}");
        }
        let head = wrong.head(&tenant(), &run_id).await.unwrap();
        assert!(head.is_over);
        RunRecords::delete(&wrong, &tenant(), &run_id).await.unwrap();
        let rows = format!("select run_id from run_events where run_id = '{run_id}'");
        assert_eq!(backend.ask(&rows).await, [""; 0], "{}", backend.url);
        let old = "update runs set finished_at = finished_at where id = 'run_waiting' returning id";
        assert_eq!(backend.ask(old).await.len(), 1);
        wrong.forget_old_runs().await.unwrap();
    }
}

/// A17: when the keys of a tenant are deleted, nothing of it can be read any more, and nobody gets
/// a ciphertext in place of a text or a file.
#[tokio::test]
async fn without_its_keys_a_tenant_is_unreadable() {
    for backend in Backend::both() {
        let first = store(&backend, OLD).await;
        let run_id = plant(&first).await;
        first.close().await;
        assert_eq!(backend.ask("delete from tenant_keys returning id").await.len(), 1);
        let later = store(&backend, OLD).await;
        must_be_missing(&later, &run_id).await;
        let blob = later.get(&tenant(), &BlobId::from("blob_1")).await;
        assert!(matches!(blob, Err(BlobError::KeyMissing(_))), "{blob:?}");
        let library = later.library(Arc::new(DefaultAnalyzer::new(None)));
        let content = library.content(&tenant(), &FileId::from("file_1")).await;
        assert!(matches!(content, Err(LibraryError::KeyMissing(_))), "{content:?}");
    }
}

/// A17: a reader that waits at the head of a run learns that what comes next cannot be read here.
#[tokio::test]
async fn a_waiting_reader_is_told_that_the_key_is_missing() {
    let backend = Backend::postgres();
    let (plain, without) = (store(&backend, "").await, store(&backend, "").await);
    RunRecords::create(&plain, run_named("run_1")).await.unwrap();
    plain.append(&tenant(), vec![word(1)]).await.unwrap();
    plain.close().await;
    let run_id = RunId::from("run_1");
    let mut events = without.read(&tenant(), &run_id, Seq::START).await.unwrap();
    assert_eq!(events.try_next().await.unwrap(), Some(word(1)));
    let with = store(&backend, OLD).await;
    with.append(&tenant(), vec![word(2)]).await.unwrap();
    let next = timeout(SOON, events.try_next()).await.expect("it is told");
    assert!(matches!(next, Err(JournalError::KeyMissing(_))), "{next:?}");
}

/// A17: ciphertexts that were moved are damaged rows, as unreadable ones are today, and only these.
#[tokio::test]
async fn moved_ciphertexts_are_refused() {
    for backend in Backend::both() {
        let url = backend.url.as_str();
        let first = store(&backend, OLD).await;
        let (one, evil) = (plant(&first).await, TenantId::from("evil"));
        for (id, of) in [("run_other", tenant()), ("run_evil", evil.clone())] {
            let runs = engine(&first, looking());
            let mut request = request();
            request.tenant = of;
            let run = runs.start(request).await.unwrap();
            assert_eq!(run.outcome().await, RunOutcome::Completed);
            let rename = |table: &str, column: &str| {
                format!(
                    "update {table} set {column} = '{id}' where {column} = '{}' returning tenant",
                    run.id()
                )
            };
            // Even the same events under another name are refused, so their rows are taken as they
            // are.
            assert!(!backend.ask(&rename("runs", "id")).await.is_empty());
            assert!(!backend.ask(&rename("run_events", "run_id")).await.is_empty());
        }
        let body = |run: &str, seq: u64| {
            format!("(select body from run_events where run_id = '{run}' and first_seq = {seq})")
        };
        let mine = one.as_str();
        let changes = [
            (1, body(mine, 2)),
            (2, body("run_other", 2)),
            (3, format!("(select request from runs where id = '{mine}')")),
        ];
        for (seq, other) in &changes {
            let sql = format!(
                "update run_events set body = {other} where run_id = '{mine}' and first_seq = {seq}
                 returning tenant"
            );
            assert_eq!(backend.ask(&sql).await.len(), 1, "{url} {seq}");
        }
        first.close().await;
        let other = store(&backend, OLD).await;
        let events = other.read_stored(&tenant(), &one, Seq::START).await.unwrap();
        let is_damaged =
            |seq: u64| events.iter().any(|it| it.seq.0 == seq && it.event == Event::unreadable());
        for seq in 1..=3 {
            assert!(is_damaged(seq), "{url} {seq}");
        }
        assert!(!events.iter().any(|it| it.seq.0 > 3 && it.event == Event::unreadable()), "{url}");
        // Runs under another name.
        for (of, id) in [(tenant(), "run_other"), (evil, "run_evil")] {
            let record = RunRecords::find(&other, &of, &RunId::from(id)).await.unwrap();
            assert_eq!(record.request.model, "unreadable", "{url} {id}");
        }
        // A row of another tenant names a key that this one does not have.
        let sql = format!(
            "update run_events set body = {} where run_id = '{mine}' and first_seq = 4
             returning tenant",
            body("run_evil", 3)
        );
        assert_eq!(backend.ask(&sql).await.len(), 1, "{url}");
        let read = other.read_stored(&tenant(), &one, Seq::START).await;
        assert!(matches!(read, Err(JournalError::KeyMissing(_))), "{url} {read:?}");
        let swap = "update entries set entry = (select max(entry) from entries where tenant = 't')
                    where tenant = 't' returning id";
        assert!(backend.ask(swap).await.len() > 1);
        let history = other.history(&tenant(), &conversation()).await;
        assert!(matches!(history, Err(StoreError::Unavailable(_))), "{history:?}");
    }
}

/// A17: a new key of the operator takes over the keys of tenants, and nothing else is rewritten.
/// Then the old one is not needed any more.
#[tokio::test]
async fn a_key_of_the_operator_is_replaced() {
    for backend in Backend::all() {
        let first = store(&backend, OLD).await;
        let run_id = plant(&first).await;
        let events = journal(&first, &run_id).await;
        first.close().await;
        let bodies = "select body from run_events order by run_id, first_seq";
        let kept = backend.ask(bodies).await;

        let both = store(&backend, &format!("{NEW},{OLD}")).await;
        assert_eq!(journal(&both, &run_id).await, events, "{}", backend.url);
        assert_eq!(both.rewrap_tenant_keys().await.unwrap(), 1, "{}", backend.url);
        assert_eq!(both.rewrap_tenant_keys().await.unwrap(), 0, "{}", backend.url);
        both.close().await;
        assert_eq!(backend.ask(bodies).await, kept, "{}", backend.url);

        let new = store(&backend, NEW).await;
        assert_eq!(journal(&new, &run_id).await, events, "{}", backend.url);
        must_be_missing(&store(&backend, OLD).await, &run_id).await;
    }
}

/// A17: a new key of a tenant encrypts what is stored from then on. What is there stays readable.
#[tokio::test]
async fn a_key_of_a_tenant_is_replaced() {
    for backend in Backend::all() {
        let first = store(&backend, OLD).await;
        let before = plant(&first).await;
        let events = journal(&first, &before).await;
        let other = TenantId::from("other");
        assert_eq!(first.rotate_tenant_keys(Some(&other)).await.unwrap(), 0);
        assert_eq!(first.rotate_tenant_keys(Some(&tenant())).await.unwrap(), 1);
        let run = engine(&first, looking()).start(request()).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed);
        let after = run.id().clone();
        let newer = journal(&first, &after).await;
        first.close().await;
        let ids = backend.ask("select id from tenant_keys order by number").await;
        let [old_id, new_id]: [String; 2] = ids.try_into().unwrap();
        for (run_id, id) in [(&before, old_id), (&after, new_id)] {
            let bodies = format!("select body from run_events where run_id = '{run_id}'");
            let bodies = backend.ask(&bodies).await;
            assert!(bodies.iter().all(|body| body.starts_with(&format!("~1:{id}:"))), "{bodies:?}");
        }
        let second = store(&backend, OLD).await;
        assert_eq!(journal(&second, &before).await, events, "{}", backend.url);
        assert_eq!(journal(&second, &after).await, newer, "{}", backend.url);
    }
}

/// A17: many processes that need the key of a new tenant at once agree on one.
#[tokio::test]
async fn a_tenant_has_one_key() {
    let backend = Backend::postgres();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(store(&backend, OLD).await);
    }
    let created = stores.iter().enumerate().map(|(n, store)| async move {
        RunRecords::create(store, run_named(&format!("run_{n}"))).await.unwrap();
    });
    futures::future::join_all(created).await;
    assert_eq!(backend.ask("select id from tenant_keys").await.len(), 1);
    for n in 0..4 {
        let run_id = RunId::new(format!("run_{n}"));
        RunRecords::find(&stores[0], &tenant(), &run_id).await.unwrap();
    }
}

/// A17: workers without the key leave a run to one that has it and end nothing; that one goes on.
#[tokio::test]
async fn a_run_waits_for_a_worker_that_can_read_it() {
    for backend in Backend::both() {
        let url = backend.url.as_str();
        let first = store_with(&backend, OLD, LEASE).await;
        first.heartbeat().await.unwrap();
        let left = engine(&first, slow());
        let run_id = left.start(request()).await.unwrap().id().clone();
        until(&first, &tenant(), &run_id, |event| matches!(event, Event::TextAdded { .. })).await;

        let mut workers = Vec::new();
        for keys in ["", NEW] {
            let without = store_with(&backend, keys, LEASE).await;
            let runs = engine(&without, looking());
            runs.start_worker().await.unwrap();
            let n_declined = workers.len() + 1;
            let declined = async {
                let declined = "select reason from declined_runs";
                while backend.ask(declined).await.len() < n_declined {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(SOON, declined).await.expect("it is declined");
            workers.push((runs, without));
        }
        let reasons = backend.ask("select reason from declined_runs").await;
        assert!(
            reasons.iter().all(|why| why == "the key that it is encrypted with"),
            "{reasons:?}"
        );
        assert_eq!(backend.ask("select state from runs").await, ["active"], "{url}");

        let fourth = store_with(&backend, OLD, LEASE).await;
        let whole = engine(&fourth, looking());
        whole.start_worker().await.unwrap();
        let end = until(&fourth, &tenant(), &run_id, Event::ends_the_run).await;
        let Event::RunFinished { outcome, .. } = end else { unreachable!() };
        assert_eq!(outcome, RunOutcome::Completed, "{url}");
        assert!(journal(&fourth, &run_id).await.join("").contains("run_taken_over"), "{url}");
        assert_eq!(found_in(&dump(&backend).await), [""; 0], "{url}");
    }
}

/// A17: a run that nobody can read any more can still be cancelled.
#[tokio::test]
async fn a_run_without_its_key_can_be_cancelled() {
    let backend = Backend::sqlite();
    let first = store_with(&backend, OLD, LEASE).await;
    first.heartbeat().await.unwrap();
    let run_id = engine(&first, slow()).start(request()).await.unwrap().id().clone();
    until(&first, &tenant(), &run_id, |event| matches!(event, Event::TextAdded { .. })).await;
    let without = store_with(&backend, "", LEASE).await;
    without.enqueue(&tenant(), &run_id, RunCommand::Cancel).await.unwrap();
    let runs = engine(&without, looking());
    runs.start_worker().await.unwrap();
    let ended = async {
        while backend.ask("select state from runs").await != ["finished"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, ended).await.expect("it is cancelled");
    let whole = store(&backend, OLD).await;
    assert!(journal(&whole, &run_id).await.last().unwrap().contains("cancelled"));
}

/// A17: the journal of a run that was taken over is the same, byte for byte, whether it is stored
/// encrypted or not.
#[tokio::test]
async fn a_journal_is_the_same_with_and_without() {
    let backend = Backend::sqlite();
    let first = store_with(&backend, "", LEASE).await;
    first.heartbeat().await.unwrap();
    let run_id = engine(&first, slow()).start(request()).await.unwrap().id().clone();
    until(&first, &tenant(), &run_id, |event| matches!(event, Event::TextAdded { .. })).await;
    let second = store_with(&backend, "", LEASE).await;
    engine(&second, looking()).start_worker().await.unwrap();
    until(&second, &tenant(), &run_id, Event::ends_the_run).await;
    let events = second.read_stored(&tenant(), &run_id, Seq::START).await.unwrap();
    let plain = journal(&second, &run_id).await;
    assert!(plain.join("").contains("run_taken_over"));

    for backend in Backend::both() {
        let writer = store(&backend, OLD).await;
        RunRecords::create(&writer, run(run_id.as_str(), |_| {})).await.unwrap();
        for events in events.chunks(3) {
            writer.append(&tenant(), events.to_vec()).await.unwrap();
        }
        writer.close().await;
        let reader = store(&backend, OLD).await;
        assert_eq!(journal(&reader, &run_id).await, plain, "{}", backend.url);
        assert_eq!(found_in(&dump(&backend).await), [""; 0], "{}", backend.url);
    }
}

/// A17: runs are found by their text although the database cannot read it.
#[tokio::test]
async fn encrypted_runs_are_found_by_their_text() {
    for backend in Backend::both() {
        for keys in ["", OLD] {
            let store = store(&backend, keys).await;
            for (n, text) in ["Where is the KEY?", "What is for lunch?"].iter().enumerate() {
                let id = format!("run_{n}_{}", keys.len());
                let new = run(&id, |it| it.input = vec![Item::user(*text)]);
                RunRecords::create(&store, new).await.unwrap();
            }
            store.close().await;
        }
        let store = store(&backend, OLD).await;
        for (text, n_found) in [("the key", 2), ("what", 2), ("is", 4), ("a1", 0), ("~1:", 0)] {
            let filter = RunFilter { text: Some(text.to_owned()), ..RunFilter::default() };
            let query = RunQuery { filter: filter.clone(), ..listing() };
            let found = store.select(&tenant(), &query).await.unwrap().runs;
            assert_eq!(found.len(), n_found, "{} {text}", backend.url);
            let counts = store.count(&tenant(), &filter).await.unwrap();
            assert_eq!(counts.values().sum::<u64>(), n_found as u64, "{} {text}", backend.url);
        }
    }
}

fn listing() -> RunQuery {
    RunQuery { most: 100, ..RunQuery::default() }
}

/// A17: a text that looks encrypted is not, with and without encryption.
#[tokio::test]
async fn a_text_that_looks_encrypted_is_shown_as_it_is() {
    let texts = ["~1:0a1b2c3d:AAAA", "~1:", "~1:0a1b2c3d:"];
    for backend in Backend::both() {
        for keys in ["", OLD, ""] {
            let store = store(&backend, keys).await;
            if keys.is_empty() && backend.ask("select id from tenant_keys").await.is_empty() {
                for (n, text) in texts.iter().enumerate() {
                    let new = run(&format!("run_{n}"), |it| it.input = vec![Item::user(*text)]);
                    RunRecords::create(&store, new).await.unwrap();
                }
            } else if !keys.is_empty() {
                let of = TenantId::from("other");
                RunRecords::create(&store, run("run_x", |it| it.tenant = of)).await.unwrap();
            }
            let listed = store.select(&tenant(), &listing()).await.unwrap().runs;
            let mut shown: Vec<&str> = listed.iter().map(|run| run.text.as_str()).collect();
            shown.reverse();
            assert_eq!(shown, texts, "{} {keys:?}", backend.url);
            store.close().await;
        }
    }
}
