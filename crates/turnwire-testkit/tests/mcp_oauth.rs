//! Our MCP client against a server that lets nobody in without a token, and an authorization
//! server that does as it is told: what a login, a renewal and a refusal come to.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]
#![expect(dead_code, reason = "the other tests use the rest of it")]

mod mcp_world;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use mcp_world::{LABEL, call, known, names, one, tools, until};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::task::TaskTracker;
use turnwire_contract::{ToolError, ToolOutput};
use turnwire_testkit::mcp_server::{Generation, McpProps};
use turnwire_tools::{Grant, McpServerOptions, McpServers, OAuthOptions, Secret};

/// What the two servers know, and what they have seen.
#[derive(Default)]
struct World {
    port: u16,
    /// The tokens that are good.
    good: HashSet<String>,
    /// How many tokens were given, by kind of grant.
    given: BTreeMap<String, usize>,
    /// Who asked for a token, as they proved it.
    proofs: Vec<String>,
    n_tokens: usize,
    /// Whether tokens can be renewed.
    refuses_renewal: bool,
    /// How long a token is good, in seconds.
    lifetime: u64,
    /// What a token has to allow.
    scope: Option<String>,
}

type Shared = Arc<Mutex<World>>;

struct Servers {
    world: Shared,
    url: String,
    _tasks: TaskTracker,
}

impl Servers {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let world = Shared::new(Mutex::new(World { port, lifetime: 3600, ..World::default() }));
        let props = McpProps::new(None, Generation::Newer);
        let mcp = StreamableHttpService::new(
            move || Ok(props.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let guarded = Router::new()
            .nest_service("/mcp", mcp)
            .layer(from_fn_with_state(Arc::clone(&world), let_in));
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(about_the_server))
            .route("/.well-known/oauth-authorization-server", get(about_the_authority))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&world))
            .merge(guarded);
        let tasks = TaskTracker::new();
        tasks.spawn(async move { axum::serve(listener, router).await });
        Self { world, url: format!("http://127.0.0.1:{port}/mcp"), _tasks: tasks }
    }

    fn client(&self, oauth: OAuthOptions) -> McpServers {
        one(McpServerOptions::http(&self.url).with_oauth(oauth))
    }

    fn given(&self, grant: &str) -> usize {
        self.world.lock().unwrap().given.get(grant).copied().unwrap_or_default()
    }

    /// Every token that was given is good no longer.
    fn revoke_all(&self) {
        self.world.lock().unwrap().good.clear();
    }
}

fn at(world: &Shared, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", world.lock().unwrap().port)
}

async fn let_in(State(world): State<Shared>, request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let token = token.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let about = at(&world, "/.well-known/oauth-protected-resource/mcp");
    let (is_good, scope) = {
        let world = world.lock().unwrap();
        (world.good.contains(&token), world.scope.clone())
    };
    let refused = |status: StatusCode, more: &str| {
        let wanted = format!("Bearer resource_metadata=\"{about}\"{more}");
        (status, [(header::WWW_AUTHENTICATE, wanted)]).into_response()
    };
    match scope {
        _ if !is_good => refused(StatusCode::UNAUTHORIZED, ""),
        Some(scope) if !token.contains(&scope) => {
            let more = format!(", error=\"insufficient_scope\", scope=\"{scope}\"");
            refused(StatusCode::FORBIDDEN, &more)
        }
        _ => next.run(request).await,
    }
}

async fn about_the_server(State(world): State<Shared>) -> Json<Value> {
    let authority = at(&world, "");
    Json(json!({ "resource": at(&world, "/mcp"), "authorization_servers": [authority] }))
}

