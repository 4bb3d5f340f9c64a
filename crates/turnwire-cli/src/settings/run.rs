//! Settings of `turnwire run`.

use std::{collections::BTreeMap, time::Duration};

use turnwire::{Effect, Limits};
use turnwire_tools::{EgressOptions, HttpFunctionOptions, McpServerOptions, WebSearchOptions};

use super::{
    file::{SettingsFile, all_of, located},
    functions::functions,
    mcp_files::servers,
    models::{Demo, ForCommand, ModelSettings, Provider, SCRIPTED, WATCHED_DEMO, choose, demo},
    sections::Sections,
};
use crate::{args::RunArguments, environment::Environment, exit::Result};

/// The validated settings of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunSettings {
    pub(crate) model: ModelSettings,
    /// Name of the requested model.
    pub(crate) model_name: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tool_servers: BTreeMap<String, McpServerOptions>,
    pub(crate) functions: Vec<HttpFunctionOptions>,
    pub(crate) web_search: Option<WebSearchOptions>,
    /// Allowed targets for URLs from a model or a request.
    pub(crate) egress: EgressOptions,
    pub(crate) limits: Limits,
    /// Effect classes whose tools need approval.
    pub(crate) ask_before: Vec<Effect>,
}

impl RunSettings {
    /// Reads the settings from flags, environment and file.
    pub(crate) fn read(
        arguments: &RunArguments,
        environment: &Environment,
        is_watched: bool,
    ) -> Result<Self> {
        let file = SettingsFile::find(arguments.config.as_deref())?;
        Self::of(arguments, environment, file.as_ref(), is_watched)
    }

    pub(super) fn of(
        arguments: &RunArguments,
        environment: &Environment,
        file: Option<&SettingsFile>,
        is_watched: bool,
    ) -> Result<Self> {
        let mut mistakes = Vec::new();
        let sections = Sections::read(file, &mut mistakes);
        let tool_servers = servers(&sections, &arguments.mcp_config, environment, &mut mistakes);
        let functions = functions(&sections.functions, environment, &mut mistakes);
        let web_search = sections.web_search.as_ref();
        let web_search =
            web_search.map(|search| search.with_environment(environment, &mut mistakes));
        let mut in_environment = Vec::new();
        let usual = if is_watched { WATCHED_DEMO } else { Demo::default() };
        let demo = demo(usual, environment, &mut in_environment);
        if !(mistakes.is_empty() && in_environment.is_empty()) {
            return Err(all_of(mistakes, in_environment, file));
        }
        let choice = arguments.model.as_deref().or(environment.get("TURNWIRE_MODEL"));
        let (model, model_name) = match choice {
            Some(SCRIPTED) => (ModelSettings::Scripted(demo), SCRIPTED.to_owned()),
            choice => {
                let chosen = choose(&sections.models, environment, choice, ForCommand::Run);
                let chosen = chosen.map_err(|problem| located(problem, file))?;
                (ModelSettings::Provider(chosen.0), chosen.1)
            }
        };
        Ok(Self {
            model,
            model_name,
            instructions: arguments.instructions.clone(),
            tool_servers,
            functions,
            web_search,
            egress: sections.egress,
            limits: narrowed(sections.limits.runs, arguments),
            ask_before: sections.approvals.ask_before,
        })
    }

    /// Returns the name of the model on the server.
    pub(crate) fn upstream_name(&self) -> &str {
        match &self.model {
            ModelSettings::Provider(Provider { upstreams, .. }) => {
                let named = upstreams.first().and_then(|upstream| upstream.model.as_deref());
                named.unwrap_or(&self.model_name)
            }
            ModelSettings::Scripted(_) => &self.model_name,
        }
    }
}

fn narrowed(mut limits: Limits, arguments: &RunArguments) -> Limits {
    if let Some(max_turns) = arguments.max_turns {
        limits.max_turns = max_turns.get();
    }
    if let Some(timeout) = arguments.timeout {
        limits.wall_clock = Duration::from_secs(timeout.get());
    }
    limits
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
