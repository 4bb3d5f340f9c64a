//! Detects tools whose definition changes after it was trusted.
//!
//! The first definition that a tenant sees is pinned. If it changes, the tool is still offered, so
//! that a person can approve it, but its prose is hidden from the model because it may contain a
//! prompt injection. Approving a call of the changed tool pins the new definition.

use std::sync::Arc;

use tracing::warn;
use turnwire_contract::{PinnedTool, Pins, ToolSpec};

use crate::{
    definition::{definition_hash, without_words},
    live_run::LiveRun,
};

/// Description shown to the model for a changed tool.
const WITHHELD: &str = "This tool has changed since it was last trusted. A person is asked before \
                        it is called.";

/// Marks tools of one server whose definition differs from the pin. Retries while the store is
/// unavailable, to avoid approvals for trusted tools. Returns `None` if the run stops or is handed
/// over meanwhile.
pub(crate) async fn mark_changed(
    pins: &dyn Pins,
    run: &LiveRun,
    server: &str,
    tools: &mut [Arc<ToolSpec>],
) -> Option<()> {
    let met: Vec<PinnedTool> = tools.iter().map(|spec| pinned(spec)).collect();
    let trusted = run.retry_until_available(|| pins.meet(run.tenant(), server, &met)).await?;
    let trusted = trusted.unwrap_or_else(|error| {
        warn!(%error, %server, "pinned tool definitions unavailable");
        Vec::new()
    });
    for (spec, met) in tools.iter_mut().zip(met) {
        if !trusted.contains(&met) {
            warn!(%server, tool = %met.tool, "tool definition changed since it was pinned");
            withhold(Arc::make_mut(spec));
        }
    }
    Some(())
}

pub(crate) fn pinned(spec: &ToolSpec) -> PinnedTool {
    PinnedTool { tool: spec.name.clone(), definition: definition_hash(spec) }
}

fn withhold(spec: &mut ToolSpec) {
    spec.changed = Some(std::mem::replace(&mut spec.description, WITHHELD.to_owned()));
    spec.parameters = without_words(&spec.parameters);
}

/// Pins the definition of a changed tool after a person approved a call of it. `now` is the
/// server's current definition: if it has changed again, nothing is pinned.
pub(crate) async fn trust(pins: &dyn Pins, run: &LiveRun, spec: &ToolSpec, now: Option<&ToolSpec>) {
    let (Some(shown), Some(server), Some(now)) = (&spec.changed, &spec.server, now) else {
        return;
    };
    let mut as_shown = now.clone();
    withhold(&mut as_shown);
    if as_shown.changed.as_ref() != Some(shown) || as_shown.parameters != spec.parameters {
        return;
    }
    let request = Arc::clone(run.state().request());
    let server = request.server(server).identity();
    let trust = || pins.trust(run.tenant(), server, pinned(now));
    if let Some(Err(error)) = run.retry_until_available(trust).await {
        warn!(%error, "approval not stored, it will be asked for again");
    }
}
