//! One gateway process: start, kill, stop, terminate, restart.

use std::{
    fs::OpenOptions,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::proxy::Proxy;

/// How long a gateway may take to become ready.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// How a gateway is started.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    pub program: PathBuf,
    pub config: PathBuf,
    /// Path of the log file.
    pub log: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// A gateway process, running or not.
#[derive(Debug)]
pub struct Node {
    /// Its number, from 0.
    pub index: usize,
    /// Proxy of its database connections, if it has a database.
    pub proxy: Option<Proxy>,
    port: u16,
    config: NodeConfig,
    child: tokio::sync::Mutex<Option<Child>>,
    worker: Mutex<Option<String>>,
    is_up: AtomicBool,
    is_busy: AtomicBool,
    n_starts: AtomicU32,
}

impl Node {
    /// Creates a gateway that is not started yet.
    pub fn new(index: usize, port: u16, proxy: Option<Proxy>, config: NodeConfig) -> Self {
        Self {
            index,
            proxy,
            port,
            config,
            child: tokio::sync::Mutex::default(),
            worker: Mutex::default(),
            is_up: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            n_starts: AtomicU32::new(0),
        }
    }

    /// Returns the URL of `path` on this node.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns whether it became ready after its last start, without a fault since.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Returns the number of starts.
    pub fn n_starts(&self) -> u32 {
        self.n_starts.load(Ordering::Acquire)
    }

    /// Returns its worker id, if known.
    pub fn worker(&self) -> Option<String> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets its worker id.
    pub fn set_worker(&self, worker: Option<String>) {
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = worker;
    }

    /// Reserves the node for one fault. Returns whether it was free.
    pub fn reserve(&self) -> bool {
        self.is_up() && !self.is_busy.swap(true, Ordering::AcqRel)
    }

    pub fn release(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self, http: &reqwest::Client) -> anyhow::Result<()> {
        self.set_worker(None);
        let log = OpenOptions::new().create(true).append(true).open(&self.config.log)?;
        let mut command = Command::new(&self.config.program);
        command
            .args(["serve", "--json", "--listen", &format!("127.0.0.1:{}", self.port)])
            .arg("--config")
            .arg(&self.config.config)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_inherited(&name.to_string_lossy())))
            .envs(self.config.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let child =
            command.spawn().with_context(|| format!("{}", self.config.program.display()))?;
        *self.child.lock().await = Some(child);
        self.n_starts.fetch_add(1, Ordering::AcqRel);
        self.until_ready(http).await?;
        self.is_up.store(true, Ordering::Release);
        Ok(())
    }

    async fn until_ready(&self, http: &reqwest::Client) -> anyhow::Result<()> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let request = http.get(self.url("/readyz")).timeout(Duration::from_millis(500)).send();
            if request.await.is_ok_and(|answer| answer.status().is_success()) {
                break;
            }
            if let Some(child) = &mut *self.child.lock().await
                && let Some(status) = child.try_wait()?
            {
                bail!("node {} ended with {status}; see {}", self.index, self.config.log.display());
            }
            if Instant::now() > until {
                bail!("node {} is not ready; see {}", self.index, self.config.log.display());
            }
            sleep(Duration::from_millis(10)).await;
        }
        let request = http.get(self.url("/healthz")).timeout(Duration::from_secs(1)).send().await;
        if let Ok(answer) = request
            && let Ok(health) = answer.json::<Value>().await
        {
            let worker = health.get("worker").and_then(Value::as_str);
            self.set_worker(worker.map(ToOwned::to_owned));
        }
        Ok(())
    }

    /// Kills it with SIGKILL.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.is_up.store(false, Ordering::Release);
        if let Some(child) = &mut *self.child.lock().await {
            child.start_kill()?;
            child.wait().await?;
        }
        Ok(())
    }

    /// Sends SIGTERM and waits; kills it after the timeout.
    pub async fn terminate(&self, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
        self.is_up.store(false, Ordering::Release);
        self.signal("TERM").await?;
        let mut child = self.child.lock().await;
        let Some(child) = child.as_mut() else { return Ok(None) };
        if let Ok(status) = timeout(patience, child.wait()).await {
            return Ok(Some(status?));
        }
        child.start_kill()?;
        child.wait().await?;
        Ok(None)
    }

    /// Sends a signal by name.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.child.lock().await.as_ref().and_then(Child::id);
        let Some(pid) = pid else { return Ok(()) };
        let mut command = Command::new("kill");
        command.arg(format!("-{name}")).arg(pid.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().await?;
        Ok(())
    }
}

/// Settings in the caller's environment must not reach the gateways.
fn is_inherited(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | "TMPDIR" | "LANG" | "RUST_LOG" | "RUST_BACKTRACE")
}
