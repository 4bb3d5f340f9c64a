//! What the commands that watch a run have in common: the runtime, and the end.

use std::time::Duration;

use tokio::runtime::Runtime;
use turnwire::{RunId, RunOutcome};
use turnwire_surfaces::words;

use crate::{
    exit::{Exit, Problem, Result},
    server_client::ServerClient,
    terminal::tell,
    watch::WatchEnd,
};

/// Maximum duration of the shutdown: enough to stop tool server processes, and too short to notice.
pub(crate) const LAST_MOMENT: Duration = Duration::from_millis(500);

pub(crate) fn runtime() -> Result<Runtime> {
    Runtime::new().map_err(|error| Problem::failure(format!("cannot start the runtime: {error}")))
}

/// Refuses options that only a run in this process can have; `given` says which there are.
pub(crate) fn refuse_with_server(given: &[(bool, &str)]) -> Result<()> {
    let Some((_, name)) = given.iter().find(|(is_given, _)| *is_given) else { return Ok(()) };
    let problem = format!("{name} works only in this process; with a server its settings decide");
    Err(Problem::usage(problem).hint("leave out --server, or put nothing into TURNWIRE_SERVER"))
}

/// The exit code of a run that was watched. `describe` words an outcome that is no success.
pub(crate) fn exit_of(
    watch_end: WatchEnd,
    describe: impl FnOnce(&RunOutcome) -> Problem,
) -> Result<Exit> {
    match watch_end {
        WatchEnd::Left(signal) => Ok(signal.into()),
        WatchEnd::NobodyReads | WatchEnd::Detached => Ok(Exit::Done),
        WatchEnd::NeedsPerson => Ok(Exit::NeedsPerson),
        WatchEnd::Over { outcome, stopped_by, .. } => match outcome {
            RunOutcome::Completed => Ok(Exit::Done),
            // Stopped by somebody else, it is stopped all the same.
            RunOutcome::Cancelled => Ok(stopped_by.map_or(Exit::Failed, Exit::from)),
            RunOutcome::Incomplete { .. } | RunOutcome::Failed { .. } => Err(describe(&outcome)),
        },
    }
}

/// The problem of a run on a server, whose operator has the details.
pub(crate) fn after_end(outcome: &RunOutcome) -> Problem {
    match outcome {
        RunOutcome::Failed { failure } => Problem::failure(failure.message.as_str()),
        RunOutcome::Completed | RunOutcome::Cancelled | RunOutcome::Incomplete { .. } => {
            Problem::failure(words::run_outcome(outcome))
        }
    }
}

/// After a run was left, says how to come back to it.
pub(crate) fn tell_how_to_go_on(watch_end: &WatchEnd, run_id: &RunId, client: &ServerClient) {
    let base = client.base();
    match watch_end {
        WatchEnd::Detached => {
            tell(&format!("detached. Follow with: turnwire follow {run_id} --server {base}"));
            tell(&format!("Stop with: turnwire runs cancel {run_id} --server {base}"));
        }
        WatchEnd::NeedsPerson => {
            tell("the run waits for a person, and there is no terminal to ask one");
            tell(&format!("Answer with: turnwire follow {run_id} --server {base}"));
        }
        WatchEnd::Over { .. } | WatchEnd::Left(_) | WatchEnd::NobodyReads => {}
    }
}
