//! The server of a chat that names none: in this process, on a port of the loopback that only this
//! process has the key to.
//!
//! It has the settings and the store of `turnwire serve`, so conversations can be continued later,
//! here or there.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_gateway::{App, AuthOptions, Server};
use turnwire_stores::Store;
use turnwire_tools::McpServers;
use uuid::Uuid;

use crate::{
    addresses::ServerAddress,
    args::{ChatArguments, ServeArguments},
    environment::Environment,
    exit::{Problem, Result},
    server_client::ServerClient,
    settings::ServeSettings,
    terminal::{Paint, warn},
    wiring::{self, Gateway},
};

/// Time to release runs and stop tool servers.
const CLOSING_TIME: Duration = Duration::from_secs(5);

pub(super) struct LocalServer {
    app: App,
    tool_servers: Arc<McpServers>,
    store: Option<Store>,
    address: SocketAddr,
    key: String,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl LocalServer {
    pub(super) async fn start(
        arguments: &ChatArguments,
        environment: &Environment,
        paint: Paint,
    ) -> Result<Self> {
        let options = ServeArguments {
            config: arguments.config.clone(),
            mcp_config: arguments.mcp_config.clone(),
            model: arguments.model.clone(),
            ..ServeArguments::default()
        };
        let mut settings = ServeSettings::read(&options, environment)?;
        for warning in &settings.warnings {
            warn(paint, warning);
        }
        let key = Uuid::new_v4().to_string();
        settings.auth = AuthOptions { api_keys: vec![key.clone()], ..AuthOptions::default() };
        let gateway = wiring::gateway(&settings, None).await?;
        let unusable = |why: String| Problem::failure(format!("the chat cannot start: {why}"));
        let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let http = settings.server_limits.http.clone();
        let server = Server::bind(free_port, gateway.app.clone(), http).await;
        let server = server.map_err(|error| unusable(error.to_string()))?;
        let address = server.address().map_err(|error| unusable(error.to_string()))?;
        let worker = gateway.app.runs().start_worker().await;
        worker.map_err(|error| unusable(error.to_string()))?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let Gateway { app, tool_servers, store, indexer, webhooks, traces, metrics, .. } = gateway;
        tasks.spawn(server.run());
        tasks.spawn(indexer.run(stop.clone()));
        if let Some(webhooks) = webhooks {
            tasks.spawn(webhooks.run(stop.clone()));
        }
        if let Some(traces) = traces {
            tasks.spawn(traces.run(stop.clone()));
        }
        if let Some(metrics) = metrics {
            tasks.spawn(metrics.run(stop.clone()));
        }
        tasks.close();
        Ok(Self { app, tool_servers, store, address, key, tasks, stop })
    }

    pub(super) fn client(&self) -> Result<ServerClient> {
        let address = ServerAddress::parse(&format!("http://{}", self.address));
        ServerClient::new(&address.map_err(Problem::failure)?, Some(&self.key))
    }

    /// Whether conversations are stored.
    pub(super) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Closes everything. Runs that are not over are left to the next start.
    pub(super) async fn close(self) {
        let Self { app, tool_servers, store, tasks, stop, .. } = self;
        app.close();
        stop.cancel();
        let closing = async {
            tasks.wait().await;
            tool_servers.shut_down().await;
            if let Some(store) = store {
                store.close().await;
            }
        };
        let _ = timeout(CLOSING_TIME, closing).await;
    }
}
