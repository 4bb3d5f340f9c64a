//! Properties of the stream of any run: random scripts, some of them cut off.

use std::fmt::Write as _;

use proptest::{prelude::*, sample::Index};
use turnwire_contract::{
    Approvals, CallId, Completeness, Event, Failure, Finish, RecordedEvent, RunOutcome, RunRequest,
    ToolKind, ToolOutcome,
};

use super::{
    Profile, ResponseEvent, Responses, SequencedEvent,
    checks::{check_response, check_stream, to_json},
    stories::{announced, server_spec, thinking, tool},
};
use crate::{
    Projection as _,
    check::{CheckOptions, Checker, Code, Finding},
    story::{Story, failed, request, succeeded},
};

/// One turn of a script.
#[derive(Debug, Clone)]
struct Turn {
    thinks: bool,
    deltas: Vec<Delta>,
    calls: Vec<Call>,
    /// The order in which the calls take their steps.
    order: Vec<Index>,
    /// Whether its worker dies at the end of it.
    is_abandoned: bool,
}

#[derive(Debug, Clone)]
enum Delta {
    Text(String),
    Refusal(String),
}

#[derive(Debug, Clone)]
struct Call {
    kind: ToolKind,
    pieces: Vec<String>,
    /// The steps after its arguments were generated; then it ends.
    steps: Vec<Step>,
    outcome: ToolOutcome,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Start,
    Phase,
    Progress,
    Output,
    Silence,
    Retry,
    TakeOver,
}

fn delta() -> impl Strategy<Value = Delta> {
    prop_oneof![4 => ".{0,8}".prop_map(Delta::Text), 1 => ".{0,8}".prop_map(Delta::Refusal)]
}

