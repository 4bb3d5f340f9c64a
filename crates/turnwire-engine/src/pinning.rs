//! A server may change what its tools say of themselves after people have come to trust them.
//!
//! The first definition of a tool that a tenant meets is kept. One that is another later is
//! still offered, so that a person can be asked about it, but the model is not shown its words:
//! they may have been written to mislead it. Once a person has allowed a call of the changed
//! tool, its new definition is the trusted one.

use std::sync::Arc;

use tracing::warn;
use turnwire_contract::{PinnedTool, Pins, ToolSpec};

use crate::{
    definition::{definition_of, without_words},
    live_run::LiveRun,
};

/// What the model is told of a tool whose definition has changed.
const WITHHELD: &str = "This tool has changed since it was last trusted. A person is asked before \
                        it is called.";

/// Marks those of `tools`, all of one server, whose definitions are not the trusted ones. While
/// the store is away this waits: people would be asked about tools they have long trusted.
/// Nothing if the run is to stop or to be left meanwhile.
pub(crate) async fn mark_changed(
    pins: &dyn Pins,
    run: &LiveRun,
    server: &str,
    tools: &mut [ToolSpec],
) -> Option<()> {
    let met: Vec<PinnedTool> = tools.iter().map(pinned).collect();
    let trusted = run.retry_until_available(|| pins.meet(run.tenant(), server, &met)).await?;
    let trusted = trusted.unwrap_or_else(|error| {
        warn!(%error, %server, "pinned tool definitions unavailable");
        Vec::new()
    });
    for (spec, met) in tools.iter_mut().zip(met) {
        if !trusted.contains(&met) {
            warn!(%server, tool = %met.tool, "tool definition changed since it was pinned");
            withhold(spec);
        }
    }
    Some(())
}

fn pinned(spec: &ToolSpec) -> PinnedTool {
    PinnedTool { tool: spec.name.clone(), definition: definition_of(spec) }
}

fn withhold(spec: &mut ToolSpec) {
    spec.changed = Some(std::mem::replace(&mut spec.description, WITHHELD.to_owned()));
    spec.parameters = without_words(&spec.parameters);
}

/// Trusts the definition of a changed tool from now on, because a person has allowed a call of
/// it. `now` is what its server tells of it: if that has changed once more, nobody has seen it.
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