async fn about_the_authority(State(world): State<Shared>) -> Json<Value> {
    Json(json!({
        "issuer": at(&world, ""),
        "authorization_endpoint": at(&world, "/authorize"),
        "token_endpoint": at(&world, "/token"),
        "registration_endpoint": at(&world, "/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

async fn register(Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    let registered = json!({
        "client_id": "registered", "client_secret": "given", "redirect_uris": asked["redirect_uris"],
    });
    (StatusCode::CREATED, Json(registered))
}

/// A person who says yes at once.
async fn authorize(Query(asked): Query<BTreeMap<String, String>>) -> Redirect {
    let scope = asked.get("scope").map(|scope| scope.replace(' ', "+")).unwrap_or_default();
    assert_eq!(asked["code_challenge_method"], "S256");
    let back = format!("{}?code=code-{scope}&state={}", asked["redirect_uri"], asked["state"]);
    Redirect::to(&back)
}

async fn token(State(world): State<Shared>, headers: HeaderMap, form: String) -> Response {
    let asked = reqwest::Url::parse(&format!("http://form/?{form}")).unwrap();
    let asked: BTreeMap<String, String> = asked.query_pairs().into_owned().collect();
    let mut world = world.lock().unwrap();
    let grant = asked["grant_type"].clone();
    let proof = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    world.proofs.push(proof.unwrap_or("none").to_owned());
    if grant == "refresh_token" && world.refuses_renewal {
        let refused = json!({ "error": "invalid_grant" });
        return (StatusCode::BAD_REQUEST, Json(refused)).into_response();
    }
    *world.given.entry(grant.clone()).or_default() += 1;
    world.n_tokens += 1;
    let scope = asked.get("code").and_then(|code| code.strip_prefix("code-")).unwrap_or_default();
    let token = format!("token-{}-{scope}", world.n_tokens);
    world.good.insert(token.clone());
    let mut given =
        json!({ "access_token": token, "token_type": "Bearer", "expires_in": world.lifetime });
    if grant != "client_credentials" {
        given["refresh_token"] = json!(format!("renew-{}", world.n_tokens));
    }
    Json(given).into_response()
}

fn kept_in(folder: &TempDir) -> OAuthOptions {
    let token_file = Some(folder.path().join("tokens.json"));
    OAuthOptions { token_file, ..OAuthOptions::default() }
}

/// What a person does: opens the page, and is sent back.
async fn log_in(servers: &McpServers) {
    let login = servers.login(LABEL).await.unwrap();
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    let page = browser.get(login.authorization_url()).send();
    let both = async { tokio::join!(login.finish(), page) };
    let (finished, shown) = timeout(Duration::from_secs(10), both).await.unwrap();
    finished.unwrap();
    assert_eq!(shown.unwrap().status(), 200);
    servers.reconnect(LABEL);
}

async fn says(servers: &McpServers, text: &str) {
    let echo = call(servers, "echo", json!({ "text": text })).await;
    assert_eq!(echo, Ok(ToolOutput::text(text)));
}

/// A server that wants a login says so, and how; after it the tools are there, now and for those
/// who come later.
#[tokio::test]
async fn a_person_logs_in_once() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let servers = world.client(kept_in(&folder));
    let refused = tools(&servers).await.map(|tools| tools.len());
    let words = "the tool server `props` is not available: login required, run: turnwire mcp \
                 login props";
    assert_eq!(refused, Err(ToolError::Transient(words.to_owned())));
    assert!(servers.waits_for_login(LABEL));
    log_in(&servers).await;
    assert!(names(&tools(&servers).await.unwrap()).contains(&"echo"));
    assert!(!servers.waits_for_login(LABEL));
    says(&servers, "in").await;
    // Somebody else, with the same file.
    let later = world.client(kept_in(&folder));
    says(&later, "in as well").await;
    assert_eq!(world.given("authorization_code"), 1);
}

/// A running gateway is let in by the login of another process, without being told.
#[tokio::test]
async fn a_login_elsewhere_is_enough() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let gateway = world.client(kept_in(&folder));
    says(&logged_in(&world, &folder).await, "elsewhere").await;
    says(&gateway, "here").await;
    assert_eq!(world.given("authorization_code"), 1);
}

async fn logged_in(world: &Servers, folder: &TempDir) -> McpServers {
    let servers = world.client(kept_in(folder));
    log_in(&servers).await;
    servers
}

/// A token that is refused is renewed, with the secret that we were given at the login, and the
/// call does not notice.
#[tokio::test]
async fn a_refused_token_is_renewed() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    drop(logged_in(&world, &folder).await);
    let servers = world.client(kept_in(&folder));
    says(&servers, "with the first").await;
    world.revoke_all();
    says(&servers, "with the second").await;
    assert_eq!((world.given("authorization_code"), world.given("refresh_token")), (1, 1));
    // registered:given
    let proofs = world.world.lock().unwrap().proofs.clone();
    assert_eq!(proofs, ["Basic cmVnaXN0ZXJlZDpnaXZlbg=="; 2]);
}

/// A token that is about to end is renewed before it does.
#[tokio::test]
async fn a_token_is_renewed_in_time() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    world.world.lock().unwrap().lifetime = 5;
    drop(logged_in(&world, &folder).await);
    let servers = world.client(kept_in(&folder));
    says(&servers, "in").await;
    assert!(world.given("refresh_token") >= 1);
}

/// When nothing helps any more the model is told what the operator has to do, and after the next
/// login everything is as before.
#[tokio::test]
async fn a_login_that_has_ended_is_asked_for_again() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let servers = logged_in(&world, &folder).await;
    says(&servers, "in").await;
    world.world.lock().unwrap().refuses_renewal = true;
    world.revoke_all();
    let out = call(&servers, "echo", json!({ "text": "out" })).await;
    let words =
        "the server `props` refused the call: login required, run: turnwire mcp login props";
    assert_eq!(out, Err(ToolError::failed(words)));
    assert!(servers.waits_for_login(LABEL));
    log_in(&servers).await;
    says(&servers, "in again").await;
}

