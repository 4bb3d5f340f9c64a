//! Injects faults and records them.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::RunId;
use turnwire_testkit::services::{Postgres, Redis};

use crate::{
    cluster::Cluster,
    dice::Dice,
    node::Node,
    observations::{Act, Deed, Notes, now},
    options::Nemesis,
    proxy::NetworkFaults,
};

/// How long a node may take to exit on SIGTERM.
const GOING: Duration = Duration::from_secs(20);

/// Which faults to inject, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Faults with their weights.
    pub deeds: Vec<(u64, Deed)>,
    /// Minimum pause between two faults, in milliseconds; the maximum is four times that.
    pub pause_ms: u64,
}

impl Plan {
    /// Returns the default mixture.
    pub fn of(kinds: &[Nemesis], pause_ms: u64, has_redis: bool) -> Self {
        let mut deeds = Vec::new();
        for kind in kinds {
            match kind {
                Nemesis::Kill => deeds.push((240, Deed::Kill)),
                Nemesis::Stop => deeds.push((60, Deed::Stop)),
                Nemesis::Term => deeds.push((30, Deed::Term)),
                Nemesis::Store => deeds.extend([(4, Deed::StoreKill), (6, Deed::StoreFreeze)]),
                Nemesis::Redis if has_redis => deeds.extend([
                    (20, Deed::RedisFlush),
                    (6, Deed::RedisKill),
                    (20, Deed::RedisNoise),
                ]),
                Nemesis::Redis => {}
                Nemesis::Cut => deeds.extend([
                    (80, Deed::CutAfterCommit),
                    (15, Deed::Cut),
                    (15, Deed::BlackHole),
                ]),
            }
        }
        Self { deeds, pause_ms }
    }
}

/// Injects faults. Clones share its state.
#[derive(Debug, Clone)]
pub struct FaultInjector {
    /// The affected cluster.
    pub cluster: Arc<Cluster>,
    /// Records the faults.
    pub notes: Notes,
    /// Faults that run concurrently with the next one.
    pub tasks: TaskTracker,
}

