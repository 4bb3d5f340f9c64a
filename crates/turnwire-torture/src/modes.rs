//! The modes of the harness: torture, rolling restarts, store outages, resume, first token,
//! inspection, negative controls.

pub mod controls;
pub mod first_token;
pub mod inspect;
pub mod outage;
pub mod resume;
pub mod rolling;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    client::Client,
    cluster::Cluster,
    dice::Dice,
    evidence::{Verdict, judge},
    nemesis::{FaultInjector, Plan},
    observations::{InjectedFault, Recorder, now},
    options::{Nemesis, Options},
    reader::ReaderBehavior,
    report::ReportHeader,
    shapes::Shape,
    watch::watch,
    workload::{ShapeMaker, Workload},
};

/// Duration of the load when nothing else determines it.
const DEFAULT_LOAD: Duration = Duration::from_secs(10);

/// Everything that a mode needs.
#[derive(Debug)]
pub struct Harness {
    pub client: Client,
    pub injector: FaultInjector,
    /// Source of all random choices.
    pub dice: Dice,
    /// Part of the report.
    pub header: ReportHeader,
    settle: Duration,
    begun: Instant,
    /// Faults of earlier rounds: the database still has the affected runs.
    earlier: Vec<InjectedFault>,
}

impl Harness {
    pub async fn start(
        title: &str,
        options: &Options,
        environment: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let seed = options.seed.unwrap_or_else(|| now().unsigned_abs());
        let cluster = Arc::new(Cluster::start(options, environment).await?);
        let recorder = Recorder::default();
        let give_up = CancellationToken::new();
        let client = Client { cluster: Arc::clone(&cluster), recorder: recorder.clone(), give_up };
        Ok(Self {
            client,
            injector: FaultInjector { cluster, recorder, tasks: TaskTracker::new() },
            dice: Dice::new(seed),
            header: ReportHeader { title: title.to_owned(), seed, ..ReportHeader::default() },
            settle: Duration::from_secs(options.settle),
            begun: Instant::now(),
            earlier: Vec::new(),
        })
    }

    /// Creates clients that run until stopped.
    pub fn workload(&self, shape: ShapeMaker, behavior: Option<ReaderBehavior>) -> Workload {
        Workload {
            client: self.client.clone(),
            stop: CancellationToken::new(),
            shape,
            behavior,
            fetches_journal_at_end: self.client.cluster.pool.is_none(),
            name: format!("torture-{}-{}", self.header.seed, now()).into(),
        }
    }

    /// Runs `meanwhile` under load, then lets all runs end.
    pub async fn under_load<T>(
        &mut self,
        workload: &Workload,
        n_runs: usize,
        meanwhile: impl AsyncFnOnce(&FaultInjector, &mut Dice) -> T,
    ) -> T {
        let (mut dice, watching) = (self.dice.fork(), CancellationToken::new());
        let (settle, give_up) = (self.settle, self.client.give_up.clone());
        let client = self.client.clone();
        let load = async {
            workload.run_load(n_runs, &mut dice).await;
            watching.cancel();
        };
        let damage = async {
            let done = meanwhile(&self.injector, &mut self.dice).await;
            workload.stop.cancel();
            // A run that is not done by then never will be.
            if timeout(settle, watching.cancelled()).await.is_err() {
                give_up.cancel();
            }
            done
        };
        let (done, (), ()) = tokio::join!(damage, load, watch(&client, &watching));
        done
    }

    /// Checks everything so far.
    pub async fn close(&mut self) -> anyhow::Result<Verdict> {
        // The clients are done; the requests that follow need responses.
        self.client.give_up = CancellationToken::new();
        let mut seen = self.client.recorder.take();
        seen.faults.append(&mut self.earlier);
        self.earlier.clone_from(&seen.faults);
        let verdict = judge(&self.client, seen).await.context("the evidence")?;
        self.header.took = self.begun.elapsed();
        Ok(verdict)
    }

    /// Prepares another round with the same gateways.
    pub fn renew(&mut self) {
        self.client.give_up = CancellationToken::new();
        self.injector.tasks = TaskTracker::new();
    }
}

/// Kills nodes and injects other faults under load.
pub async fn torture(options: &Options) -> anyhow::Result<(ReportHeader, Verdict)> {
    let title = format!("{} nodes, {} kills", options.nodes, options.kills);
    let mut harness = Harness::start(&title, options, &[]).await?;
    let workload = harness.workload(Shape::any, None);
    let plan = plan_of(options);
    let least = match (options.seconds, options.kills) {
        (0, 0) => DEFAULT_LOAD,
        (seconds, _) => Duration::from_secs(seconds),
    };
    let most = Duration::from_secs(options.seconds_max).max(least);
    let kills = options.kills;
    harness
        .under_load(&workload, options.runs_at_once, async |injector, dice| {
            let begun = Instant::now();
            let stop = CancellationToken::new();
            let inject = async {
                if plan.faults.is_empty() {
                    return;
                }
                injector.inject(&plan, kills, &stop, dice).await;
            };
            // Stopped instead of dropped, so that no process stays frozen.
            let time = async {
                sleep(if kills == 0 { least } else { most }).await;
                stop.cancel();
            };
            tokio::select! {
                () = inject => {}
                () = async { time.await; std::future::pending().await } => {}
            }
            sleep(least.saturating_sub(begun.elapsed())).await;
        })
        .await;
    let verdict = harness.close().await?;
    harness.client.cluster.stop().await;
    let n_kills = verdict.figures.n_kills_at_work;
    if n_kills < kills {
        harness.header.missed.push(format!("{n_kills} of {kills} kills hit a node at work"));
    }
    Ok((harness.header, verdict))
}

fn plan_of(options: &Options) -> Plan {
    let kinds: Vec<Nemesis> = match options.kills {
        0 => options.nemesis.iter().copied().filter(|kind| *kind != Nemesis::Kill).collect(),
        _ => options.nemesis.clone(),
    };
    let kinds = if options.in_memory { Vec::new() } else { kinds };
    Plan::of(&kinds, options.pause_ms, !options.no_redis)
}
