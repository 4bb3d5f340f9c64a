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
    observations::{FaultKind, InjectedFault, Recorder, now},
    options::Nemesis,
    proxy::NetworkFaults,
};

/// How long a node may take to exit on SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Which faults to inject, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Faults with their weights.
    pub faults: Vec<(u64, FaultKind)>,
    /// Minimum pause between two faults, in milliseconds; the maximum is four times that.
    pub pause_ms: u64,
}

impl Plan {
    /// Returns the default mixture.
    pub fn of(kinds: &[Nemesis], pause_ms: u64, has_redis: bool) -> Self {
        let mut faults = Vec::new();
        for kind in kinds {
            match kind {
                Nemesis::Kill => faults.push((240, FaultKind::Kill)),
                Nemesis::Stop => faults.push((60, FaultKind::Stop)),
                Nemesis::Term => faults.push((30, FaultKind::Term)),
                Nemesis::Store => {
                    faults.extend([(4, FaultKind::StoreKill), (6, FaultKind::StoreFreeze)]);
                }
                Nemesis::Redis if has_redis => faults.extend([
                    (20, FaultKind::RedisFlush),
                    (6, FaultKind::RedisKill),
                    (20, FaultKind::RedisNoise),
                ]),
                Nemesis::Redis => {}
                Nemesis::Cut => faults.extend([
                    (80, FaultKind::CutAfterCommit),
                    (15, FaultKind::Cut),
                    (15, FaultKind::BlackHole),
                ]),
            }
        }
        Self { faults, pause_ms }
    }
}

/// Injects faults. Clones share its state.
#[derive(Debug, Clone)]
pub struct FaultInjector {
    pub cluster: Arc<Cluster>,
    pub recorder: Recorder,
    /// Faults that run concurrently with the next one.
    pub tasks: TaskTracker,
}

impl FaultInjector {
    /// Injects faults until `kills` nodes executing runs were killed, or until stopped. Restores
    /// everything afterwards.
    pub async fn inject(&self, plan: &Plan, kills: u64, stop: &CancellationToken, dice: &mut Dice) {
        while !stop.is_cancelled() && (kills == 0 || self.n_kills() < kills) {
            if let Some(kind) = dice.weigh(&plan.faults).copied() {
                self.inject_one(kind, dice).await;
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
        let recorder = self.recorder.write();
        let at_work =
            |fault: &&InjectedFault| fault.kind == FaultKind::Kill && !fault.owned.is_empty();
        recorder.faults.iter().filter(at_work).count() as u64
    }

    async fn inject_one(&self, kind: FaultKind, dice: &mut Dice) {
        let own = self.clone();
        let mut dice = dice.fork();
        match kind {
            // Exclusive: the next fault waits.
            FaultKind::StoreKill
            | FaultKind::StoreFreeze
            | FaultKind::RedisFlush
            | FaultKind::RedisKill
            | FaultKind::RedisNoise => own.inject_into_all(kind, &mut dice).await,
            FaultKind::Kill
            | FaultKind::Stop
            | FaultKind::Term
            | FaultKind::CutAfterCommit
            | FaultKind::Cut
            | FaultKind::BlackHole => {
                let Some((node, owned)) = self.victim(&mut dice).await else { return };
                self.tasks.spawn(async move {
                    own.inject_into_node(kind, &node, owned, &mut dice).await;
                    node.release();
                });
            }
            FaultKind::Stall => {}
        }
    }

    /// Returns a node without a current fault, and its runs; preferably one with runs.
    async fn victim(&self, dice: &mut Dice) -> Option<(Arc<Node>, Vec<RunId>)> {
        let mut nodes: Vec<Arc<Node>> = self.cluster.nodes.clone();
        while !nodes.is_empty() {
            let n = usize::try_from(dice.roll() % nodes.len() as u64).ok()?;
            let node = nodes.swap_remove(n);
            if !node.reserve() {
                continue;
            }
            let owned = self.cluster.owned_by(&node).await;
            if !owned.is_empty() {
                return Some((node, owned));
            }
            node.release();
        }
        None
    }

    pub async fn inject_into_node(
        &self,
        kind: FaultKind,
        node: &Node,
        owned: Vec<RunId>,
        dice: &mut Dice,
    ) {
        let lease = self.cluster.lease;
        let index = self.record(kind, Some(node.index), owned);
        let longer = lease + lease.mul_f64(0.2) + dice.millis(0, 400);
        let done = match kind {
            FaultKind::Kill => self.kill(node).await,
            FaultKind::Stop => self.pause_node(node, longer).await,
            FaultKind::Term => self.terminate(node).await,
            FaultKind::Cut => {
                self.network_fault(node, NetworkFaults::Cut, dice.millis(20, 600)).await
            }
            FaultKind::BlackHole => self.network_fault(node, NetworkFaults::Silent, longer).await,
            FaultKind::CutAfterCommit => match &node.proxy {
                Some(proxy) => {
                    if !proxy.drop_next_response(Duration::from_secs(1)).await {
                        self.discard(index);
                    }
                    Ok(())
                }
                None => Ok(()),
            },
            FaultKind::StoreKill
            | FaultKind::StoreFreeze
            | FaultKind::RedisFlush
            | FaultKind::RedisKill
            | FaultKind::RedisNoise
            | FaultKind::Stall => Ok(()),
        };
        self.finish(index, done);
    }

    /// Injects a fault that affects all nodes.
    pub async fn inject_into_all(&self, kind: FaultKind, dice: &mut Dice) {
        let index = self.record(kind, None, Vec::new());
        let cluster = &self.cluster;
        let done = match kind {
            FaultKind::StoreKill => {
                let killed = cluster.with_postgres(Postgres::kill).await;
                sleep(dice.millis(0, 500)).await;
                let again = cluster.with_postgres(Postgres::restart).await;
                killed.and(again)
            }
            FaultKind::StoreFreeze => {
                let frozen = cluster.with_postgres(|postgres| postgres.freeze()).await;
                sleep(dice.millis(100, 1_200)).await;
                let again = cluster.with_postgres(|postgres| postgres.thaw()).await;
                frozen.and(again)
            }
            FaultKind::RedisFlush => self.send_to_redis("FLUSHALL\r\n").await,
            FaultKind::RedisKill => {
                let killed = cluster.with_redis(Redis::kill).await;
                sleep(dice.millis(0, 500)).await;
                let again = cluster.with_redis(Redis::restart).await;
                killed.and(again)
            }
            FaultKind::RedisNoise => self.publish_noise(dice).await,
            FaultKind::Kill
            | FaultKind::Stop
            | FaultKind::Term
            | FaultKind::Cut
            | FaultKind::BlackHole
            | FaultKind::CutAfterCommit
            | FaultKind::Stall => Ok(()),
        };
        self.finish(index, done);
    }

    fn record(&self, kind: FaultKind, node: Option<usize>, owned: Vec<RunId>) -> usize {
        let at = now();
        let mut recorder = self.recorder.write();
        // The end is not known yet.
        recorder.faults.push(InjectedFault { kind, node, at, until: i64::MAX / 2, owned });
        recorder.faults.len() - 1
    }

    fn finish(&self, index: usize, done: anyhow::Result<()>) {
        let mut recorder = self.recorder.write();
        if let Some(fault) = recorder.faults.get_mut(index) {
            fault.until = now();
        }
        if let Err(error) = done {
            recorder.tally.bad_exits.push(format!("{error:#}"));
        }
    }

    /// Removes a fault that had no effect from the count.
    fn discard(&self, index: usize) {
        if let Some(fault) = self.recorder.write().faults.get_mut(index) {
            fault.owned.clear();
        }
    }

    async fn kill(&self, node: &Node) -> anyhow::Result<()> {
        node.kill().await?;
        self.cluster.start_node(node).await
    }

    async fn pause_node(&self, node: &Node, length: Duration) -> anyhow::Result<()> {
        node.signal("STOP").await?;
        sleep(length).await;
        node.signal("CONT").await
    }

    /// Terminates a node with SIGTERM and starts it again.
    pub async fn terminate(&self, node: &Node) -> anyhow::Result<()> {
        let begun = Instant::now();
        let status = node.terminate(EXIT_TIMEOUT).await?;
        let took = begun.elapsed();
        let index = node.index;
        let complaint = match status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("node {index} exited with {status} after {took:?}")),
            None => Some(format!("node {index} did not exit within {EXIT_TIMEOUT:?}")),
        };
        self.recorder.write().tally.bad_exits.extend(complaint);
        self.cluster.start_node(node).await
    }

