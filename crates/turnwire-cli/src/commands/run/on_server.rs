//! `turnwire run --server`: the run is started on a server and watched from here.

use super::question::question;
use crate::{
    args::RunArguments,
    commands::watched::{LAST_MOMENT, refuse_with_server, runtime, tell_how_to_go_on},
    environment::Environment,
    exit::Result,
    server_client::{NewRun, ServerClient, follow_started, start},
    signals::listen,
    terminal::{Look, View, tell},
    watch::{Answering, WatchEnd, WithoutTerminal, asker, watch},
};

pub(super) fn answer(
    client: &ServerClient,
    arguments: &RunArguments,
    environment: &Environment,
    look: Look,
) -> Result<WatchEnd> {
    refuse_local_options(arguments)?;
    let question = question(arguments.question.as_deref())?;
    let look = look.detachable();
    let answering = Answering { policy: arguments.approve, otherwise: WithoutTerminal::Leave };
    let asker = asker(environment, look, answering, None);
    let new_run =
        NewRun { message: &question, model: arguments.model.as_deref(), conversation_id: None };
    let runtime = runtime()?;
    let watch_end = runtime.block_on(Box::pin(async {
        let mut signals = listen()?;
        let run_id = tokio::select! {
            biased;
            // Nothing was started, or nobody will know of it.
            signal = signals.next() => return Ok(WatchEnd::Left(signal)),
            started = start(client, new_run) => started?,
        };
        let run = follow_started(client, &run_id);
        let watch_end = watch(run, look, asker, &mut signals, async {}).await?;
        tell_how_to_go_on(&watch_end, &run_id, client);
        if matches!(watch_end, WatchEnd::Over { .. })
            && matches!(look.view, View::Live | View::Plain)
        {
            // For `turnwire follow`, `runs show` and `runs share`.
            tell(&look.paint.dim(&format!("  {run_id}")));
        }
        Ok(watch_end)
    }));
    runtime.shutdown_timeout(LAST_MOMENT);
    watch_end
}

/// The settings of the server decide about its tools and limits.
fn refuse_local_options(arguments: &RunArguments) -> Result<()> {
    let given = [
        (arguments.instructions.is_some(), "--instructions"),
        (arguments.max_turns.is_some(), "--max-turns"),
        (arguments.timeout.is_some(), "--timeout"),
        (arguments.config.is_some(), "--config"),
        (!arguments.mcp_config.is_empty(), "--mcp-config"),
    ];
    refuse_with_server(&given)
}