impl FaultInjector {
    /// Injects faults until `kills` nodes executing runs were killed, or until stopped. Restores
    /// everything afterwards.
    pub async fn inject(&self, plan: &Plan, kills: u64, stop: &CancellationToken, dice: &mut Dice) {
        while !stop.is_cancelled() && (kills == 0 || self.n_kills() < kills) {
            if let Some(deed) = dice.weigh(&plan.deeds).copied() {
                self.begin(deed, dice).await;
            }
            let pause = dice.millis(plan.pause_ms, plan.pause_ms * 4);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the number of killed nodes that were executing runs.
    pub fn n_kills(&self) -> u64 {
        let notes = self.notes.write();
        let at_work = |act: &&Act| act.deed == Deed::Kill && !act.owned.is_empty();
        notes.acts.iter().filter(at_work).count() as u64
    }

    async fn begin(&self, deed: Deed, dice: &mut Dice) {
        let own = self.clone();
        let mut dice = dice.fork();
        match deed {
            // Exclusive: the next fault waits.
            Deed::StoreKill
            | Deed::StoreFreeze
            | Deed::RedisFlush
            | Deed::RedisKill
            | Deed::RedisNoise => own.to_all(deed, &mut dice).await,
            Deed::Kill
            | Deed::Stop
            | Deed::Term
            | Deed::CutAfterCommit
            | Deed::Cut
            | Deed::BlackHole => {
                let Some((node, owned)) = self.victim(&mut dice).await else { return };
                self.tasks.spawn(async move {
                    own.to_node(deed, &node, owned, &mut dice).await;
                    node.let_go();
                });
            }
            Deed::Stall => {}
        }
    }

    /// Returns a node without a current fault, and its runs; preferably one with runs.
    async fn victim(&self, dice: &mut Dice) -> Option<(Arc<Node>, Vec<RunId>)> {
        let mut nodes: Vec<Arc<Node>> = self.cluster.nodes.clone();
        while !nodes.is_empty() {
            let n = usize::try_from(dice.roll() % nodes.len() as u64).ok()?;
            let node = nodes.swap_remove(n);
            if !node.seize() {
                continue;
            }
            let owned = self.cluster.owned_by(&node).await;
            if !owned.is_empty() {
                return Some((node, owned));
            }
            node.let_go();
        }
        None
    }

    /// Injects a fault into one node.
    pub async fn to_node(&self, deed: Deed, node: &Node, owned: Vec<RunId>, dice: &mut Dice) {
        let lease = self.cluster.lease;
        let place = self.note(deed, Some(node.index), owned);
        let longer = lease + lease.mul_f64(0.2) + dice.millis(0, 400);
        let done = match deed {
            Deed::Kill => self.kill(node).await,
            Deed::Stop => self.hold(node, longer).await,
            Deed::Term => self.ask_to_go(node).await,
            Deed::Cut => self.faults(node, NetworkFaults::Cut, dice.millis(20, 600)).await,
            Deed::BlackHole => self.faults(node, NetworkFaults::Silent, longer).await,
            Deed::CutAfterCommit => match &node.proxy {
                Some(proxy) => {
                    if !proxy.lose_an_answer(Duration::from_secs(1)).await {
                        self.forget(place);
                    }
                    Ok(())
                }
                None => Ok(()),
            },
            Deed::StoreKill
            | Deed::StoreFreeze
            | Deed::RedisFlush
            | Deed::RedisKill
            | Deed::RedisNoise
            | Deed::Stall => Ok(()),
        };
        self.close(place, done);
    }

    /// Injects a fault that affects all nodes.
    pub async fn to_all(&self, deed: Deed, dice: &mut Dice) {
        let place = self.note(deed, None, Vec::new());
        let cluster = &self.cluster;
        let done = match deed {
            Deed::StoreKill => {
                let killed = cluster.with_postgres(Postgres::kill).await;
                sleep(dice.millis(0, 500)).await;
                let again = cluster.with_postgres(Postgres::restart).await;
                killed.and(again)
            }
            Deed::StoreFreeze => {
                let frozen = cluster.with_postgres(|postgres| postgres.freeze()).await;
                sleep(dice.millis(100, 1_200)).await;
                let again = cluster.with_postgres(|postgres| postgres.thaw()).await;
                frozen.and(again)
            }
            Deed::RedisFlush => self.tell_redis("FLUSHALL\r\n").await,
            Deed::RedisKill => {
                let killed = cluster.with_redis(Redis::kill).await;
                sleep(dice.millis(0, 500)).await;
                let again = cluster.with_redis(Redis::restart).await;
                killed.and(again)
            }
            Deed::RedisNoise => self.make_noise(dice).await,
            Deed::Kill
            | Deed::Stop
            | Deed::Term
            | Deed::Cut
            | Deed::BlackHole
            | Deed::CutAfterCommit
            | Deed::Stall => Ok(()),
        };
        self.close(place, done);
    }

    fn note(&self, deed: Deed, node: Option<usize>, owned: Vec<RunId>) -> usize {
        let at = now();
        let mut notes = self.notes.write();
        // The end is not known yet.
        notes.acts.push(Act { deed, node, at, until: i64::MAX / 2, owned });
        notes.acts.len() - 1
    }

    fn close(&self, place: usize, done: anyhow::Result<()>) {
        let mut notes = self.notes.write();
        if let Some(act) = notes.acts.get_mut(place) {
            act.until = now();
        }
        if let Err(error) = done {
            notes.tally.bad_exits.push(format!("{error:#}"));
        }
    }

    /// Removes a fault that had no effect from the count.
    fn forget(&self, place: usize) {
        if let Some(act) = self.notes.write().acts.get_mut(place) {
            act.owned.clear();
        }
    }

    async fn kill(&self, node: &Node) -> anyhow::Result<()> {
        node.kill().await?;
        self.cluster.start_node(node).await
    }

    async fn hold(&self, node: &Node, length: Duration) -> anyhow::Result<()> {
        node.signal("STOP").await?;
        sleep(length).await;
        node.signal("CONT").await
    }

    /// Terminates a node with SIGTERM and starts it again.
    pub async fn ask_to_go(&self, node: &Node) -> anyhow::Result<()> {
        let begun = Instant::now();
        let status = node.ask_to_go(GOING).await?;
        let took = begun.elapsed();
        let index = node.index;
        let complaint = match status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("node {index} left with {status} after {took:?}")),
            None => Some(format!("node {index} did not go within {GOING:?}")),
        };
        self.notes.write().tally.bad_exits.extend(complaint);
        self.cluster.start_node(node).await
    }

