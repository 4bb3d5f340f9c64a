//! Negative controls: gateways built with a fault that the checker must find.
//!
//! They prove that the checker can fail. A special build of the gateway reads the name of its fault
//! from `TURNWIRE_SEEDED_FAULT`. With `none`, nothing may be found under the same load.

use std::time::{Duration, Instant};

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use super::Harness;
use crate::{
    evidence::Verdict,
    nemesis::Plan,
    observations::FaultKind,
    options::Options,
    report::{ReportHeader, by_kind},
    seeded_fault::Fault,
    shapes::Shape,
};

/// The variable that names the fault.
pub const VARIABLE: &str = "TURNWIRE_SEEDED_FAULT";
/// The variable for the clock skew of a node: this many milliseconds times its number
/// (`TURNWIRE_SEEDED_NODE`).
pub const SKEW_VARIABLE: &str = "TURNWIRE_SEEDED_SKEW_MS";

/// Maximum time to find the fault.
const TIME: Duration = Duration::from_mins(1);
/// Duration of the faults before each check.
const ROUND: Duration = Duration::from_secs(12);

/// How long runs may take to end after a round; others count as stuck. A fault may show only in
/// this way.
const SETTLE: u64 = 25;

/// Returns the faults to inject that reveal a seeded fault; a mixture for none.
fn plan(fault: Option<Fault>) -> Plan {
    let faults = match fault {
        Some(Fault::NoFence) => {
            vec![(3, FaultKind::Stop), (2, FaultKind::BlackHole), (1, FaultKind::Kill)]
        }
        Some(Fault::NoReadBack) => vec![(1, FaultKind::CutAfterCommit)],
        Some(Fault::PublishBeforeCommit) => {
            vec![
                (6, FaultKind::Kill),
                (2, FaultKind::StoreKill),
                (2, FaultKind::Cut),
                (2, FaultKind::BlackHole),
            ]
        }
        Some(Fault::NotificationAsTruth) => {
            vec![(3, FaultKind::RedisFlush), (1, FaultKind::RedisKill), (3, FaultKind::RedisNoise)]
        }
        Some(
            Fault::WorkerClockLease
            | Fault::CursorOffByOne
            | Fault::DropOnOverflow
            | Fault::CancelThroughFence,
        ) => Vec::new(),
        Some(
            Fault::EndOutsideTransaction
            | Fault::StartAfterCall
            | Fault::TrustAnnotations
            | Fault::BlindRetry,
        ) => vec![(1, FaultKind::Kill)],
        None => vec![
            (24, FaultKind::Kill),
            (6, FaultKind::Stop),
            (3, FaultKind::Term),
            (1, FaultKind::StoreKill),
            (2, FaultKind::RedisFlush),
            (2, FaultKind::RedisNoise),
            (8, FaultKind::CutAfterCommit),
            (2, FaultKind::BlackHole),
        ],
    };
    Plan { faults, pause_ms: 100 }
}

/// Returns the fault with this name, or `None` for `none`.
fn fault_named(name: &str) -> anyhow::Result<Option<Fault>> {
    let known = Fault::ALL.into_iter().find(|fault| fault.name() == name);
    if known.is_none() && name != "none" {
        bail!("there is no fault `{name}`; --list-negative-controls names them");
    }
    Ok(known)
}

/// Runs gateways with the fault `name` until the checker finds a violation.
pub async fn control(options: &Options, name: &str) -> anyhow::Result<(ReportHeader, Verdict)> {
    let fault = fault_named(name)?;
    let mut environment = Vec::new();
    if fault.is_some() {
        environment.push((VARIABLE.to_owned(), name.to_owned()));
    }
    if fault == Some(Fault::WorkerClockLease) {
        environment.push((SKEW_VARIABLE.to_owned(), "3600000".to_owned()));
    }
    let options = &Options { settle: options.settle.min(SETTLE), ..options.clone() };
    let mut harness =
        Harness::start(&format!("negative control {name}"), options, &environment).await?;
    let begun = Instant::now();
    let plan = plan(fault);
    let mut verdict = Verdict::default();
    while verdict.violations.is_empty() && begun.elapsed() < TIME {
        let workload = harness.workload(Shape::any, None);
        let round = ROUND.min(TIME.saturating_sub(begun.elapsed()));
        harness
            .under_load(&workload, options.runs_at_once, async |injector, dice| {
                let stop = CancellationToken::new();
                let raging = async {
                    if plan.faults.is_empty() {
                        return stop.cancelled().await;
                    }
                    injector.inject(&plan, 0, &stop, dice).await;
                };
                let time = async {
                    tokio::time::sleep(round).await;
                    stop.cancel();
                };
                tokio::join!(raging, time);
            })
            .await;
        verdict = harness.close().await?;
        harness.renew();
    }
    harness.client.cluster.stop().await;
    let took = begun.elapsed();
    let found = by_kind(&verdict.violations);
    let words: Vec<String> = found.iter().map(|(kind, n)| format!("{n} {kind:?}")).collect();
    let words = format!("{} after {:.0} s", words.join(", "), took.as_secs_f64());
    harness.header.remarks.push(("found".to_owned(), words));
    let missed = match (fault, verdict.violations.is_empty()) {
        (None, false) => Some("something was found"),
        (Some(_), true) => Some("nothing was found"),
        (Some(_), false) if took > TIME => Some("it was found too late"),
        (None, true) | (Some(_), false) => None,
    };
    harness.header.missed.extend(missed.map(str::to_owned));
    Ok((harness.header, verdict))
}
