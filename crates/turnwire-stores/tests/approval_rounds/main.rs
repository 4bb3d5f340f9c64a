//! C15: a thousand calls that wait for a person, on a real SQLite file that two processes share.
//! One of the two dies or leaves in the middle of it; people answer over both at once, with the
//! same and with different words, too late, and while somebody cancels. Every answer that was
//! taken is the one in the journal, every question is settled once, and nothing is done twice or
//! without permission.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fall over; the figures are its result"
)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all};
use serde_json::json;
use tokio::{runtime::Runtime, time::sleep};
use turnwire_contract::{
    ApprovalAnswer, CallId, Decision, Effect, Event, Item, RecordedEvent, RunId, RunOutcome,
    RunRequest, Seq, TenantId, Tool, ToolOutcome,
};
use turnwire_engine::{AnswerOutcome, EngineParts, Runs, Toolbox};
use turnwire_models::Scripted;
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::{Behaviour, FakeTool, invariants};

const ROUNDS: usize = 1_000;
/// How many of them share two processes, of which one goes.
const IN_A_BATCH: usize = 50;
const LEASE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a hasty tool's people have.
const HASTE: Duration = Duration::from_millis(60);

/// What happens to a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plot {
    /// Two people say different things at the same time, over two processes.
    TwoAnswers,
    /// They say the same.
    SameAnswer,
    /// One answers with other arguments.
    Edited,
    /// One answers about when the time is over.
    Expiry,
    /// One answers while another cancels the run.
    CancelRun,
    /// One answers while another cancels the call.
    CancelCall,
}

const PLOTS: [Plot; 6] = [
    Plot::TwoAnswers,
    Plot::SameAnswer,
    Plot::Edited,
    Plot::Expiry,
    Plot::CancelRun,
    Plot::CancelCall,
];

fn tenant() -> TenantId {
    TenantId::from("tenant")
}

fn call() -> CallId {
    CallId::from("call_1")
}

fn yes(by: &str) -> ApprovalAnswer {
    ApprovalAnswer::from(Decision::Approved).by(by)
}

fn no(by: &str) -> ApprovalAnswer {
    ApprovalAnswer::from(Decision::Denied { reason: "no".to_owned() }).by(by)
}

/// A process: an engine on the shared file, in a runtime that can be ended at once.
struct Process {
    runtime: Runtime,
    runs: Runs,
}

impl Process {
    fn start(folder: &Path, tools: &[FakeTool]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (folder, tools): (PathBuf, Vec<FakeTool>) = (folder.to_owned(), tools.to_vec());
        let runs = runtime.block_on(async move {
            let url = format!("sqlite://{}", folder.join("runs.db").display());
            let options = StoreOptions { lease: LEASE, ..StoreOptions::at(url) };
            let store = Store::open(options).await.unwrap();
            let mut toolbox = Toolbox::default();
            for tool in tools {
                toolbox.add(Arc::new(tool)).unwrap();
            }
            let runs = Runs::new(EngineParts {
                journal: Arc::new(store.clone()),
                store: Arc::new(store.clone()),
                blobs: Arc::new(store.clone()),
                workers: Arc::new(store),
                any_model: Some(Arc::new(Scripted::by_prompt())),
                tools: toolbox,
                ..EngineParts::default()
            });
            runs.start_worker().await.unwrap();
            runs
        });
        Self { runtime, runs }
    }

    fn ask(&self) -> Asked {
        Asked { handle: self.runtime.handle().clone(), runs: self.runs.clone() }
    }
}

/// What a client can ask of a process that may be gone.
#[derive(Clone)]
struct Asked {
    handle: tokio::runtime::Handle,
    runs: Runs,
}

impl Asked {
    /// What came of the answer; nothing if the process went away meanwhile.
    async fn answer(&self, run_id: &RunId, answer: ApprovalAnswer) -> Option<AnswerOutcome> {
        let (runs, run_id) = (self.runs.clone(), run_id.clone());
        let asking = async move { runs.answer(&tenant(), &run_id, &call(), answer).await };
        self.handle.spawn(asking).await.ok()?.ok()
    }

    async fn cancel(&self, run_id: &RunId, only_the_call: bool) {
        let (runs, run_id) = (self.runs.clone(), run_id.clone());
        let asking = async move {
            if only_the_call {
                runs.cancel_call(&tenant(), &run_id, &call()).await
            } else {
                runs.cancel(&tenant(), &run_id).await
            }
        };
        let _ = self.handle.spawn(asking).await;
    }
}

fn tools() -> Vec<FakeTool> {
    let prop = |name: &str| {
        FakeTool::new(name, Behaviour::Returns("done".to_owned())).with(|spec| {
            spec.effect = Effect::Once;
            spec.needs_approval = true;
        })
    };
    vec![prop("risky"), prop("hasty").with(|spec| spec.approval_expiry = Some(HASTE))]
}