    async fn faults(
        &self,
        node: &Node,
        bad: NetworkFaults,
        length: Duration,
    ) -> anyhow::Result<()> {
        let proxy = node.proxy.as_ref().context("it has no way to the database")?;
        proxy.set(bad);
        sleep(length).await;
        proxy.set(NetworkFaults::Fair);
        Ok(())
    }

    async fn redis(&self) -> anyhow::Result<TcpStream> {
        let port = self.cluster.redis_port().context("there is no Redis")?;
        Ok(TcpStream::connect(("127.0.0.1", port)).await?)
    }

    async fn tell_redis(&self, command: &str) -> anyhow::Result<()> {
        let mut redis = self.redis().await?;
        redis.write_all(command.as_bytes()).await?;
        let mut answer = [0; 64];
        let _ = timeout(Duration::from_secs(1), redis.read(&mut answer)).await;
        Ok(())
    }

    /// Records Redis messages for a moment, then publishes them again, truncated and whole, on
    /// every channel.
    async fn make_noise(&self, dice: &mut Dice) -> anyhow::Result<()> {
        let mut redis = self.redis().await?;
        redis.write_all(b"PSUBSCRIBE *\r\n").await?;
        let mut heard = Vec::new();
        let listening = async {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(n_bytes) = redis.read(&mut chunk).await {
                if n_bytes == 0 || heard.len() > 256 * 1024 {
                    return;
                }
                heard.extend_from_slice(chunk.get(..n_bytes).unwrap_or_default());
            }
        };
        let _ = timeout(Duration::from_millis(100), listening).await;
        let news = messages(&heard);
        let mut redis = self.redis().await?;
        for (channel, payload) in news.iter().rev().take(20) {
            let cut = payload.get(..payload.len() / 2).unwrap_or_default();
            for payload in [payload.as_slice(), cut, b"nonsense"] {
                redis.write_all(&publish(channel, payload)).await?;
            }
            // Messages of one channel are also published on another.
            if let Some((_, other)) = dice.pick(&news) {
                redis.write_all(&publish(channel, other)).await?;
            }
        }
        let mut answers = [0; 1_024];
        let _ = timeout(Duration::from_millis(100), redis.read(&mut answers)).await;
        Ok(())
    }
}

fn publish(channel: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut command = b"*3\r\n$7\r\nPUBLISH\r\n".to_vec();
    for part in [channel, payload] {
        command.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        command.extend_from_slice(part);
        command.extend_from_slice(b"\r\n");
    }
    command
}

/// Returns channel and payload of every message in a subscriber's stream.
fn messages(heard: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut parts = parts(heard).into_iter();
    let mut messages = Vec::new();
    while let Some(part) = parts.next() {
        if part == b"pmessage"
            && let (Some(_), Some(channel), Some(payload)) =
                (parts.next(), parts.next(), parts.next())
        {
            messages.push((channel, payload));
        }
    }
    messages
}

/// Returns every bulk string, in order.
fn parts(mut heard: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(end) = heard.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = heard.split_at(end);
        heard = rest.get(2..).unwrap_or_default();
        let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(length) = length.and_then(|digits| digits.parse::<usize>().ok()) else { continue };
        let Some(part) = heard.get(..length) else { break };
        parts.push(part.to_vec());
        heard = heard.get(length + 2..).unwrap_or_default();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{messages, publish};

    #[test]
    fn what_was_heard_can_be_said_again() {
        let heard = b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n\
            *4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$4\r\nnews\r\n$7\r\na\r\nb\r\nc\r\n\
            *4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$4\r\nnews\r\n$9\r\ncut";
        assert_eq!(messages(heard), [(b"news".to_vec(), b"a\r\nb\r\nc".to_vec())]);
        assert_eq!(publish(b"n", b"xy"), b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nn\r\n$2\r\nxy\r\n");
    }
}
