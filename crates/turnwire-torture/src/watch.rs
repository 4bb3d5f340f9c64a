//! Checks the database and the nodes during the test.

use std::time::Duration;

use sqlx::Row;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    observations::{FaultKind, InjectedFault, now},
};

const EVERY: Duration = Duration::from_millis(100);
const MAX_LISTED: usize = 10;

/// Interval of the stall check.
const TICK: Duration = Duration::from_millis(20);

pub async fn watch(client: &Client, stop: &CancellationToken) {
    tokio::join!(look_at_nodes(client, stop), look_for_stalls(client, stop));
}

/// Records stalls of this process: a stalled machine also stalls nodes, and their leases expire.
async fn look_for_stalls(client: &Client, stop: &CancellationToken) {
    let bearable = client.cluster.lease / 4;
    loop {
        let (at, began) = (now(), Instant::now());
        if stop.run_until_cancelled(sleep(TICK)).await.is_none() {
            return;
        }
        if began.elapsed() > TICK + bearable {
            let fault = InjectedFault {
                kind: FaultKind::Stall,
                node: None,
                at,
                until: now(),
                owned: Vec::new(),
            };
            client.recorder.write().faults.push(fault);
        }
    }
}

async fn look_at_nodes(client: &Client, stop: &CancellationToken) {
    let mut n = 0_u64;
    while stop.run_until_cancelled(sleep(EVERY)).await.is_some() {
        look_for_torn_ends(client).await;
        if n.is_multiple_of(5) {
            count_fenced(client).await;
        }
        n += 1;
    }
}

/// The end of a run and its status are one commit, so no snapshot shows one without the other (C3,
/// C7). A single statement sees one snapshot.
async fn look_for_torn_ends(client: &Client) {
    let Some(pool) = &client.cluster.pool else { return };
    let query = "select r.id from runs r join run_events e on e.run_id = r.id where e.kind = \
                 'over' and r.state = 'active'";
    // The database may be unavailable; that is not checked here.
    let Ok(Ok(rows)) = timeout(Duration::from_secs(2), sqlx::query(query).fetch_all(pool)).await
    else {
        return;
    };
    let torn = &mut client.recorder.write().tally.torn;
    for row in rows {
        let id: String = row.try_get("id").unwrap_or_default();
        let detail = format!("{id} had its end in the journal while it was active");
        if torn.len() < MAX_LISTED && !torn.contains(&detail) {
            torn.push(detail);
        }
    }
}

/// Records how many appends of each node were rejected by fencing since its start.
async fn count_fenced(client: &Client) {
    for node in client.cluster.nodes.iter().filter(|node| node.is_up()) {
        let request = client.cluster.http.get(node.url("/metrics"));
        let Ok(answer) = request.timeout(Duration::from_millis(300)).send().await else { continue };
        let Ok(text) = answer.text().await else { continue };
        let start = (node.index, node.n_starts());
        client.recorder.write().tally.fenced.insert(start, fenced_in(&text));
    }
}

/// Returns the sum of all fencing counters.
fn fenced_in(metrics: &str) -> u64 {
    let is_counter = |line: &&str| {
        !line.starts_with('#') && (line.contains("fenced") || line.contains("conflict"))
    };
    let numbers = metrics.lines().filter(is_counter);
    let numbers = numbers.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_of_the_fence_are_added_up() {
        let text = "# TYPE turnwire_fenced counter\nturnwire_fenced_total{run=\"a\"} 3\n\
            turnwire_ws_messages_total 9\nturnwire_fenced_total{run=\"b\"} 4\n";
        assert_eq!(super::fenced_in(text), 7);
    }
}
