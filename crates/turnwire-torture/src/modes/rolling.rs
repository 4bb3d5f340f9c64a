//! Rolling restarts under load: every node exits on SIGTERM, and no client notices (C20).

use std::time::Duration;

use tokio::time::sleep;

use super::Harness;
use crate::{
    evidence::Verdict, observations::FaultKind, options::Options, report::ReportHeader,
    shapes::Shape,
};

/// Pause between two nodes.
const BETWEEN: Duration = Duration::from_millis(500);

/// Restarts every node this many times.
pub async fn rolling(options: &Options, n_rounds: u64) -> anyhow::Result<(ReportHeader, Verdict)> {
    let title = format!("{n_rounds} rolling restarts of {} nodes", options.nodes);
    let mut harness = Harness::start(&title, options, &[]).await?;
    let workload = harness.workload(Shape::any, None);
    harness
        .under_load(&workload, options.runs_at_once, async |injector, dice| {
            for _ in 0..n_rounds {
                for node in &injector.cluster.nodes {
                    sleep(BETWEEN).await;
                    let owned = injector.cluster.owned_by(node).await;
                    injector.inject_into_node(FaultKind::Term, node, owned, dice).await;
                }
            }
            sleep(BETWEEN).await;
        })
        .await;
    let verdict = harness.close().await?;
    harness.client.cluster.stop().await;
    let n_failed = verdict.figures.outcomes.get("failed").copied().unwrap_or_default();
    if n_failed > 0 {
        harness.header.missed.push(format!("{n_failed} runs failed"));
    }
    Ok((harness.header, verdict))
}
