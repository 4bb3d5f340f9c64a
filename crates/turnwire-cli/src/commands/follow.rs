//! `turnwire follow`: watches a run of a server, live or finished.

use turnwire::RunId;

use super::watched::{LAST_MOMENT, after_end, exit_of, runtime, tell_how_to_go_on};
use crate::{
    args::FollowArguments,
    environment::Environment,
    exit::{Exit, Result},
    server_client::{self, ServerClient, connect},
    signals::listen,
    telemetry,
    terminal::{Look, Streams},
    watch::{Answering, Asker, WatchEnd, WithoutTerminal, asker, watch},
};

pub(crate) fn follow(arguments: &FollowArguments, environment: &Environment) -> Exit {
    let look = Look::choose(&arguments.display, environment, Streams::of_this_process());
    follow_with(arguments, environment, look.detachable())
        .unwrap_or_else(|problem| problem.shown(look.paint))
}

fn follow_with(arguments: &FollowArguments, environment: &Environment, look: Look) -> Result<Exit> {
    telemetry::start(environment, look)?;
    let client = connect(arguments.server.server.as_ref(), environment, look.paint)?;
    let run_id = RunId::new(arguments.run_id.as_str());
    let runtime = runtime()?;
    let answering = Answering { policy: arguments.approve, otherwise: WithoutTerminal::Wait };
    let asker = asker(environment, look, answering, None);
    let watch_end = runtime.block_on(Box::pin(watch_run(&client, &run_id, look, asker)));
    runtime.shutdown_timeout(LAST_MOMENT);
    exit_of(watch_end?, after_end)
}

async fn watch_run(
    client: &ServerClient,
    run_id: &RunId,
    look: Look,
    asker: Asker,
) -> Result<WatchEnd> {
    let mut signals = listen()?;
    let run = server_client::follow(client, run_id);
    let watch_end = watch(run, look, asker, &mut signals, async {}).await?;
    tell_how_to_go_on(&watch_end, run_id, client);
    Ok(watch_end)
}
