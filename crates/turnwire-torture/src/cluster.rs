//! The test cluster: database, Redis, model server, tool server and gateways.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use sqlx::{
    PgPool, Row,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};
use turnwire_contract::RunId;
use turnwire_testkit::services::{Postgres, Redis, free_port};

use crate::{
    dice::Dice,
    node::{Node, NodeConfig},
    options::Options,
    proxy::Proxy,
};

/// How long a helper process may take to report its address.
const START_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<Arc<Node>>,
    /// HTTP client for requests to the gateways.
    pub http: reqwest::Client,
    /// Direct connections to the database.
    pub pool: Option<PgPool>,
    pub lease: Duration,
    postgres: Option<Arc<Mutex<Postgres>>>,
    redis: Option<Arc<Mutex<Redis>>>,
    tool_log: PathBuf,
    _helpers: Vec<Child>,
    _directory: Option<TempDir>,
}

impl Cluster {
    /// Starts everything. `environment` is added to the gateways' environment.
    pub async fn start(
        options: &Options,
        environment: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let (folder, directory) = folder(options)?;
        let program = Programs::of(options)?;
        let (postgres, redis) = servers(options).await?;
        let (models, model_server) = model_server(&program.upstreams).await?;
        let tool_log = folder.join("tools.jsonl");
        let (tool_port, tool_server) = tool_server(&program.mcp_props, &tool_log).await?;
        // Connections to a killed node must not be reused.
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(1))
            .pool_idle_timeout(Duration::from_secs(2))
            .build()?;
        let mut nodes = Vec::new();
        for index in 0..options.nodes {
            let proxy = match &postgres {
                Some(postgres) => Some(Proxy::to(postgres.port()).await?),
                None => None,
            };
            let store = proxy
                .as_ref()
                .map(|proxy| format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port()));
            let fanout = redis.as_ref().map(Redis::url);
            let other = options.other_gateway.as_ref().filter(|_| index % 2 == 1);
            let (store, fanout) = (store.as_deref(), fanout.as_deref());
            let settings = settings(&models, tool_port, store, fanout, options, other.is_some());
            let config = folder.join(format!("node-{index}.toml"));
            std::fs::write(&config, settings)?;
            let log = folder.join(format!("node-{index}.log"));
            let mut environment = environment.to_vec();
            environment.push(("TURNWIRE_SEEDED_NODE".to_owned(), index.to_string()));
            let program = other.unwrap_or(&program.gateway).clone();
            let config = NodeConfig { program, config, log, environment };
            nodes.push(Arc::new(Node::new(index, free_port(), proxy, config)));
        }
        let pool = postgres.as_ref().map(|postgres| pool(postgres.port()));
        let cluster = Self {
            nodes,
            http,
            pool,
            lease: Duration::from_millis(options.lease_ms),
            postgres: postgres.map(|server| Arc::new(Mutex::new(server))),
            redis: redis.map(|server| Arc::new(Mutex::new(server))),
            tool_log,
            _helpers: vec![model_server, tool_server],
            _directory: directory,
        };
        // Sequentially: the first node runs the migrations.
        for node in &cluster.nodes {
            cluster.start_node(node).await?;
        }
        Ok(cluster)
    }

    /// Starts a node and determines its worker id. A restart is retried, because the database may
    /// be unavailable.
    pub async fn start_node(&self, node: &Node) -> anyhow::Result<()> {
        let until = Instant::now() + START_TIMEOUT;
        let is_new = node.n_starts() == 0;
        while let Err(error) = node.start(&self.http).await {
            if is_new || Instant::now() > until {
                return Err(error);
            }
            sleep(Duration::from_millis(200)).await;
        }
        if node.worker().is_none() && self.pool.is_some() {
            node.set_worker(self.find_worker(node).await);
        }
        Ok(())
    }

    /// Determines the worker id of a node that does not report it, from a run that it executes.
    async fn find_worker(&self, node: &Node) -> Option<String> {
        let body = json!({ "model": "default", "input": "Who are you?", "background": true });
        let request = self.http.post(node.url("/v1/responses")).json(&body);
        let answer = request.timeout(Duration::from_secs(5)).send().await.ok()?;
        let answer: Value = answer.json().await.ok()?;
        let run = answer.get("id")?.as_str()?.replacen("resp_", "run_", 1);
        let query = sqlx::query("select worker from runs where id = $1").bind(run);
        query.fetch_optional(self.pool.as_ref()?).await.ok()??.try_get("worker").ok()
    }

    /// Returns a random running node, or any node if none is running.
    pub fn any_node(&self, dice: &mut Dice) -> anyhow::Result<&Arc<Node>> {
        let up: Vec<&Arc<Node>> = self.nodes.iter().filter(|node| node.is_up()).collect();
        let node = dice.pick(&up).copied().or_else(|| dice.pick(&self.nodes));
        node.ok_or_else(|| anyhow!("there are no nodes"))
    }

    /// Returns the runs leased to a node, from the database.
    pub async fn owned_by(&self, node: &Node) -> Vec<RunId> {
        let (Some(pool), Some(worker)) = (&self.pool, node.worker()) else { return Vec::new() };
        let query = "select id from runs where state = 'active' and worker = $1";
        let rows = sqlx::query(query).bind(worker).fetch_all(pool).await.unwrap_or_default();
        let ids = rows.iter().filter_map(|row| row.try_get::<String, _>("id").ok());
        ids.map(|id| RunId::new(id.as_str())).collect()
    }

    /// Returns the path of the tool server's log.
    pub fn tool_log(&self) -> &Path {
        &self.tool_log
    }

    /// Runs `action` on the database server, on a blocking thread.
    pub async fn with_postgres(&self, action: fn(&mut Postgres)) -> anyhow::Result<()> {
        let Some(postgres) = self.postgres.clone() else { bail!("there is no database") };
        let done = tokio::task::spawn_blocking(move || action(&mut lock(&postgres)));
        Ok(done.await?)
    }

    /// Runs `action` on Redis, on a blocking thread.
    pub async fn with_redis(&self, action: fn(&mut Redis)) -> anyhow::Result<()> {
        let Some(redis) = self.redis.clone() else { bail!("there is no Redis") };
        let done = tokio::task::spawn_blocking(move || action(&mut lock(&redis)));
        Ok(done.await?)
    }

    pub fn redis_port(&self) -> Option<u16> {
        self.redis.as_ref().map(|redis| lock(redis).port())
    }

    pub async fn stop(&self) {
        for node in &self.nodes {
            // They are killed on drop in any case.
            let _ = node.kill().await;
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Paths of the started programs.
struct Programs {
    gateway: PathBuf,
    upstreams: PathBuf,
    mcp_props: PathBuf,
}

impl Programs {
    fn of(options: &Options) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let beside = own.parent().context("this program is somewhere")?.to_owned();
        let programs = options.programs.clone().unwrap_or(beside);
        let gateway = options.gateway.clone().unwrap_or_else(|| programs.join("turnwire"));
        let (upstreams, mcp_props) = (programs.join("upstreams"), programs.join("mcp-props"));
        for program in [&gateway, &upstreams, &mcp_props] {
            if !program.exists() {
                bail!("there is no {}; scripts/torture builds it", program.display());
            }
        }
        Ok(Self { gateway, upstreams, mcp_props })
    }
}

fn folder(options: &Options) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    if let Some(keep) = &options.keep {
        std::fs::create_dir_all(keep)?;
        return Ok((keep.clone(), None));
    }
    let directory = tempfile::Builder::new().prefix("turnwire-torture").tempdir()?;
    Ok((directory.path().to_owned(), Some(directory)))
}

