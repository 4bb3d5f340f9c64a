//! `turnwire run`: runs one prompt and prints the answer to standard output. The exit code is the
//! outcome.
//!
//! The run is executed in this process, or by a server if one is named.

mod on_server;
mod question;

use std::{fs, path::Path, sync::Arc};

use turnwire::{Agent, Failure, IncompleteReason, RunOutcome};
use turnwire_surfaces::words;
use turnwire_tools::McpServers;

use self::question::question;
use crate::{
    args::RunArguments,
    commands::watched::{LAST_MOMENT, after_end, exit_of, runtime},
    environment::Environment,
    exit::{Exit, Problem, Result},
    server_client::connect_if_named,
    settings::{ModelSettings, RunSettings},
    signals::listen,
    telemetry,
    terminal::{Look, Streams},
    watch::{self, Answering, Asker, SEE_LOG, WatchEnd, WithoutTerminal, asker, broken, watch},
    wiring,
};

pub(crate) fn run(arguments: &RunArguments, environment: &Environment) -> Exit {
    let look = Look::choose(&arguments.display, environment, Streams::of_this_process());
    answer(arguments, environment, look).unwrap_or_else(|problem| problem.shown(look.paint))
}

fn answer(arguments: &RunArguments, environment: &Environment, look: Look) -> Result<Exit> {
    let has_log = telemetry::start(environment, look)?;
    if let Some(path) = &arguments.output {
        check_writable(path)?;
    }
    let server = connect_if_named(arguments.server.server.as_ref(), environment, look.paint)?;
    if let Some(client) = server {
        let watch_end = on_server::answer(&client, arguments, environment, look)?;
        return finished(watch_end, arguments, &AfterEnd { settings: None, has_log: true });
    }
    let settings = RunSettings::read(arguments, environment, look.stderr_is_terminal)?;
    let question = question(arguments.question.as_deref())?;
    let (agent, tool_servers) = wiring::agent(&settings)?;
    let runtime = runtime()?;
    let answering = Answering { policy: arguments.approve, otherwise: WithoutTerminal::Deny };
    let asker = asker(environment, look, answering, None);
    let watch_end =
        runtime.block_on(Box::pin(ask_here(agent, tool_servers, question, look, asker)));
    // Background tasks must not delay the exit.
    runtime.shutdown_timeout(LAST_MOMENT);
    finished(watch_end?, arguments, &AfterEnd { settings: Some(&settings), has_log })
}

/// What is known about the end of a run.
struct AfterEnd<'a> {
    /// The settings of a run of this process.
    settings: Option<&'a RunSettings>,
    has_log: bool,
}

fn finished(watch_end: WatchEnd, arguments: &RunArguments, end: &AfterEnd) -> Result<Exit> {
    if let (WatchEnd::Over { answer, outcome, .. }, Some(path)) = (&watch_end, &arguments.output) {
        keep(answer, outcome, path)?;
    }
    exit_of(watch_end, |outcome| match (outcome, end.settings) {
        (RunOutcome::Incomplete { reason }, Some(settings)) => {
            Problem::failure(words::run_outcome(outcome)).hint(after_limit(*reason, settings))
        }
        (RunOutcome::Failed { failure }, Some(settings)) => {
            let problem = after_failure(failure, settings);
            if end.has_log { problem } else { problem.hint(SEE_LOG) }
        }
        _ => after_end(outcome),
    })
}

/// Runs the question in this process.
async fn ask_here(
    agent: Agent,
    tool_servers: Arc<McpServers>,
    question: String,
    look: Look,
    asker: Asker,
) -> Result<WatchEnd> {
    let mut signals = listen()?;
    let run = agent.stream_chat(question).start().await.map_err(broken)?;
    let run = watch::local(agent.clone(), run).await?;
    // The engine first, then the tool servers.
    let clean_up = async {
        agent.shut_down().await;
        tool_servers.shut_down().await;
    };
    watch(run, look, asker, &mut signals, clean_up).await
}

/// Detects an invalid output path before the run.
fn check_writable(path: &Path) -> Result<()> {
    let place = path.parent().filter(|place| !place.as_os_str().is_empty());
    let why = match place {
        _ if path.is_dir() => "it is a directory",
        Some(place) if !place.is_dir() => "its directory does not exist",
        _ => return Ok(()),
    };
    Err(Problem::usage(format!("--output {}: {why}", path.display()))
        .hint("name a file in a directory that exists"))
}

/// Writes the answer to a file, if the run has one.
fn keep(answer: &str, outcome: &RunOutcome, path: &Path) -> Result<()> {
    match outcome {
        RunOutcome::Completed | RunOutcome::Incomplete { .. } => {}
        RunOutcome::Failed { .. } | RunOutcome::Cancelled => return Ok(()),
    }
    let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
    fs::write(path, format!("{answer}{end}")).map_err(|error| {
        Problem::failure(format!("cannot write the answer to {}: {error}", path.display()))
            .hint("it was printed to standard output, too")
    })
}

fn after_limit(reason: IncompleteReason, settings: &RunSettings) -> String {
    let limits = &settings.limits;
    match reason {
        IncompleteReason::MaxTurns => {
            format!("the limit is {}; raise it with --max-turns N", limits.max_turns)
        }
        IncompleteReason::InsufficientQuota => {
            "raise cost_per_month in [quotas], or wait for the next month".to_owned()
        }
        IncompleteReason::MaxCost => "raise max_cost in [limits], or ask for less".to_owned(),
        IncompleteReason::TimeLimit => {
            let seconds = limits.wall_clock.as_secs();
            format!("the limit is {seconds}s; raise it with --timeout SECONDS")
        }
        IncompleteReason::MaxOutputTokens => "ask for a shorter answer".to_owned(),
        IncompleteReason::MaxOutputBytes => {
            "ask for a shorter answer, or raise max_turn_output_bytes and max_run_output_bytes in \
             [limits]"
                .to_owned()
        }
        IncompleteReason::MaxToolCalls => {
            format!("the limit is {} calls; ask for less at once", limits.max_tool_calls)
        }
        IncompleteReason::RepeatedCall => {
            "the model went round in circles; ask in other words, or try another model".to_owned()
        }
        IncompleteReason::ContentFilter => "ask in other words, or try another model".to_owned(),
    }
}

fn after_failure(failure: &Failure, settings: &RunSettings) -> Problem {
    let problem = Problem::failure(failure.message.as_str());
    let server = match &settings.model {
        ModelSettings::Scripted(_) => "the demo".to_owned(),
        ModelSettings::Provider(provider) => provider.addresses(),
    };
    match failure.code.as_str() {
        "model_unavailable" => problem.hint(format!("check that {server} can be reached")),
        "model_rate_limited" | "model_overloaded" => problem.hint(match failure.retry_after_ms {
            Some(wait) => format!("ask again in {} s", wait.div_ceil(1_000)),
            None => "ask again in a while".to_owned(),
        }),
        "model_misconfigured" | "model_not_found" | "model_rejected" => problem.hint(format!(
            "`{}` was asked for at {server}; --model NAME asks for another, the key is in the \
             settings, and TURNWIRE_LOG=debug shows what the provider says",
            settings.upstream_name()
        )),
        "context_length_exceeded" => problem.hint("ask for less at once, or take another model"),
        "content_filtered" => problem.hint("ask in other words, or try another model"),
        "model_broke_off" | "model_silent" => problem.hint("ask again"),
        _ => problem,
    }
}
