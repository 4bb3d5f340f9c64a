//! Negative controls: gateways that were built with a fault, which the checker has to find.
//!
//! A checker that never complains proves nothing. The gateway of a special build reads the name
//! of its fault from `TURNWIRE_SEEDED_FAULT`; with `none` nothing may be found, under the very
//! same damage.

use std::time::{Duration, Instant};

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use super::Stage;
use crate::{
    evidence::Verdict,
    nemesis::Plan,
    observations::Deed,
    options::Options,
    report::{Setting, by_kind},
    shapes::Shape,
};

/// The variable that names the fault.
pub const VARIABLE: &str = "TURNWIRE_SEEDED_FAULT";
/// The variable that sets the clock of a node wrong, by so many milliseconds times its number
/// (`TURNWIRE_SEEDED_NODE`).
pub const SKEW_VARIABLE: &str = "TURNWIRE_SEEDED_SKEW_MS";

/// How long the checker has.
const TIME: Duration = Duration::from_mins(1);
/// How long there is damage before everything is looked at.
const ROUND: Duration = Duration::from_secs(12);

/// Every fault there is.
pub const NAMES: [&str; 11] = [
    "no_fence",
    "publish_before_commit",
    "redis_as_truth",
    "worker_clock_lease",
    "end_outside_transaction",
    "no_read_back",
    "cancel_through_fence",
    "start_after_call",
    "trust_annotations",
    "cursor_off_by_one",
    "drop_on_overflow",
];

/// The damage that brings a fault to light.
fn plan(name: &str) -> Plan {
    let deeds = match name {
        "no_fence" => vec![(3, Deed::Stop), (2, Deed::BlackHole), (1, Deed::Kill)],
        "no_read_back" => vec![(1, Deed::CutAfterCommit)],
        "publish_before_commit" => {
            vec![(6, Deed::Kill), (2, Deed::StoreKill), (2, Deed::Cut), (2, Deed::BlackHole)]
        }
        "redis_as_truth" => {
            vec![(3, Deed::RedisFlush), (1, Deed::RedisKill), (3, Deed::RedisNoise)]
        }
        "worker_clock_lease"
        | "cursor_off_by_one"
        | "drop_on_overflow"
        | "cancel_through_fence" => Vec::new(),
        "end_outside_transaction" | "start_after_call" | "trust_annotations" => {
            vec![(1, Deed::Kill)]
        }
        _ => vec![
            (24, Deed::Kill),
            (6, Deed::Stop),
            (3, Deed::Term),
            (1, Deed::StoreKill),
            (2, Deed::RedisFlush),
            (2, Deed::RedisNoise),
            (8, Deed::CutAfterCommit),
            (2, Deed::BlackHole),
        ],
    };
    Plan { deeds, pause_ms: 100 }
}

/// Lets gateways with the fault `name` work until the checker has found something.
pub async fn control(options: &Options, name: &str) -> anyhow::Result<(Setting, Verdict)> {
    if name != "none" && !NAMES.contains(&name) {
        bail!("there is no fault `{name}`; --list-negative-controls names them");
    }
    let environment = match name {
        "none" => Vec::new(),
        "worker_clock_lease" => vec![
            (VARIABLE.to_owned(), name.to_owned()),
            (SKEW_VARIABLE.to_owned(), "3600000".to_owned()),
        ],
        _ => vec![(VARIABLE.to_owned(), name.to_owned())],
    };
    let mut stage = Stage::set(&format!("negative control {name}"), options, &environment).await?;
    let begun = Instant::now();
    let plan = plan(name);
    let mut verdict = Verdict::default();
    while verdict.violations.is_empty() && begun.elapsed() < TIME {
        let workload = stage.workload(Shape::any, None);
        let round = ROUND.min(TIME.saturating_sub(begun.elapsed()));
        stage
            .under_load(&workload, options.runs_at_once, async |avenger, dice| {
                let stop = CancellationToken::new();
                let raging = async {
                    if plan.deeds.is_empty() {
                        return stop.cancelled().await;
                    }
                    avenger.rage(&plan, 0, &stop, dice).await;
                };
                let time = async {
                    tokio::time::sleep(round).await;
                    stop.cancel();
                };
                tokio::join!(raging, time);
            })
            .await;
        verdict = stage.close().await?;
        stage.renew();
    }
    stage.client.cluster.stop().await;
    let took = begun.elapsed();
    let found = by_kind(&verdict.violations);
    let words: Vec<String> = found.iter().map(|(kind, n)| format!("{n} {kind:?}")).collect();
    let words = format!("{} after {:.0} s", words.join(", "), took.as_secs_f64());
    stage.setting.notes.push(("found".to_owned(), words));
    match (name, verdict.violations.is_empty()) {
        ("none", false) => stage.setting.missed.push("something was found".to_owned()),
        ("none", true) | (_, false) => {}
        (_, true) => stage.setting.missed.push("nothing was found".to_owned()),
    }
    Ok((stage.setting, verdict))
}