/// A right that is missing is asked for at the next login, beside those we have.
#[tokio::test]
async fn a_missing_right_is_asked_for() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let oauth = OAuthOptions { scopes: vec!["read".to_owned()], ..kept_in(&folder) };
    let servers = world.client(oauth);
    log_in(&servers).await;
    says(&servers, "read").await;
    world.world.lock().unwrap().scope = Some("write".to_owned());
    let out = call(&servers, "echo", json!({ "text": "out" })).await;
    assert!(matches!(out, Err(ToolError::Failed(_))), "{out:?}");
    drop(servers);
    // Whoever logs in need not be the one who was refused.
    let servers = world.client(kept_in(&folder));
    log_in(&servers).await;
    says(&servers, "write").await;
    let good = world.world.lock().unwrap().good.clone();
    assert!(good.contains("token-2-write read"), "{good:?}");
}

/// A machine needs no person, and gets another token when the first is no longer good.
#[tokio::test]
async fn a_machine_lets_itself_in() {
    let world = Servers::start().await;
    let servers = world.client(OAuthOptions {
        grant: Grant::ClientCredentials,
        client_id: Some("us".to_owned()),
        client_secret: Some(Secret::from("hush")),
        ..OAuthOptions::default()
    });
    says(&servers, "in").await;
    assert_eq!(world.given("client_credentials"), 1);
    world.revoke_all();
    let _one_may_fail = call(&servers, "echo", json!({ "text": "out" })).await;
    says(&servers, "in again").await;
    assert!(!servers.waits_for_login(LABEL));
    assert!(servers.login(LABEL).await.is_err(), "nobody has to");
    // us:hush
    let proofs = world.world.lock().unwrap().proofs.clone();
    assert_eq!(proofs[0], "Basic dXM6aHVzaA==");
}

/// A browser that comes with an answer to a question nobody asked changes nothing.
#[tokio::test]
async fn a_forged_answer_is_not_taken() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let servers = world.client(kept_in(&folder));
    let login = servers.login(LABEL).await.unwrap();
    let page = login.authorization_url().to_owned();
    let back = page.split("redirect_uri=").nth(1).unwrap().split('&').next().unwrap();
    let back = back.replace("%3A", ":").replace("%2F", "/");
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    let forging = async {
        let forged = format!("{back}?code=evil&state=guessed");
        assert_eq!(browser.get(forged).send().await.unwrap().status(), 200);
        assert_eq!(world.given("authorization_code"), 0);
        browser.get(page).send().await.unwrap();
    };
    let (finished, ()) = tokio::join!(login.finish(), forging);
    finished.unwrap();
    servers.reconnect(LABEL);
    says(&servers, "in").await;
    until(|| known(&servers)).await;
}

/// A person who says no has said no.
#[tokio::test]
async fn a_refusal_is_told() {
    let (world, folder) = (Servers::start().await, tempfile::tempdir().unwrap());
    let servers = world.client(kept_in(&folder));
    let login = servers.login(LABEL).await.unwrap();
    let refused = login.finish_with("http://127.0.0.1:1/callback?error=access_denied").await;
    assert_eq!(refused.unwrap_err().to_string(), "the login was refused: access_denied");
}
