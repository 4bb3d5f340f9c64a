//! Database outages: streams stay open and continue without a gap, new requests are told to retry
//! (C18).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_testkit::services::Postgres;

use super::Harness;
use crate::{
    client::{Client, RequestError},
    cluster::Cluster,
    dice::Dice,
    evidence::Verdict,
    nemesis::FaultInjector,
    observations::{FaultKind, InjectedFault, now},
    options::Options,
    proxy::NetworkFaults,
    reader::ReaderBehavior,
    report::ReportHeader,
    shapes::Shape,
};

/// Number of open streams.
const STREAMS: usize = 12;
/// Outages of at least this length must reject new requests.
const MAX_DETECTION_TIME: Duration = Duration::from_secs(5);
/// How long a new request may take to be rejected.
const PATIENCE: Duration = Duration::from_secs(10);
/// Outages of at least this length must show a keep-alive comment on every stream: it is two
/// intervals.
const MAX_COMMENT_INTERVAL: Duration = Duration::from_secs(32);

#[derive(Debug, Clone, Copy)]
enum OutageKind {
    Killed,
    Frozen,
    Partitioned,
}

/// Runs outages of up to `longest` seconds, of each kind in turn.
pub async fn outages(options: &Options, longest: u64) -> anyhow::Result<(ReportHeader, Verdict)> {
    let title = format!("store outages of up to {longest} s");
    let mut harness = Harness::start(&title, options, &[]).await?;
    let mut verdict = Verdict::default();
    for seconds in lengths(longest) {
        for kind in [OutageKind::Killed, OutageKind::Frozen, OutageKind::Partitioned] {
            let length = Duration::from_secs_f64(seconds);
            let refusals = one_outage(&mut harness, kind, length).await?;
            let views = harness.client.recorder.write().views.clone();
            let n_silent = views.iter().filter(|view| view.n_comments == 0).count();
            let n_broken = views.iter().filter(|view| view.n_connections > 1).count();
            let words: Vec<String> =
                refusals.iter().map(|(what, n)| format!("{n} {what}")).collect();
            let name = format!("{kind:?} for {seconds} s");
            if length >= MAX_DETECTION_TIME && !refusals.contains_key("503 with Retry-After") {
                harness.header.missed.push(format!("{name}: nobody was turned away: {words:?}"));
            }
            if refusals.contains_key("503 without Retry-After") {
                harness.header.missed.push(format!("{name}: turned away without a time"));
            }
            if n_broken > 0 {
                harness.header.missed.push(format!("{name}: {n_broken} streams did not stay open"));
            }
            if length >= MAX_COMMENT_INTERVAL && n_silent > 0 {
                harness.header.missed.push(format!("{name}: {n_silent} streams had no comment"));
            }
            let words = format!("new work: {}; {n_broken} broken streams", words.join(", "));
            harness.header.remarks.push((name, words));
            let found = harness.close().await?;
            verdict.violations.extend(found.violations);
            verdict.figures = found.figures;
            harness.renew();
        }
    }
    harness.client.cluster.stop().await;
    Ok((harness.header, verdict))
}

/// 0.2 s, then about twice as long each time.
fn lengths(longest: u64) -> Vec<f64> {
    let usual = [0.2, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 60.0];
    #[expect(clippy::cast_precision_loss, reason = "seconds are few")]
    let longest = longest as f64;
    usual.into_iter().filter(|seconds| *seconds <= longest).collect()
}

async fn one_outage(
    harness: &mut Harness,
    outage: OutageKind,
    length: Duration,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let behavior = ReaderBehavior { patient: true, ..ReaderBehavior::default() };
    let workload = harness.workload(|dice| Shape::lasting(dice, 2_000), Some(behavior));
    let client = harness.client.clone();
    harness
        .under_load(&workload, STREAMS, async |injector, dice| {
            sleep(Duration::from_millis(700)).await;
            // Open runs are read to their end; no new ones start.
            workload.stop.cancel();
            let over = CancellationToken::new();
            let probing = probe_while_down(&client, &over);
            let away = async {
                let gone = cause_outage(injector, outage, length).await;
                over.cancel();
                gone
            };
            let (refusals, gone) = tokio::join!(probing, away);
            let _ = dice.roll();
            gone.map(|()| refusals)
        })
        .await
}

async fn cause_outage(
    injector: &FaultInjector,
    outage: OutageKind,
    length: Duration,
) -> anyhow::Result<()> {
    let cluster: &Arc<Cluster> = &injector.cluster;
    let kind = match outage {
        OutageKind::Killed => FaultKind::StoreKill,
        OutageKind::Frozen => FaultKind::StoreFreeze,
        OutageKind::Partitioned => FaultKind::BlackHole,
    };
    let at = now();
    let faults = |faults: NetworkFaults| {
        for proxy in cluster.nodes.iter().filter_map(|node| node.proxy.as_ref()) {
            proxy.set(faults);
        }
    };
    match outage {
        OutageKind::Killed => cluster.with_postgres(Postgres::kill).await?,
        OutageKind::Frozen => cluster.with_postgres(|postgres| postgres.freeze()).await?,
        OutageKind::Partitioned => faults(NetworkFaults::Silent),
    }
    sleep(length).await;
    match outage {
        OutageKind::Killed => cluster.with_postgres(Postgres::restart).await?,
        OutageKind::Frozen => cluster.with_postgres(|postgres| postgres.thaw()).await?,
        OutageKind::Partitioned => faults(NetworkFaults::None),
    }
    let until = now();
    let fault = InjectedFault { kind, node: None, at, until, owned: Vec::new() };
    injector.recorder.write().faults.push(fault);
    Ok(())
}

/// Sends new requests during the outage and counts the responses.
async fn probe_while_down(client: &Client, over: &CancellationToken) -> BTreeMap<String, u64> {
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
            let before = client.recorder.write().tally.n_without_retry_after;
            let answer = client.send(request, PATIENCE).await;
            let after = client.recorder.write().tally.n_without_retry_after;
            let word = match answer {
                Ok(_) => "taken".to_owned(),
                Err(RequestError::Status(status, _)) if status.as_u16() == 503 => {
                    let with = if after > before { "without" } else { "with" };
                    format!("503 {with} Retry-After")
                }
                Err(RequestError::Status(status, _)) => status.as_u16().to_string(),
                Err(RequestError::NoResponse(_)) => {
                    format!("unanswered for {} s", begun.elapsed().as_secs())
                }
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
