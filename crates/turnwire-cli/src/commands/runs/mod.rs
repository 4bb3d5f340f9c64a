//! `turnwire runs`: the runs of a server. With `--json`, what the server answers is printed as it
//! is.

mod list;
mod share;
mod show;

use std::io::{self, IsTerminal};

use serde_json::{Value, json};
use turnwire_surfaces::words;

use super::{
    output::{Output, one_line, word},
    watched::runtime,
};
use crate::{
    args::{ApproveArguments, RunsArguments, RunsCommand, RunsOneArguments},
    environment::Environment,
    exit::{Exit, Problem, Result},
    server_client::{ServerClient, connect, write_journal},
    terminal::{Colour, Paint},
};

pub(crate) fn runs(command: &RunsCommand, environment: &Environment) -> Exit {
    let common = match command {
        RunsCommand::List(arguments) => &arguments.common,
        RunsCommand::Show(arguments)
        | RunsCommand::Cancel(arguments)
        | RunsCommand::Export(arguments) => &arguments.common,
        RunsCommand::Approve(arguments) => &arguments.common,
        RunsCommand::Share(arguments) => &arguments.common,
    };
    let paint = Paint::choose(common.color, environment, io::stdout().is_terminal());
    execute(command, common, environment, paint).unwrap_or_else(|problem| problem.shown(paint))
}

fn execute(
    command: &RunsCommand,
    common: &RunsArguments,
    environment: &Environment,
    paint: Paint,
) -> Result<Exit> {
    let client = connect(common.server.server.as_ref(), environment, paint)?;
    let output = Output::new(paint, common.json);
    runtime()?.block_on(async {
        match command {
            RunsCommand::List(arguments) => list::list(&client, arguments, output).await,
            RunsCommand::Show(arguments) => show::show(&client, &arguments.run_id, output).await,
            RunsCommand::Cancel(arguments) => cancel(&client, arguments, output).await,
            RunsCommand::Approve(arguments) => approve(&client, arguments, output).await,
            RunsCommand::Share(arguments) => share::share(&client, arguments, output).await,
            RunsCommand::Export(arguments) => {
                write_journal(&client, &arguments.run_id, &mut io::stdout().lock()).await?;
                Ok(Exit::Done)
            }
        }
    })
}

async fn cancel(
    client: &ServerClient,
    arguments: &RunsOneArguments,
    output: Output,
) -> Result<Exit> {
    let path = ["v1", "runs", arguments.run_id.as_str(), "cancel"];
    let answer = client.post(&path, &json!({})).await?;
    let was_running = answer.get("done") == Some(&Value::from(true));
    let run_id = one_line(&arguments.run_id);
    output.print(&answer, || {
        if was_running {
            format!("{} {run_id} is being stopped", output.paint.colour(Colour::Yellow, "■"))
        } else {
            format!("{run_id} was over already")
        }
    });
    Ok(Exit::Done)
}

async fn approve(
    client: &ServerClient,
    arguments: &ApproveArguments,
    output: Output,
) -> Result<Exit> {
    let run_id = arguments.run_id.as_str();
    let call_id = match &arguments.call_id {
        Some(call_id) => call_id.clone(),
        None => only_waiting(client, run_id).await?,
    };
    let body = if arguments.deny {
        json!({ "decision": "deny", "reason": arguments.reason })
    } else {
        json!({ "decision": "approve", "remember": arguments.remember })
    };
    let answer = client.post(&["v1", "runs", run_id, "calls", &call_id, "approve"], &body).await?;
    let (mark, word) = if arguments.deny {
        (output.paint.colour(Colour::Red, "✗"), "denied")
    } else {
        (output.paint.colour(Colour::Green, "✓"), "approved")
    };
    output.print(&answer, || format!("{mark} {} is {word}", one_line(&call_id)));
    Ok(Exit::Done)
}

/// The call of a run that waits for an approval, if there is only one.
async fn only_waiting(client: &ServerClient, run_id: &str) -> Result<String> {
    let snapshot = client.get(&["v1", "runs", run_id], &[]).await?;
    let calls = snapshot.get("calls").and_then(Value::as_array).into_iter().flatten();
    let waiting: Vec<(&str, &str)> = calls
        .filter(|call| word(call, "state") == words::NEEDS_APPROVAL)
        .map(|call| (word(call, "call_id"), word(call, "tool")))
        .collect();
    match waiting.as_slice() {
        [(call_id, _)] => Ok((*call_id).to_owned()),
        [] => Err(Problem::failure("no call of this run waits for an approval")),
        several => {
            let problem = Problem::usage("several calls wait; name one of them");
            let lines = several.iter().map(|(id, tool)| format!("{id}  {tool}"));
            Err(Problem { details: lines.collect(), ..problem })
        }
    }
}