fn request(plot: Plot, tools: &[FakeTool]) -> RunRequest {
    let name = if plot == Plot::Expiry { "hasty" } else { "risky" };
    let calls = json!([{ "id": "call_1", "name": name, "arguments": { "n": 1 } }]);
    let script = json!({ "turns": [{ "calls": calls }, { "text": "done" }] });
    let mut request = RunRequest::new("any", vec![Item::user(script.to_string())]);
    request.tenant = tenant();
    request.tools = tools.iter().map(|tool| Arc::new(tool.spec().clone())).collect();
    request
}

/// What people were told about their answers.
struct Round {
    plot: Plot,
    run_id: RunId,
    told: Vec<(ApprovalAnswer, AnswerOutcome)>,
}

/// Plays one round over both processes; whoever gets no word tries the one that stays.
async fn play(plot: Plot, run_id: RunId, goes: Asked, stays: Asked, n: usize) -> Round {
    let late = Duration::from_millis(n as u64 * 7 % 90);
    let first = async {
        sleep(late).await;
        let answer = match plot {
            Plot::Edited => {
                ApprovalAnswer { arguments: Some("{\"n\":2}".to_owned()), ..yes("goes") }
            }
            _ => yes("goes"),
        };
        let told = match goes.answer(&run_id, answer.clone()).await {
            Some(told) => told,
            None => loop {
                if let Some(told) = stays.answer(&run_id, answer.clone()).await {
                    break told;
                }
                sleep(Duration::from_millis(10)).await;
            },
        };
        Some((answer, told))
    };
    let second = async {
        sleep(Duration::from_millis(n as u64 * 13 % 90)).await;
        let answer = match plot {
            Plot::TwoAnswers => no("stays"),
            Plot::SameAnswer => yes("stays"),
            Plot::CancelRun => {
                stays.cancel(&run_id, false).await;
                return None;
            }
            Plot::CancelCall => {
                stays.cancel(&run_id, true).await;
                return None;
            }
            Plot::Edited | Plot::Expiry => return None,
        };
        loop {
            if let Some(told) = stays.answer(&run_id, answer.clone()).await {
                return Some((answer, told));
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let (first, second) = tokio::join!(first, second);
    Round { plot, run_id, told: [first, second].into_iter().flatten().collect() }
}

/// Waits until every call is asked about.
async fn until_asked(runs: &Runs, run_id: &RunId) {
    let mut events = runs.follow(&tenant(), run_id, Seq::START).await.unwrap();
    while let Some(recorded) = events.next().await {
        if matches!(recorded.unwrap().event, Event::ApprovalRequested { .. }) {
            return;
        }
    }
    panic!("{run_id} ended without asking");
}

async fn journal_of(runs: &Runs, run_id: &RunId) -> Vec<Arc<RecordedEvent>> {
    let mut events = runs.follow(&tenant(), run_id, Seq::START).await.unwrap();
    let mut journal = Vec::new();
    while let Some(recorded) = events.next().await {
        journal.push(recorded.unwrap());
    }
    journal
}

#[derive(Debug, Default)]
struct Tally {
    taken_over: usize,
    approved: usize,
    denied: usize,
    expired: usize,
    cancelled: usize,
}

/// What must be true of a round, whoever was quicker.
fn check(round: &Round, journal: &[Arc<RecordedEvent>], tools: &[FakeTool], tally: &mut Tally) {
    let Round { plot, run_id, told } = round;
    let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
    assert!(wrong.is_empty(), "{plot:?} {run_id}: {wrong:#?}");
    let settled: Vec<ApprovalAnswer> =
        journal.iter().filter_map(|recorded| recorded.event.answer()).collect();
    assert!(settled.len() <= 1, "double: {plot:?} {run_id}: {settled:?}");
    for (answer, told) in told {
        match told {
            AnswerOutcome::Accepted => assert!(
                settled.iter().any(|settled| settled.says_the_same(answer)),
                "lost: {plot:?} {run_id}: {answer:?} was taken, {settled:?}"
            ),
            AnswerOutcome::TooLate => assert!(
                !settled.iter().any(|settled| settled == answer),
                "{plot:?} {run_id}: {answer:?} was too late, and counts"
            ),
            AnswerOutcome::NotAsked => panic!("{plot:?} {run_id}: it was asked"),
        }
    }
    let Some(Event::RunFinished { outcome, .. }) = journal.last().map(|last| &last.event) else {
        panic!("{plot:?} {run_id}: no end")
    };
    assert!(!settled.is_empty() || *outcome == RunOutcome::Cancelled, "lost: {plot:?} {run_id}");
    let ended = journal.iter().find_map(|recorded| match &recorded.event {
        Event::ToolFinished { outcome, .. } => Some(outcome),
        _ => None,
    });
    let is_allowed = settled.iter().any(|answer| answer.decision == Decision::Approved);
    let key = format!("{run_id}:call_1");
    let calls = tools.iter().flat_map(FakeTool::calls).filter(|(_, r)| r.idempotency_key == key);
    let calls: Vec<_> = calls.collect();
    assert!(calls.len() <= usize::from(is_allowed), "{plot:?} {run_id}: {} calls", calls.len());
    if let Some(ToolOutcome::Succeeded { .. }) = ended {
        assert_eq!(calls.len(), 1, "{plot:?} {run_id}");
        let n = if *plot == Plot::Edited { 2 } else { 1 };
        assert_eq!(calls[0].1.arguments["n"], n, "{plot:?} {run_id}");
    }
    if matches!(plot, Plot::TwoAnswers | Plot::SameAnswer | Plot::Edited | Plot::CancelCall) {
        assert_eq!(*outcome, RunOutcome::Completed, "{plot:?} {run_id}");
        let taken = told.iter().filter(|(_, told)| *told == AnswerOutcome::Accepted).count();
        let expected = match plot {
            Plot::SameAnswer => 2..=2,
            Plot::CancelCall => 0..=1,
            _ => 1..=1,
        };
        assert!(expected.contains(&taken), "{plot:?} {run_id}: {taken} were taken: {told:?}");
    }
    let by = settled.first().and_then(|answer| answer.by.as_deref());
    tally.approved += usize::from(is_allowed);
    tally.denied += usize::from(!settled.is_empty() && !is_allowed);
    tally.expired += usize::from(by == Some("expiry"));
    tally.cancelled += usize::from(*outcome == RunOutcome::Cancelled || by == Some("cancel"));
    let is_taken_over = |r: &Arc<RecordedEvent>| matches!(r.event, Event::RunTakenOver { .. });
    tally.taken_over += usize::from(journal.iter().any(is_taken_over));
}

/// C15: nothing lost, nothing double.
#[test]
fn a_thousand_questions() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut by_plot: HashMap<&'static str, usize> = HashMap::new();
    let folder = tempfile::tempdir().unwrap();
    let tools = tools();
    let mut stays = Process::start(folder.path(), &tools);
    for batch in 0..ROUNDS / IN_A_BATCH {
        let goes = Process::start(folder.path(), &tools);
        let (from, to) = (goes.ask(), stays.ask());
        let starting = goes.runs.clone();
        let requests: Vec<(Plot, RunRequest)> = (0..IN_A_BATCH)
            .map(|n| PLOTS[(batch + n) % PLOTS.len()])
            .map(|plot| (plot, request(plot, &tools)))
            .collect();
        let started: Vec<(Plot, RunId)> = goes.runtime.block_on(async move {
            join_all(requests.into_iter().map(|(plot, request)| {
                let runs = starting.clone();
                async move {
                    let run = runs.start(request).await.unwrap();
                    until_asked(&runs, run.id()).await;
                    (plot, run.id().clone())
                }
            }))
            .await
        });
        let playing = started.into_iter().enumerate().map(|(n, (plot, run_id))| {
            let (goes, stays) = (from.clone(), to.clone());
            stays.handle.clone().spawn(play(plot, run_id, goes, stays, batch * IN_A_BATCH + n))
        });
        let playing: Vec<_> = playing.collect();
        std::thread::sleep(Duration::from_millis(30));
        if batch % 2 == 0 {
            // It dies: whatever it was doing is not done.
            goes.runtime.shutdown_background();
        } else {
            // It leaves, and says so.
            let leaving = goes.runs.clone();
            goes.runtime
                .block_on(async move { leaving.hand_over(Duration::from_millis(50)).await });
            goes.runtime.shutdown_background();
        }
        let runs = stays.runs.clone();
        let checked = stays.runtime.block_on(async move {
            let rounds = async {
                let mut rounds = Vec::new();
                for round in join_all(playing).await {
                    let round = round.unwrap();
                    let journal = journal_of(&runs, &round.run_id).await;
                    rounds.push((round, journal));
                }
                rounds
            };
            tokio::time::timeout(PATIENCE, rounds).await.expect("a round is stuck")
        });
        for (round, journal) in &checked {
            check(round, journal, &tools, &mut tally);
            *by_plot.entry(name_of(round.plot)).or_default() += 1;
        }
        if batch % 5 == 4 {
            // Everything is started anew from the file.
            stays.runtime.shutdown_background();
            stays = Process::start(folder.path(), &tools);
        }
    }
    println!("{ROUNDS} rounds in {:?}: {tally:?}, {by_plot:?}", began.elapsed());
    assert!(tally.taken_over > ROUNDS / 10, "takeovers were exercised: {tally:?}");
    for (what, n) in [("expiry", tally.expired), ("cancel", tally.cancelled), ("no", tally.denied)]
    {
        assert!(n > ROUNDS / 50, "{what} was exercised {n} times");
    }
}

fn name_of(plot: Plot) -> &'static str {
    match plot {
        Plot::TwoAnswers => "two answers",
        Plot::SameAnswer => "same answer",
        Plot::Edited => "edited",
        Plot::Expiry => "expiry",
        Plot::CancelRun => "cancel run",
        Plot::CancelCall => "cancel call",
    }
}
