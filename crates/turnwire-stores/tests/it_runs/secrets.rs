//! Secrets that a request brings for its tool server: encrypted, taken over, gone after the end.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;
use tokio::time::timeout;
use turnwire_contract::{
    DiscoveryOutcome, Event, Item, Leases, RunId, RunOutcome, RunRecords, RunRequest, SealedSecret,
    SecretBox, SecretError, SecretOwner, SecretText, ServerRef, ServerSecrets, ServerUse, TenantId,
    Tool, ToolError, ToolKind, ToolServers,
};
use turnwire_engine::{EngineParts, Runs, StartError};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{SecretKeys, Store};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::support::{Backend, until};

const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEW: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
const SECRET: &str = "Bearer canary-1f0c";
/// So long that nobody loses a run by being late.
const LONG: Duration = Duration::from_mins(1);
/// How long the runs of a dead worker stay its own.
const LEASE: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(20);

/// A server at any URL, which has the tool `look` and notes what it gets.
#[derive(Default)]
struct Recorder {
    got: Mutex<Vec<(RunId, String)>>,
    forgotten: Mutex<Vec<RunId>>,
}

#[async_trait]
impl ToolServers for Recorder {
    fn labels(&self, _: &TenantId) -> Vec<String> {
        Vec::new()
    }

    fn allows_url(&self, _: &TenantId, _: &str) -> bool {
        true
    }

    fn known_tools(&self, _: &TenantId, _: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        None
    }

    async fn tools(
        &self,
        _: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let access = server.access.expect("it has secrets");
        let headers = access.secrets.headers().map(|(_, value)| value.reveal().to_owned());
        self.got.lock().unwrap().extend(headers.map(|value| (access.run_id.clone(), value)));
        let tool = FakeTool::new("look", Behaviour::Returns("seen".to_owned()));
        let label = server.label.to_owned();
        let tool: Arc<dyn Tool> = Arc::new(tool.with(|spec| {
            spec.kind = ToolKind::Mcp;
            spec.server = Some(label);
        }));
        Ok(vec![tool])
    }

    fn forget_run(&self, run_id: &RunId) {
        self.forgotten.lock().unwrap().push(run_id.clone());
    }
}

fn keys(text: &str) -> Arc<dyn SecretBox> {
    Arc::new(SecretKeys::read(text).unwrap())
}

fn engine(
    store: &Store,
    secret_box: Option<Arc<dyn SecretBox>>,
    model: Scripted,
    servers: &Arc<Recorder>,
) -> Runs {
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store.clone()),
        servers: Arc::clone(servers) as Arc<dyn ToolServers>,
        secret_box,
        ..EngineParts::default()
    })
}

fn request() -> RunRequest {
    let mut secrets = ServerSecrets::default();
    secrets.add("Authorization", SecretText::new(SECRET));
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.servers = vec![ServerUse {
        url: Some("https://wiki.example.com/mcp".to_owned()),
        secrets: Some(secrets),
        ..ServerUse::all_of("wiki")
    }];
    request
}

fn looking() -> Scripted {
    Scripted::new([Turn::new().call("look", json!({})), Turn::new().text("Done.")])
}

fn slow() -> Scripted {
    Scripted::new([Turn::new().text("Let me ").wait_forever()])
}

async fn outcome_of(store: &Store, run_id: &RunId) -> RunOutcome {
    let is_end = |event: &Event| matches!(event, Event::RunFinished { .. });
    let Event::RunFinished { outcome, .. } =
        until(store, &TenantId::default(), run_id, is_end).await
    else {
        unreachable!("it was looked for")
    };
    outcome
}

/// Everything that the database has about runs.
async fn stored(backend: &Backend) -> String {
    let mut all = backend.ask("select request from runs").await;
    all.extend(backend.ask("select body from run_events").await);
    all.extend(backend.ask("select sealed from run_secrets").await);
    all.join("\n")
}

