//! Database outages: streams stay open and continue without a gap, new requests are told to retry
//! (C18).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_testkit::services::Postgres;

use super::Stage;
use crate::{
    client::{Client, Refused},
    cluster::Cluster,
    dice::Dice,
    evidence::Verdict,
    nemesis::FaultInjector,
    observations::{Deed, now},
    options::Options,
    proxy::NetworkFaults,
    reader::Manners,
    report::Setting,
    shapes::Shape,
};

/// Number of open streams.
const STREAMS: usize = 12;
/// Outages of at least this length must reject new requests.
const NOTICED: Duration = Duration::from_secs(5);
/// How long a new request may take to be rejected.
const PATIENCE: Duration = Duration::from_secs(10);
/// Outages of at least this length must show a comment on every stream: two heartbeats.
const COMMENTED: Duration = Duration::from_secs(32);

/// Kinds of outages.
#[derive(Debug, Clone, Copy)]
enum How {
    Killed,
    Frozen,
    Partitioned,
}

/// Runs outages of up to `longest` seconds, of each kind in turn.
pub async fn outages(options: &Options, longest: u64) -> anyhow::Result<(Setting, Verdict)> {
    let title = format!("store outages of up to {longest} s");
    let mut stage = Stage::set(&title, options, &[]).await?;
    let mut verdict = Verdict::default();
    for seconds in lengths(longest) {
        for how in [How::Killed, How::Frozen, How::Partitioned] {
            let length = Duration::from_secs_f64(seconds);
            let refusals = one_outage(&mut stage, how, length).await?;
            let views = stage.client.notes.write().views.clone();
            let n_silent = views.iter().filter(|view| view.n_comments == 0).count();
            let n_broken = views.iter().filter(|view| view.n_connections > 1).count();
            let words: Vec<String> =
                refusals.iter().map(|(what, n)| format!("{n} {what}")).collect();
            let name = format!("{how:?} for {seconds} s");
            if length >= NOTICED && !refusals.contains_key("503 with Retry-After") {
                stage.setting.missed.push(format!("{name}: nobody was turned away: {words:?}"));
            }
            if refusals.contains_key("503 without Retry-After") {
                stage.setting.missed.push(format!("{name}: turned away without a time"));
            }
            if n_broken > 0 {
                stage.setting.missed.push(format!("{name}: {n_broken} streams did not stay open"));
            }
            if length >= COMMENTED && n_silent > 0 {
                stage.setting.missed.push(format!("{name}: {n_silent} streams had no comment"));
            }
            let words = format!("new work: {}; {n_broken} broken streams", words.join(", "));
            stage.setting.notes.push((name, words));
            let found = stage.close().await?;
            verdict.violations.extend(found.violations);
            verdict.figures = found.figures;
            stage.renew();
        }
    }
    stage.client.cluster.stop().await;
    Ok((stage.setting, verdict))
}

/// 0.2 s, then about twice as long each time.
fn lengths(longest: u64) -> Vec<f64> {
    let usual = [0.2, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0];
    #[expect(clippy::cast_precision_loss, reason = "seconds are few")]
    let longest = longest as f64;
    usual.into_iter().filter(|seconds| *seconds <= longest).collect()
}

async fn one_outage(
    stage: &mut Stage,
    how: How,
    length: Duration,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let manners = Manners { patient: true, ..Manners::default() };
    let workload = stage.workload(|dice| Shape::lasting(dice, 2_000), Some(manners));
    let client = stage.client.clone();
    stage
        .under_load(&workload, STREAMS, async |injector, dice| {
            sleep(Duration::from_millis(700)).await;
            // Open runs are read to their end; no new ones start.
            workload.stop.cancel();
            let over = CancellationToken::new();
            let knocking = knock(&client, &over);
            let away = async {
                let gone = go_away(injector, how, length).await;
                over.cancel();
                gone
            };
            let (refusals, gone) = tokio::join!(knocking, away);
            let _ = dice.roll();
            gone.map(|()| refusals)
        })
        .await
}

async fn go_away(injector: &FaultInjector, how: How, length: Duration) -> anyhow::Result<()> {
    let cluster: &Arc<Cluster> = &injector.cluster;
    let deed = match how {
        How::Killed => Deed::StoreKill,
        How::Frozen => Deed::StoreFreeze,
        How::Partitioned => Deed::BlackHole,
    };
    let at = now();
    let faults = |faults: NetworkFaults| {
        for proxy in cluster.nodes.iter().filter_map(|node| node.proxy.as_ref()) {
            proxy.set(faults);
        }
    };
    match how {
        How::Killed => cluster.with_postgres(Postgres::kill).await?,
        How::Frozen => cluster.with_postgres(|postgres| postgres.freeze()).await?,
        How::Partitioned => faults(NetworkFaults::Silent),
    }
    sleep(length).await;
    match how {
        How::Killed => cluster.with_postgres(Postgres::restart).await?,
        How::Frozen => cluster.with_postgres(|postgres| postgres.thaw()).await?,
        How::Partitioned => faults(NetworkFaults::Fair),
    }
    let until = now();
    let act = crate::observations::Act { deed, node: None, at, until, owned: Vec::new() };
    injector.notes.write().acts.push(act);
    Ok(())
}

/// Sends new requests during the outage and counts the responses.
async fn knock(client: &Client, over: &CancellationToken) -> BTreeMap<String, u64> {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let mut dice = Dice::new(5);
    let tasks = TaskTracker::new();
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    // The first moment of an outage is not checked.
    sleep(Duration::from_millis(100)).await;
    while !over.is_cancelled() {
        let Ok(node) = client.cluster.any_node(&mut dice) else { break };
        let body = json!({ "model": "default", "input": "Anybody there?", "background": true });
        let request = client.cluster.http.post(node.url("/v1/responses")).json(&body);
        let (client, sender) = (client.clone(), sender.clone());
        tasks.spawn(async move {
            let begun = Instant::now();
            let before = client.notes.write().tally.n_without_retry_after;
            let answer = client.send(request, PATIENCE).await;
            let after = client.notes.write().tally.n_without_retry_after;
            let word = match answer {
                Ok(_) => "taken".to_owned(),
                Err(Refused::Status(status, _)) if status.as_u16() == 503 => {
                    let with = if after > before { "without" } else { "with" };
                    format!("503 {with} Retry-After")
                }
                Err(Refused::Status(status, _)) => status.as_u16().to_string(),
                Err(Refused::Lost(_)) => format!("unanswered for {} s", begun.elapsed().as_secs()),
            };
            let _ = sender.send(word);
        });
        let _ = over.run_until_cancelled(sleep(Duration::from_millis(300))).await;
    }
    drop(sender);
    tasks.close();
    while let Some(word) = answers.recv().await {
        *counted.entry(word).or_default() += 1;
    }
    counted
}
