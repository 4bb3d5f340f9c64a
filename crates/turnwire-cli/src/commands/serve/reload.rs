//! Reads the settings again, on SIGHUP or when an operator asks for it, and puts them in force.
//!
//! One task does it, so two reloads never overlap. Everything is read, checked and built before any
//! of it is put in force: a mistake changes nothing.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::spawn_blocking, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};
use turnwire_contract::Actor;
use turnwire_gateway::{App, ReloadCall, ReloadRefused, ReloadReport};
use turnwire_surfaces::clean;
use turnwire_tools::{McpServerOptions, McpServers};

use super::{ServeOutput, tool_servers};
use crate::{
    args::ServeArguments,
    environment::Environment,
    exit::{Problem, Result},
    settings::ServeSettings,
    signals::HangupSignals,
    wiring::{Prepared, Replaceable},
};

/// How long the store is waited for.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the settings come from: flags and environment of the start, and the file as it is.
#[derive(Clone)]
pub(super) struct SettingsSource(Arc<(ServeArguments, Environment)>);

impl SettingsSource {
    pub(super) fn new(arguments: &ServeArguments, environment: &Environment) -> Self {
        Self(Arc::new((arguments.clone(), environment.clone())))
    }

    pub(super) fn read(&self) -> Result<ServeSettings> {
        let (arguments, environment) = &*self.0;
        ServeSettings::read(arguments, environment)
    }
}

/// What makes the settings be read again.
pub(super) struct ReloadTriggers {
    pub(super) source: SettingsSource,
    pub(super) hangups: HangupSignals,
    pub(super) calls: mpsc::Receiver<ReloadCall>,
}

/// What is reloaded.
pub(super) struct ReloadedParts {
    pub(super) replaceable: Replaceable,
    pub(super) app: App,
    pub(super) tool_servers: Arc<McpServers>,
}

/// Puts new settings in force.
pub(super) struct Reloader {
    /// What the server was started with. Some of it stays until the next start.
    started_with: ServeSettings,
    in_force: ServeSettings,
    address: SocketAddr,
    parts: ReloadedParts,
    tasks: TaskTracker,
    output: ServeOutput,
}

impl Reloader {
    pub(super) fn new(
        settings: ServeSettings,
        address: SocketAddr,
        parts: ReloadedParts,
        tasks: TaskTracker,
        output: ServeOutput,
    ) -> Self {
        let (started_with, in_force) = (settings.clone(), settings);
        Self { started_with, in_force, address, parts, tasks, output }
    }

    /// Reloads until the server shuts down. What comes later is not answered.
    pub(super) async fn run(mut self, triggers: ReloadTriggers) {
        let closing = self.parts.app.closing().clone();
        let reloading = Box::pin(self.reload_all(triggers));
        closing.run_until_cancelled(reloading).await;
    }

    async fn reload_all(&mut self, triggers: ReloadTriggers) {
        let ReloadTriggers { source, mut hangups, mut calls } = triggers;
        loop {
            let call = tokio::select! {
                () = hangups.next() => None,
                Some(call) = calls.recv() => Some(call),
            };
            let (actor, reply) = call.map(|call| (call.actor, call.reply)).unzip();
            let reloaded = self.reload(&source, actor.flatten()).await;
            if let Some(reply) = reply {
                // Whoever asked may be gone.
                let _ = reply.send(reloaded);
            }
        }
    }

    async fn reload(
        &mut self,
        source: &SettingsSource,
        actor: Option<Arc<Actor>>,
    ) -> Result<ReloadReport, ReloadRefused> {
        let reloaded = self.try_reload(source, actor).await;
        self.parts.app.note_reload(reloaded.is_ok());
        match &reloaded {
            Ok(report) => self.tell(report),
            Err(ReloadRefused::Mistakes(mistakes)) => {
                let count = counted(mistakes.len());
                error!("settings not reloaded: {count}");
                for mistake in mistakes {
                    error!(mistake = %clean(mistake), "mistake in the settings");
                }
            }
            Err(ReloadRefused::NotRecorded) => {
                error!("settings not reloaded: the store does not respond");
            }
        }
        reloaded
    }