async fn servers(options: &Options) -> anyhow::Result<(Option<Postgres>, Option<Redis>)> {
    if options.in_memory {
        return Ok((None, None));
    }
    let postgres = tokio::task::spawn_blocking(Postgres::start).await?;
    let redis = if options.no_redis {
        None
    } else {
        Some(tokio::task::spawn_blocking(Redis::start).await?)
    };
    Ok((Some(postgres), redis))
}

fn pool(port: u16) -> PgPool {
    let way = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port);
    let way = way.username("postgres").database("postgres");
    let pool = PgPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(10));
    pool.connect_lazy_with(way)
}

async fn model_server(program: &Path) -> anyhow::Result<(String, Child)> {
    let (line, child) = first_line(&mut Command::new(program)).await?;
    let addresses: Value = serde_json::from_str(&line).context("the model server's addresses")?;
    let models = addresses.get("models").and_then(Value::as_str).context("its address")?;
    Ok((models.to_owned(), child))
}

async fn tool_server(program: &Path, log: &Path) -> anyhow::Result<(u16, Child)> {
    let mut command = Command::new(program);
    command.args(["--http", "0", "--effects"]).env("MCP_PROPS_LOG", log);
    let (line, child) = first_line(&mut command).await?;
    Ok((line.trim().parse().context("the tool server's port")?, child))
}

/// Starts a program and waits for its first line.
async fn first_line(command: &mut Command) -> anyhow::Result<(String, Child)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let output = child.stdout.take().context("its output")?;
    let mut lines = BufReader::new(output).lines();
    let line = timeout(START_TIMEOUT, lines.next_line()).await.context("it says nothing")??;
    Ok((line.context("it ended")?, child))
}

fn settings(
    models: &str,
    tool_port: u16,
    store: Option<&str>,
    fanout: Option<&str>,
    options: &Options,
    is_other: bool,
) -> String {
    let lease_ms = options.lease_ms;
    // Another version may not know this setting.
    let compact = if is_other { "" } else { "compact_after_seconds = 60\n" };
    let store = match store {
        Some(url) => format!("[store]\nurl = \"{url}\"\nlease_ms = {lease_ms}\n{compact}\n"),
        None => "[store]\nurl = \"memory:\"\n\n".to_owned(),
    };
    let fanout = fanout.map(|url| format!("[fanout]\nurl = \"{url}\"\n\n"));
    let fanout = fanout.unwrap_or_default();
    format!(
        "{store}{fanout}[limits]\nmax_recoveries = 1000\n\n[models.default]\nkind = \"chat_completions\"\nbase_url = \"{models}\"\n\
         model = \"scripted\"\n\n[mcp_servers.tools]\nurl = \
         \"http://127.0.0.1:{tool_port}/mcp\"\nenabled_tools = [\"look\", \"deposit\", \"send\", \
         \"risky\", \"sly\"]\nrequire_approval = [\"risky\"]\ntools.look = {{ effect = \"pure\" \
         }}\ntools.deposit = {{ effect = \"idempotent\" }}\n"
    )
}
