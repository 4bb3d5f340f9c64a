use std::sync::Arc;

use tokio::time::advance;
use turnwire_contract::{
    Completeness, Finish, Item, ItemId, RunId, RunRequest, Seq, ToolKind, ToolRef, Usage,
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_people_are_asked() {
    let began = Instant::now();
    let mut work = WorkTime::begin(SECOND, false);
    assert_eq!(work.ends_at(10 * SECOND), began + 9 * SECOND);
    advance(4 * SECOND).await;
    assert!(work.pause(true));
    assert!(!work.pause(true), "that is no change");
    advance(1_000 * SECOND).await;
    assert!(work.ends_at(10 * SECOND) > Instant::now() + 1_000_000 * SECOND);
    assert!(work.pause(false));
    assert_eq!(work.ends_at(10 * SECOND), Instant::now() + 5 * SECOND);
}

/// Work time from a journal with an approval and takeovers.
#[test]
fn the_journal_knows_how_long_a_run_has_worked() {
    let run_id = RunId::from("run_1");
    let request = Arc::new(RunRequest::new("m", vec![Item::user("hi")]));
    let call_id = turnwire_contract::CallId::from("call_1");
    let tool = ToolRef { name: "publish".to_owned(), kind: ToolKind::Function, server: None };
    let (item_id, completeness) = (ItemId::from("fc_1"), Completeness::Complete);
    let finished = Event::ArgumentsFinished {
        call_id: call_id.clone(),
        arguments: "{}".to_owned(),
        completeness,
    };
    let (finish, usage) = (Finish::CalledTools, Usage::default());
    let events = [
        (0, Event::RunStarted),
        (1, Event::TurnStarted { turn: 1 }),
        (3, Event::CallAnnounced { call_id: call_id.clone(), item_id, tool }),
        (3, finished),
        (4, Event::TurnFinished { turn: 1, finish, usage }),
        (4, Event::approval_requested(call_id.clone())),
        // An approval is open, the worker dies, and another one takes over.
        (500, Event::taken_over(2)),
        (900, Event::approval_resolved(call_id.clone(), turnwire_contract::Decision::Approved)),
        (902, Event::ToolStarted { call_id, attempt: 1, label: String::new() }),
        // The worker dies during the call.
        (950, Event::taken_over(3)),
        (951, Event::RunStarted),
        // A clock that is a day ahead.
        (90_000, Event::RunStarted),
    ];
    let mut state = RunState::new(&run_id, request, Vec::new());
    let mut work = RecordedWork::default();
    let mut worked = Vec::new();
    for (seq, (second, event)) in (1..).zip(events) {
        let at = Timestamp::from_micros(second * 1_000_000);
        state.apply(&event);
        work.note(&RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event }, &state);
        worked.push(work.worked().as_secs());
    }
    let longest = state.limits().model_total.as_secs();
    assert_eq!(worked, [0, 1, 3, 3, 4, 4, 4, 4, 6, 6, 7, 7 + longest]);
}