    async fn try_reload(
        &mut self,
        source: &SettingsSource,
        actor: Option<Arc<Actor>>,
    ) -> Result<ReloadReport, ReloadRefused> {
        let source = source.clone();
        // The file may be on a disk that is slow.
        let read = spawn_blocking(move || source.read()).await;
        let read = read.map_err(|_| ReloadRefused::Mistakes(vec!["not read".to_owned()]))?;
        let settings = read.map_err(|problem| mistakes_of(&problem))?;
        if self.in_force.digest.is_some() && settings.digest.is_none() {
            // Without a file there would be no restriction either.
            let mistake = "the settings file is gone".to_owned();
            return Err(ReloadRefused::Mistakes(vec![mistake]));
        }
        let prepared = self.parts.replaceable.prepare(&settings);
        let prepared = prepared.map_err(|problem| mistakes_of(&problem))?;
        self.check_address(&prepared).await?;
        let record = self.parts.app.record_reload(actor, settings.digest.clone());
        let recorded = timeout(STORE_TIMEOUT, record).await;
        recorded.ok().and_then(Result::ok).ok_or(ReloadRefused::NotRecorded)?;
        let report = ReloadReport::new(
            self.in_force.reloadable_changes(&settings),
            self.started_with.fixed_changes(&settings),
            settings.digest.clone(),
        );
        self.put_in_force(settings, prepared);
        Ok(report)
    }

    /// Refuses settings by which anybody on the network could call the server.
    async fn check_address(&self, prepared: &Prepared) -> Result<(), ReloadRefused> {
        let auth = self.parts.app.auth();
        let asked = auth.may_stay_at(self.address, prepared.auth());
        match timeout(STORE_TIMEOUT, asked).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(ReloadRefused::Mistakes(vec![format!(
                "server.api_keys: {} can be reached from other machines, and there would be no \
                 API key",
                self.address
            )])),
            Ok(Err(_)) | Err(_) => Err(ReloadRefused::NotRecorded),
        }
    }

    /// From here on nothing fails and nothing is waited for.
    fn put_in_force(&mut self, settings: ServeSettings, prepared: Prepared) {
        let ReloadedParts { replaceable, app, tool_servers } = &mut self.parts;
        replaceable.put_in_force(prepared, app, tool_servers);
        let known = &self.in_force.tool_servers;
        let is_new =
            |(label, options): &(&String, &McpServerOptions)| known.get(*label) != Some(*options);
        let new = settings.tool_servers.iter().filter(is_new);
        self.connect(new.map(|(label, options)| (label.clone(), options.clone())).collect());
        for warning in &settings.warnings {
            self.output.warn(warning);
        }
        self.in_force = settings;
    }

    /// Connects to new tool servers in the background, so that the first run does not have to wait.
    fn connect(&self, new: BTreeMap<String, McpServerOptions>) {
        let (servers, output) = (Arc::clone(&self.parts.tool_servers), self.output);
        let closing = self.parts.app.closing().clone();
        self.tasks.spawn(closing.run_until_cancelled_owned(async move {
            tool_servers::connect(&servers, &new, output).await;
        }));
    }

    fn tell(&self, report: &ReloadReport) {
        let (changed, needs_restart) = (report.changed.join(", "), report.needs_restart.join(", "));
        info!(changed, needs_restart, "settings reloaded");
        if !needs_restart.is_empty() {
            warn!(needs_restart, "settings changed that need a restart");
        }
        let changed = if changed.is_empty() { "nothing changed" } else { &changed };
        self.output.say(&format!("settings reloaded: {changed}"));
    }
}

fn counted(n_mistakes: usize) -> String {
    if n_mistakes == 1 { "1 mistake".to_owned() } else { format!("{n_mistakes} mistakes") }
}

/// The mistakes in new settings. An error of the syntax quotes the line, which may have a secret in
/// it; that stays out.
fn mistakes_of(problem: &Problem) -> ReloadRefused {
    let is_quote = |line: &str| {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        rest.starts_with('|')
    };
    let details = problem.details.iter().filter(|line| !is_quote(line)).cloned();
    let mut mistakes: Vec<String> = details.collect();
    if mistakes.len() < problem.details.len() || mistakes.is_empty() {
        let details = mistakes.join(": ");
        let parts = [problem.message.as_str(), details.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        mistakes = vec![parts.join(": ")];
    }
    ReloadRefused::Mistakes(mistakes)
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