    async fn network_fault(
        &self,
        node: &Node,
        bad: NetworkFaults,
        length: Duration,
    ) -> anyhow::Result<()> {
        let proxy = node.proxy.as_ref().context("it has no way to the database")?;
        proxy.set(bad);
        sleep(length).await;
        proxy.set(NetworkFaults::None);
        Ok(())
    }

    async fn redis(&self) -> anyhow::Result<TcpStream> {
        let port = self.cluster.redis_port().context("there is no Redis")?;
        Ok(TcpStream::connect(("127.0.0.1", port)).await?)
    }

    async fn send_to_redis(&self, command: &str) -> anyhow::Result<()> {
        let mut redis = self.redis().await?;
        redis.write_all(command.as_bytes()).await?;
        let mut answer = [0; 64];
        let _ = timeout(Duration::from_secs(1), redis.read(&mut answer)).await;
        Ok(())
    }

    /// Records Redis messages for a moment, then publishes them again, truncated and whole, on
    /// every channel.
    async fn publish_noise(&self, dice: &mut Dice) -> anyhow::Result<()> {
        let mut redis = self.redis().await?;
        redis.write_all(b"PSUBSCRIBE *\r\n").await?;
        let mut received = Vec::new();
        let listening = async {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(n_bytes) = redis.read(&mut chunk).await {
                if n_bytes == 0 || received.len() > 256 * 1024 {
                    return;
                }
                received.extend_from_slice(chunk.get(..n_bytes).unwrap_or_default());
            }
        };
        let _ = timeout(Duration::from_millis(100), listening).await;
        let news = messages(&received);
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
fn messages(received: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut parts = parts(received).into_iter();
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
fn parts(mut received: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(end) = received.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = received.split_at(end);
        received = rest.get(2..).unwrap_or_default();
        let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(length) = length.and_then(|digits| digits.parse::<usize>().ok()) else { continue };
        let Some(part) = received.get(..length) else { break };
        parts.push(part.to_vec());
        received = received.get(length + 2..).unwrap_or_default();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{messages, publish};

    #[test]
    fn what_was_heard_can_be_said_again() {
        let received = b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n\
            *4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$4\r\nnews\r\n$7\r\na\r\nb\r\nc\r\n\
            *4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$4\r\nnews\r\n$9\r\ncut";
        assert_eq!(messages(received), [(b"news".to_vec(), b"a\r\nb\r\nc".to_vec())]);
        assert_eq!(publish(b"n", b"xy"), b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nn\r\n$2\r\nxy\r\n");
    }
}