/// A6: secrets reach the server of the run and nothing else, and are gone in the transaction that
/// ends the run, whatever its end is.
#[tokio::test]
async fn secrets_are_used_and_gone() {
    for backend in Backend::both() {
        let [store, other]: [Store; 2] = backend.stores_with(2, LONG).await.try_into().unwrap();
        let servers = Arc::<Recorder>::default();
        let runs = engine(&store, Some(keys(OLD)), looking(), &servers);
        runs.start_worker().await.unwrap();
        let run = runs.start(request()).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed, "{}", backend.url);
        let got = servers.got.lock().unwrap().clone();
        assert!(!got.is_empty() && got.iter().all(|got| *got == (run.id().clone(), SECRET.into())));
        assert_eq!(*servers.forgotten.lock().unwrap(), [run.id().clone()]);

        let canceled = engine(&other, Some(keys(OLD)), slow(), &servers);
        canceled.start_worker().await.unwrap();
        let run = canceled.start(request()).await.unwrap();
        until(&other, &TenantId::default(), run.id(), |event| {
            matches!(event, Event::TextAdded { .. })
        })
        .await;
        let rows = store.secrets(&TenantId::default(), run.id()).await.unwrap();
        assert_eq!(rows.len(), 1, "{}", backend.url);
        assert!(!stored(&backend).await.contains("canary"), "{}", backend.url);
        canceled.cancel(&TenantId::default(), run.id()).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Cancelled);
        assert_eq!(*servers.forgotten.lock().unwrap().last().unwrap(), *run.id());

        assert_eq!(backend.ask("select run_id from run_secrets").await, [""; 0], "{}", backend.url);
        assert!(!stored(&backend).await.contains("canary"), "{}", backend.url);
    }
}

