//! `turnwire config check`: every mistake in the settings, at once.

use std::io::{self, IsTerminal};

use serde_json::json;
use turnwire_surfaces::{clean, wire_json_pretty};

use crate::{
    args::ConfigCheckArguments,
    commands::output::print_line,
    environment::Environment,
    exit::{Exit, Mistake, Problem, Result},
    settings::ServeSettings,
    terminal::Paint,
};

pub(super) fn check(arguments: &ConfigCheckArguments, environment: &Environment) -> Exit {
    let read = ServeSettings::read(&arguments.served.as_served(), environment);
    if arguments.json {
        print_line(&as_json(&read));
        return read.map_or_else(|problem| problem.exit, |_| Exit::Done);
    }
    match read {
        Ok(settings) => {
            print_line(&summary(&settings));
            Exit::Done
        }
        Err(problem) => {
            for mistake in &problem.details {
                // A message may quote the file, which may contain escape sequences.
                print_line(&clean(mistake));
            }
            let paint = Paint::choose(arguments.color, environment, io::stderr().is_terminal());
            Problem { details: Vec::new(), ..problem }.shown(paint)
        }
    }
}

fn as_json(read: &Result<ServeSettings>) -> String {
    let (mistakes, warnings) = match read {
        Ok(settings) => (Vec::new(), settings.warnings.clone()),
        Err(problem) if problem.mistakes.is_empty() => {
            let (file, line, path) = (None, None, None);
            let message = problem.message.clone();
            (vec![Mistake { file, line, path, message }], Vec::new())
        }
        Err(problem) => (problem.mistakes.clone(), Vec::new()),
    };
    wire_json_pretty(&json!({ "ok": read.is_ok(), "mistakes": mistakes, "warnings": warnings }))
}

/// What the settings have, on one line, after the warnings.
fn summary(settings: &ServeSettings) -> String {
    let counted = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    };
    let models = match settings.models.named.len() {
        0 => "a model from the environment".to_owned(),
        1 => "1 model".to_owned(),
        n => format!("{n} models"),
    };
    let parts = [
        Some(models),
        counted(settings.tool_servers.len(), "MCP server", "MCP servers"),
        counted(settings.functions.len(), "function", "functions"),
        counted(settings.webhooks.receivers.len(), "webhook", "webhooks"),
        settings.web_search.as_ref().map(|_| "web search".to_owned()),
        Some(store(settings)),
        Some(format!("listens on {}", settings.listen)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let warnings = settings.warnings.iter().map(|warning| format!("warning: {}", clean(warning)));
    let lines = warnings.chain([format!("no mistakes: {}", parts.join(", "))]);
    lines.collect::<Vec<_>>().join("\n")
}

/// The kind of the store. Its URL may have a password.
fn store(settings: &ServeSettings) -> String {
    let url = settings.store.as_ref().map(|store| store.url.as_str());
    let kind = match url {
        None => "in memory",
        Some(url) if url.starts_with("postgres") => "in PostgreSQL",
        Some(_) => "in SQLite",
    };
    format!("runs stored {kind}")
}
