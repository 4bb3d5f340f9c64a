//! Every vendor in every scenario, through the engine and the adapters, against strict doubles.
//!
//! A cell is green if its scenario goes as it should. Otherwise it is red, for the rules that its
//! requests break. What is red today is listed in `KNOWN_RED`; a repair deletes lines there.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that prints its table")]

#[path = "vendors/known_red.rs"]
mod known_red;
#[path = "vendors/scenarios.rs"]
mod scenarios;
#[path = "vendors/strictness.rs"]
mod strictness;
#[path = "vendors/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use turnwire_testkit::vendors::Vendor;

use self::{
    known_red::KNOWN_RED,
    scenarios::{Scenario, play},
    world::World,
};

/// Number of cells that are tried at once.
const AT_ONCE: usize = 32;

/// What is wrong in a cell; nothing if it is green.
async fn cell(vendor: Vendor, scenario: Scenario) -> BTreeSet<&'static str> {
    let mut strict = World::new(vendor, true).await;
    Box::pin(play(&mut strict, scenario)).await;
    if strict.faults.is_empty() {
        return strict.faults;
    }
    // Once more with doubles that only note, for the rules behind the first one that was broken.
    let mut noting = World::new(vendor, false).await;
    Box::pin(play(&mut noting, scenario)).await;
    let mut reasons = noting.faults.clone();
    reasons.extend(noting.broken());
    if reasons.is_empty() { strict.faults } else { reasons }
}

/// No vendor refuses what we send, in any scenario, except for what is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vendors_accept_what_we_send() {
    let cells = Vendor::ALL.into_iter().flat_map(|vendor| {
        let scenarios = Scenario::ALL.iter().copied().filter(move |it| it.is_for(vendor));
        scenarios.map(move |scenario| (vendor, scenario))
    });
    let cells = stream::iter(cells).map(|(vendor, scenario)| async move {
        ((vendor, scenario), cell(vendor, scenario).await)
    });
    let table: BTreeMap<_, _> = cells.buffer_unordered(AT_ONCE).collect().await;
    for ((vendor, scenario), reasons) in &table {
        let reasons: Vec<&str> = reasons.iter().copied().collect();
        let result = if reasons.is_empty() { "ok".to_owned() } else { reasons.join(", ") };
        eprintln!("{vendor:?} | {scenario:?} | {result}");
    }
    let found: BTreeSet<(Vendor, Scenario, &str)> = table
        .iter()
        .flat_map(|((vendor, scenario), reasons)| {
            reasons.iter().map(|reason| (*vendor, *scenario, *reason))
        })
        .collect();
    let known: BTreeSet<_> = KNOWN_RED.iter().copied().collect();
    let listed = |cells: Vec<&(Vendor, Scenario, &str)>| {
        let line = |(vendor, scenario, reason): &&(Vendor, Scenario, &str)| {
            format!("    (V::{vendor:?}, S::{scenario:?}, {reason:?}),\n")
        };
        cells.iter().map(line).collect::<String>()
    };
    let (broken, mended) =
        (listed(found.difference(&known).collect()), listed(known.difference(&found).collect()));
    assert!(
        broken.is_empty() && mended.is_empty(),
        "red, but not listed:\n{broken}\nlisted, but green:\n{mended}"
    );
}
