//! `turnwire serve`: runs the gateway until it is stopped.

mod descriptors;
mod greeting;
mod reload;
mod tool_servers;
mod watchdog;

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    net::SocketAddr,
};

use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_gateway::{ReloadCalls, Server, ServerError};

use self::{
    reload::{ReloadTriggers, ReloadedParts, Reloader, SettingsSource},
    watchdog::{SharedStore, Watchdog},
};
use super::watched::{LAST_MOMENT, runtime};
use crate::{
    args::ServeArguments,
    environment::Environment,
    exit::{Exit, Problem, Result},
    settings::ServeSettings,
    signals::{HangupSignals, Signals},
    telemetry,
    terminal::{Paint, tell, warn},
    wiring::{self, Gateway},
};

pub(crate) fn serve(arguments: &ServeArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stderr().is_terminal());
    let closed = serve_with(arguments, environment, ServeOutput { paint, json: arguments.json });
    closed.unwrap_or_else(|problem| problem.shown(paint))
}

/// Output format: for people, or JSON for scripts.
#[derive(Debug, Clone, Copy)]
struct ServeOutput {
    paint: Paint,
    json: bool,
}

impl ServeOutput {
    /// Prints a line for people only.
    fn say(self, line: &str) {
        if !self.json {
            tell(line);
        }
    }

    fn warn(self, warning: &str) {
        warn(self.paint, warning);
    }
}

fn serve_with(
    arguments: &ServeArguments,
    environment: &Environment,
    output: ServeOutput,
) -> Result<Exit> {
    telemetry::start_to_stay(environment, output.paint)?;
    let runtime = runtime()?;
    let served = runtime.block_on(Box::pin(async {
        // From before the settings are read: one that comes meanwhile makes them be read again.
        let hangups = HangupSignals::listen().map_err(unheard)?;
        let source = SettingsSource::new(arguments, environment);
        let settings = source.read()?;
        for warning in &settings.warnings {
            output.warn(warning);
        }
        let (reloads, calls) = ReloadCalls::channel();
        let gateway = wiring::gateway(&settings, Some(reloads)).await?;
        until_closed(gateway, settings, ReloadTriggers { source, hangups, calls }, output).await
    }));
    runtime.shutdown_timeout(LAST_MOMENT);
    served
}

async fn until_closed(
    gateway: Gateway,
    settings: ServeSettings,
    triggers: ReloadTriggers,
    output: ServeOutput,
) -> Result<Exit> {
    let Gateway { app, tool_servers, store, indexer, webhooks, traces, metrics, replaceable } =
        gateway;
    let mut signals = Signals::listen().map_err(unheard)?;
    let http = descriptors::fitting(settings.server_limits.http.clone());
    let server = Server::bind(settings.listen, app.clone(), http).await;
    let mut server = server.map_err(not_listening)?;
    if let Some(address) = settings.health_listen {
        server = server.with_health(address).await.map_err(not_listening)?;
    }
    let address = server.address().map_err(|error| {
        Problem::failure(format!("the listening address is not known: {error}"))
    })?;
    // From here on, runs may be taken over in both directions.
    app.runs()
        .start_worker()
        .await
        .map_err(|error| Problem::failure(format!("the store does not respond: {error}")))?;
    let recorded = app.record_start(settings.digest.clone()).await;
    recorded.map_err(|error| Problem::failure(format!("the audit log is not written: {error}")))?;
    begin(address, &settings, &app, output);
    let shared = settings.store.clone().zip(store.as_ref());
    let shared =
        shared.map(|(options, store)| SharedStore { options, worker: store.worker().to_owned() });
    let watchdog = Watchdog::start(app.runs().clone(), shared);
    let _watchdog = watchdog
        .map_err(|error| Problem::failure(format!("cannot start the watchdog: {error}")))?;
    let (background, stop) = (TaskTracker::new(), CancellationToken::new());
    background.spawn(indexer.run(stop.clone()));
    if let Some(webhooks) = webhooks {
        background.spawn(webhooks.run(stop.clone()));
    }
    if let Some(traces) = traces {
        background.spawn(traces.run(stop.clone()));
    }
    if let Some(metrics) = metrics {
        background.spawn(metrics.run(stop.clone()));
    }
    let mut serving = Box::pin(server.run());
    // Runs concurrently with serving, so that a slow tool server delays nothing.
    let of_settings = settings.tool_servers.clone();
    let mut connecting = Box::pin(tool_servers::connect(&tool_servers, &of_settings, output));
    let mut connected = false;
    let parts = ReloadedParts { replaceable, app: app.clone(), tool_servers: tool_servers.clone() };
    let reloader = Reloader::new(settings, address, parts, background.clone(), output);
    background.spawn(reloader.run(triggers));
    background.close();
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => break,
            () = &mut serving => return Err(Problem::failure("the server has stopped by itself")),
            () = &mut connecting, if !connected => connected = true,
        }
    }
    let runs_go = if store.is_some() { "left to others or to the next start" } else { "stopped" };
    output.say(&format!("closing: runs are {runs_go}, open streams end; again to end at once"));
    app.close();
    let closing = async {
        serving.await;
        stop.cancel();
        background.wait().await;
        tool_servers.shut_down().await;
        if let Some(store) = store {
            store.close().await;
        }
    };
    tokio::select! {
        biased;
        signal = signals.next() => Ok(signal.into()),
        () = closing => {
            output.say("closed");
            Ok(Exit::Done)
        }
    }
}

fn unheard(error: io::Error) -> Problem {
    Problem::failure(format!("cannot listen for signals: {error}"))
}

/// Announces the address: as JSON for scripts, or with hints for people.
fn begin(
    address: SocketAddr,
    settings: &ServeSettings,
    app: &turnwire_gateway::App,
    output: ServeOutput,
) {
    if output.json {
        let mut stdout = io::stdout().lock();
        // A closed standard output is not an error.
        let _ = writeln!(stdout, "{}", json!({ "listening": address.to_string() }));
        let _ = stdout.flush();
    }
    let tools = app.runs().tools().specs();
    let tools = tools.iter().map(|spec| spec.name.as_str()).collect();
    let served = greeting::Served { tools, needs_key: app.auth().is_known_to_need_key() };
    for line in greeting::lines(address, settings, &served, output.paint) {
        output.say(&line);
    }
}

fn not_listening(error: ServerError) -> Problem {
    match error {
        ServerError::NeedsKey(address) => Problem::usage(error.to_string())
            .hint(format!(
                "give it one: TURNWIRE_API_KEYS=$(openssl rand -hex 32) turnwire serve --listen \
                 {address}"
            ))
            .hint(
                "or name a variable that has one with api_keys_env under [server] in the settings",
            )
            .hint("or create one in the store: turnwire keys create --name NAME")
            .hint(format!(
                "or let only this machine in: turnwire serve --listen 127.0.0.1:{}",
                address.port()
            )),
        ServerError::Keys(_) => Problem::failure(error.to_string())
            .hint("check [store] in the settings, or TURNWIRE_STORE_URL"),
        ServerError::Listen { ref cause, .. } => {
            let hint = match cause.kind() {
                ErrorKind::AddrInUse => {
                    "another program listens there, perhaps another turnwire; --listen \
                     127.0.0.1:0 takes a free port"
                }
                ErrorKind::PermissionDenied => "ports below 1024 need special rights; take another",
                _ => "choose an address of this machine with --listen",
            };
            Problem::failure(error.to_string()).hint(hint)
        }
    }
}