/// A6: a worker without the key leaves the run to one that has it, and that one goes on with the
/// secrets.
#[tokio::test]
async fn a_run_waits_for_a_worker_that_has_its_key() {
    for backend in Backend::both() {
        let [first, second, third, fourth]: [Store; 4] =
            backend.stores_with(4, LEASE).await.try_into().unwrap();
        first.heartbeat().await.unwrap();
        let servers = Arc::<Recorder>::default();
        let left = engine(&first, Some(keys(OLD)), slow(), &servers);
        let run_id = left.start(request()).await.unwrap().id().clone();
        until(&first, &TenantId::default(), &run_id, |event| {
            matches!(event, Event::TextAdded { .. })
        })
        .await;
        servers.got.lock().unwrap().clear();

        let mut without_key = Vec::new();
        for (store, known, lacks) in
            [(&second, Some(keys(NEW)), "key `"), (&third, None, "[secrets] in the settings")]
        {
            let without = engine(store, known, looking(), &servers);
            without.start_worker().await.unwrap();
            let found = async {
                loop {
                    let found = RunRecords::find(store, &TenantId::default(), &run_id).await;
                    if found.unwrap().stalled.is_some_and(|why| why.contains(lacks)) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(SOON, found).await.expect("it is declined");
            without_key.push(without);
        }
        assert!(servers.got.lock().unwrap().is_empty(), "{}", backend.url);

        let whole = engine(&fourth, Some(keys(&format!("{NEW},{OLD}"))), looking(), &servers);
        whole.start_worker().await.unwrap();
        assert_eq!(outcome_of(&fourth, &run_id).await, RunOutcome::Completed, "{}", backend.url);
        assert!(servers.got.lock().unwrap().contains(&(run_id, SECRET.to_owned())));
        assert_eq!(backend.ask("select run_id from run_secrets").await, [""; 0], "{}", backend.url);
    }
}

/// A6: secrets that were moved to another address are not sent there. The run goes on without the
/// server.
#[tokio::test]
async fn secrets_of_another_address_are_not_used() {
    for backend in Backend::both() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        first.heartbeat().await.unwrap();
        let servers = Arc::<Recorder>::default();
        let left = engine(&first, Some(keys(OLD)), slow(), &servers);
        let run_id = left.start(request()).await.unwrap().id().clone();
        until(&first, &TenantId::default(), &run_id, |event| {
            matches!(event, Event::TextAdded { .. })
        })
        .await;
        servers.got.lock().unwrap().clear();
        for (table, column) in [("runs", "request"), ("run_events", "body")] {
            let moved = format!(
                "update {table} set {column} = replace({column}, 'wiki.example', 'evil.example')
                 returning tenant"
            );
            assert!(!backend.ask(&moved).await.is_empty());
        }
        let next = engine(&second, Some(keys(OLD)), looking(), &servers);
        next.start_worker().await.unwrap();
        assert_eq!(outcome_of(&second, &run_id).await, RunOutcome::Completed, "{}", backend.url);
        assert!(servers.got.lock().unwrap().is_empty(), "{}", backend.url);
    }
}

/// Encrypts, and decrypts nothing: as if each row was changed in between.
struct Broken(SecretKeys);

impl SecretBox for Broken {
    fn seal(
        &self,
        owner: SecretOwner<'_>,
        secrets: &ServerSecrets,
    ) -> Result<SealedSecret, SecretError> {
        let sealed = self.0.seal(owner, secrets)?;
        Ok(SealedSecret { sealed: "AAAA".to_owned(), ..sealed })
    }

    fn open(
        &self,
        owner: SecretOwner<'_>,
        sealed: &SealedSecret,
    ) -> Result<ServerSecrets, SecretError> {
        self.0.open(owner, sealed)
    }

    fn knows_key(&self, key_id: &str) -> bool {
        self.0.knows_key(key_id)
    }
}

/// A6: secrets that were changed are an error of their server, which says so.
#[tokio::test]
async fn changed_secrets_are_an_error() {
    let backend = Backend::sqlite();
    let (store, servers) = (backend.store().await, Arc::<Recorder>::default());
    let broken: Arc<dyn SecretBox> = Arc::new(Broken(SecretKeys::read(OLD).unwrap()));
    let model = Scripted::new([Turn::new().text("Without it.")]);
    let runs = engine(&store, Some(broken), model, &servers);
    runs.start_worker().await.unwrap();
    let run = runs.start(request()).await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let listed = until(&store, &TenantId::default(), run.id(), |event| {
        matches!(event, Event::ToolsDiscovered { .. })
    })
    .await;
    let Event::ToolsDiscovered { outcome: DiscoveryOutcome::Failed { failure }, .. } = listed
    else {
        unreachable!("there are no secrets")
    };
    assert!(failure.message.contains("the secrets for the server `wiki`"), "{failure:?}");
    assert!(servers.got.lock().unwrap().is_empty());
}

/// A6: without a key, and for a server of the settings, secrets are refused before anything is
/// stored.
#[tokio::test]
async fn secrets_that_cannot_be_kept_are_refused() {
    let backend = Backend::sqlite();
    let (store, servers) = (backend.store().await, Arc::<Recorder>::default());
    let of_settings = || {
        let mut request = request();
        request.servers.iter_mut().for_each(|used| used.url = None);
        request
    };
    for (known, request) in [(None, request()), (Some(keys(OLD)), of_settings())] {
        let refused = engine(&store, known, looking(), &servers).start(request).await;
        assert!(matches!(refused, Err(StartError::Secrets(..))), "{refused:?}");
    }
    assert_eq!(backend.ask("select id from runs").await, [""; 0]);
}

/// A6: what a worker of an earlier version leaves behind is deleted with old runs.
#[tokio::test]
async fn secrets_that_were_left_are_deleted() {
    for backend in Backend::both() {
        let (store, servers) = (backend.store().await, Arc::<Recorder>::default());
        let runs = engine(&store, Some(keys(OLD)), slow(), &servers);
        runs.start_worker().await.unwrap();
        let run = runs.start(request()).await.unwrap();
        let left = "insert into run_secrets (tenant, run_id, server, key_id, sealed)
                    values ('default', 'run_gone', 's', 'k', 'x') returning run_id";
        backend.ask(left).await;
        store.forget_old_runs().await.unwrap();
        let kept = backend.ask("select run_id from run_secrets").await;
        assert_eq!(kept, [run.id().as_str()], "{}", backend.url);
        run.cancel();
        run.outcome().await;
    }
}
