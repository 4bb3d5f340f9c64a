//! For clients that cannot be asked.
//!
//! A call that a person has to allow waits for a person. Where nobody is shown the question,
//! nobody will answer it; so it is answered here, the model is told, and the run goes on.

use futures::StreamExt;
use tracing::warn;
use turnwire_contract::{Decision, Event, RunId, Seq};

use crate::{app::App, door::Caller};

/// What the model is told.
const NOBODY: &str = "nobody can be asked on this connection";

/// Says no to every call of the run that waits for a person.
pub(crate) fn decline_all(app: &App, caller: &Caller, run_id: &RunId) {
    let (runs, tenant, run_id) = (app.runs().clone(), caller.tenant().clone(), run_id.clone());
    app.tasks().spawn(async move {
        // A run that is not there any more asks nothing.
        let Ok(mut events) = runs.follow(&tenant, &run_id, Seq::START).await else { return };
        while let Some(Ok(recorded)) = events.next().await {
            let Event::ApprovalRequested { call_id } = &recorded.event else { continue };
            let decision = Decision::Denied { reason: NOBODY.to_owned() };
            if let Err(error) = runs.resolve(&tenant, &run_id, call_id, decision).await {
                warn!(%error, %run_id, %call_id, "A call waits for nobody.");
            }
        }
    });
}