fn outcome() -> impl Strategy<Value = ToolOutcome> {
    prop_oneof![
        3 => ".{0,20}".prop_map(|text| succeeded(&text)),
        1 => Just(failed("no")),
        1 => Just(ToolOutcome::TimedOut { after_ms: 1 }),
        1 => Just(ToolOutcome::Cancelled),
        1 => Just(ToolOutcome::NotFound { message: "no".to_owned() }),
        1 => Just(ToolOutcome::Skipped { reason: "over".to_owned() }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let kinds = prop::sample::select(vec![
        ToolKind::Function,
        ToolKind::Client,
        ToolKind::Mcp,
        ToolKind::WebSearch,
        ToolKind::FileSearch,
    ]);
    let steps = prop::sample::select(vec![
        Step::Ask,
        Step::Start,
        Step::Phase,
        Step::Progress,
        Step::Output,
        Step::Silence,
        Step::Retry,
        Step::TakeOver,
    ]);
    let pieces = prop::collection::vec(".{0,6}", 0..4);
    let steps = prop::collection::vec(steps, 0..6);
    (kinds, pieces, steps, outcome()).prop_map(|(kind, pieces, steps, outcome)| Call {
        kind,
        pieces,
        steps,
        outcome,
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    (
        any::<bool>(),
        prop::collection::vec(delta(), 0..5),
        prop::collection::vec(call(), 0..4),
        prop::collection::vec(any::<Index>(), 60),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(thinks, deltas, calls, order, is_abandoned)| Turn {
            thinks,
            deltas,
            calls,
            order,
            is_abandoned,
        })
}

fn run_outcome() -> impl Strategy<Value = RunOutcome> {
    prop_oneof![
        Just(RunOutcome::Completed),
        Just(RunOutcome::Cancelled),
        Just(RunOutcome::Failed { failure: Failure::new("engine_failed", "no") }),
    ]
}

/// The journal of a script. After `cut` only the end follows, as if everything else had been lost.
fn journal() -> impl Strategy<Value = Vec<RecordedEvent>> {
    let requests = (any::<bool>(), any::<bool>(), any::<bool>());
    (requests, prop::collection::vec(turn(), 0..4), run_outcome(), any::<Option<Index>>()).prop_map(
        |((is_parallel, is_handed_back, is_background), turns, outcome, cut)| {
            let approvals = if is_handed_back { Approvals::HandBack } else { Approvals::Wait };
            let mut surface_data = serde_json::Map::new();
            surface_data.insert("background".to_owned(), is_background.into());
            let tools = vec![server_spec("ask", true)];
            let parallel_tool_calls = is_parallel;
            let request =
                RunRequest { parallel_tool_calls, approvals, tools, surface_data, ..request() };
            let mut story = Story::of(request);
            for (n, turn) in turns.into_iter().enumerate() {
                story = tell(story, n, turn);
            }
            let whole = story.ended(outcome).events();
            let Some(cut) = cut else { return whole };
            let mut events = whole;
            let last = events.pop().unwrap();
            events.truncate(1 + cut.index(events.len()));
            let seq = turnwire_contract::Seq(events.len() as u64 + 1);
            events.push(RecordedEvent { seq, ..last });
            events
        },
    )
}

fn tell(story: Story, n_turn: usize, turn: Turn) -> Story {
    let mut story = story.turn();
    if turn.thinks {
        story = thinking(story, &format!("rs_{n_turn}"), &["Hm", ", hm."], None);
    }
    if !turn.deltas.is_empty() {
        story = story.message();
        for delta in &turn.deltas {
            story = match delta {
                Delta::Text(text) => story.text(text),
                Delta::Refusal(text) => story.refusal(text),
            };
        }
        let is_cut = turn.is_abandoned;
        let how = if is_cut { Completeness::Superseded } else { Completeness::Complete };
        story = story.message_done(how);
    }
    // Each call is a list of events; the script picks the next one.
    let mut calls: Vec<Vec<Event>> = Vec::new();
    for (n, call) in turn.calls.into_iter().enumerate() {
        calls.push(events_of(&format!("{n_turn}_{n}"), call));
    }
    let mut order = turn.order.into_iter().cycle();
    while !calls.is_empty() {
        let n = order.next().map_or(0, |index| index.index(calls.len()));
        story = story.then(calls[n].remove(0));
        calls.retain(|events| !events.is_empty());
    }
    if turn.is_abandoned {
        return story.then(Event::TurnAbandoned { turn: 1 });
    }
    story.turn_done(Finish::CalledTools)
}

fn events_of(id: &str, call: Call) -> Vec<Event> {
    let server = (call.kind == ToolKind::Mcp).then_some("docs");
    let name = if call.kind == ToolKind::Mcp { "ask" } else { "other" };
    let mut story = announced(Story::default(), id, tool(name, call.kind, server));
    let mut arguments = String::new();
    for piece in &call.pieces {
        write!(arguments, "{piece}").unwrap();
        story = story.writes(id, piece);
    }
    story = story.written(id, &arguments);
    let call_id = CallId::from(id);
    if call.kind != ToolKind::Client {
        for step in call.steps {
            story = story.then(step.event(call_id.clone()));
        }
        story = story.finished(id, call.outcome);
    }
    story.events().into_iter().map(|recorded| recorded.event).collect()
}

impl Step {
    fn event(self, call_id: CallId) -> Event {
        match self {
            Self::Ask => Event::approval_requested(call_id),
            Self::Start => Event::ToolStarted { call_id, attempt: 1, label: String::new() },
            Self::Phase => Event::ToolPhase { call_id, phase: "x".to_owned() },
            Self::Progress => {
                Event::ToolProgressed { call_id, progress: 0.5, total: None, message: None }
            }
            Self::Output => Event::ToolOutputAdded { call_id, text: "x".to_owned() },
            Self::Silence => Event::ToolStayedSilent { call_id, elapsed_ms: 1 },
            Self::Retry => {
                Event::ToolRetried { call_id, attempt: 2, reason: Failure::new("x", "x") }
            }
            Self::TakeOver => Event::taken_over(2),
        }
    }
}

/// Official frames without their numbers.
fn official(frames: &[SequencedEvent]) -> Vec<serde_json::Value> {
    let strict =
        |frame: &&SequencedEvent| ResponseEvent::TYPES_STRICT.contains(&frame.event_type());
    let unnumbered = |frame: &SequencedEvent| {
        let mut frame = to_json(frame);
        frame["sequence_number"] = 0.into();
        frame
    };
    frames.iter().filter(strict).map(unnumbered).collect()
}

/// The findings of the stream checker. Only the extended profile reports that a turn was withdrawn
/// with its items.
fn faults(frames: &[SequencedEvent], profile: Profile) -> Vec<Finding> {
    let mut checker = Checker::new(CheckOptions::default());
    for frame in frames {
        checker.event(None, &to_json(frame));
    }
    let mut findings = checker.finish().findings;
    findings.retain(|finding| finding.code != Code::OutputItemLost || profile == Profile::Extended);
    findings
}

proptest! {
    /// S1-SC-004, S1-FR-005, S1-FR-007, S1-FR-008, S1-E1, R4, I6, I8, I12: for any script, and
    /// wherever it is cut off.
    #[test]
    fn any_stream_is_in_order(events in journal()) {
        let mut streams = Vec::new();
        for profile in [Profile::Strict, Profile::Extended] {
            let mut projection = Responses::new(profile);
            let mut frames = Vec::new();
            for recorded in &events {
                frames.extend(projection.project(recorded));
                // Every prefix is a stream, and the snapshot has exactly the items it added, except
                // those of withdrawn turns.
                let added = frames.iter().filter(|f| f.event_type().ends_with("item.added"));
                let is_withdrawal = |r: &&RecordedEvent| matches!(r.event, Event::TurnAbandoned { .. });
                let upto = events.iter().take_while(|r| r.seq <= recorded.seq);
                let (n_shown, n_added) = (projection.response().output.len(), added.count());
                if upto.filter(is_withdrawal).count() == 0 {
                    prop_assert_eq!(n_shown, n_added);
                } else {
                    prop_assert!(n_shown <= n_added);
                }
            }
            check_stream(&frames, profile);
            prop_assert_eq!(faults(&frames, profile), vec![]);
            let response = projection.response();
            check_response(&response);
            prop_assert_eq!(to_json(&response), to_json(frames.last().unwrap())["response"].clone());
            let mut again = Responses::new(profile);
            let same: Vec<_> = events.iter().flat_map(|recorded| again.project(recorded)).collect();
            prop_assert_eq!(&same, &frames);
            streams.push(frames);
        }
        // R1: the extended profile adds events and omits none.
        prop_assert_eq!(official(&streams[0]), official(&streams[1]));
    }
}
