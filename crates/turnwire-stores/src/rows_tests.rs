use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use turnwire_contract::{
    Annotation, DiscoveryOutcome, Item, ItemId, LeftOut, RunRequest, ToolOutput, ToolSpec,
    WhyLeftOut,
};
use turnwire_testkit::scenarios;

use super::*;

fn read_back(rows: &[EventRow], run_id: &RunId) -> Vec<Arc<RecordedEvent>> {
    rows.iter().flat_map(|row| stored(row).decoded(run_id).unwrap()).collect()
}

/// The row as read from the database.
fn stored(row: &EventRow) -> StoredRow<'_> {
    StoredRow {
        first: row.first,
        last: row.last,
        kind: row.kind,
        call: row.call.as_deref(),
        body: &row.body,
    }
}

fn recorded(seq: u64, event: Event) -> Arc<RecordedEvent> {
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(seq).unwrap());
    Arc::new(RecordedEvent { run_id: RunId::from("run_1"), seq: Seq(seq), at, event })
}

fn text(seq: u64, item: &str, text: &str) -> Arc<RecordedEvent> {
    recorded(seq, Event::TextAdded { item_id: ItemId::from(item), text: text.to_owned() })
}

/// C2: for any scenario and any split into batches, the rows decode to the same events.
#[tokio::test(start_paused = true)]
async fn every_scenario_comes_back_as_it_was_however_it_was_cut() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        let run_id = journal[0].run_id.clone();
        let cut = |sizes: Vec<usize>| {
            let (mut rest, mut rows) = (journal.as_slice(), Vec::new());
            for size in sizes.into_iter().chain([journal.len()]) {
                let (batch, later) = rest.split_at(size.min(rest.len()));
                rows.extend(to_rows(batch).unwrap());
                rest = later;
            }
            rows
        };
        let mut runner = TestRunner::new_with_rng(
            ProptestConfig::with_cases(32),
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let splits = vec(0_usize..12, 0..40);
        let checked = runner.run(&splits, |sizes| {
            let rows = cut(sizes);
            prop_assert_eq!(&read_back(&rows, &run_id), &journal);
            let firsts: Vec<i64> = rows.iter().map(|row| row.first).collect();
            let follow: Vec<i64> = rows.iter().map(|row| row.last + 1).collect();
            prop_assert_eq!(&firsts[1..], &follow[..follow.len() - 1]);
            Ok(())
        });
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
        // As compaction stores them.
        let is_delta = |recorded: &Arc<RecordedEvent>| delta_text(&recorded.event).is_some();
        for deltas in journal.chunk_by(|one, next| is_delta(one) && is_delta(next)) {
            if deltas.iter().all(is_delta) {
                assert_eq!(read_back(&to_merged_rows(deltas).unwrap(), &run_id), deltas, "{name}");
            }
        }
    }
}

/// The times of merged deltas are exact, also of a clock that was set back. What does not fit the
/// row's own numbers is refused.
#[test]
fn merged_deltas_come_back_as_they_were() {
    let at = |seq: u64, micros| {
        let mut delta = text(seq, if seq < 4 { "msg_1" } else { "msg_2" }, "\"a\"\u{0}\n");
        Arc::make_mut(&mut delta).at = Timestamp::from_micros(micros);
        delta
    };
    let deltas = [at(1, 5_000_000), at(2, 4_999_000), at(3, 0), at(4, i64::from(u32::MAX))];
    let rows = to_merged_rows(&deltas).unwrap();
    assert_eq!(rows.iter().map(|row| (row.first, row.last)).collect::<Vec<_>>(), [(1, 3), (4, 4)]);
    let run_id = RunId::from("run_1");
    assert_eq!(read_back(&rows, &run_id), deltas);
    let longer = StoredRow { last: 4, ..stored(&rows[0]) };
    assert!(longer.decoded(&run_id).is_err());
    let long = "x".repeat(1_000);
    let many: Vec<_> = (1..=100).map(|seq| text(seq, "msg_1", &long)).collect();
    let rows = to_merged_rows(&many).unwrap();
    assert!(rows.iter().all(|row| row.body.len() < ROW_BYTES + 2_000));
    assert!((3..=5).contains(&rows.len()), "{}", rows.len());
    let short: Vec<_> = (1..=1_100).map(|seq| text(seq, "msg_1", "x")).collect();
    let rows = to_merged_rows(&short).unwrap();
    let sizes: Vec<i64> = rows.iter().map(|row| row.last - row.first + 1).collect();
    assert_eq!(sizes, [512, 512, 76]);
    let damaged = StoredRow { body: rows[0].body.trim_end_matches('}'), ..stored(&rows[0]) };
    let substitutes = damaged.events(&run_id, Timestamp::from_micros(0));
    assert_eq!((substitutes.len(), substitutes[0].at), (512, short[0].at));
}

#[test]
fn neighbouring_deltas_of_one_item_share_a_row_and_nothing_else_does() {
    let batch = [
        text(1, "msg_1", "one"),
        text(2, "msg_1", "\"two\"\u{0}\n"),
        text(3, "msg_2", "three"),
        recorded(4, Event::RefusalAdded { item_id: "msg_2".into(), text: "no".to_owned() }),
        recorded(5, Event::TurnStarted { turn: 1 }),
        recorded(6, Event::TurnStarted { turn: 2 }),
    ];
    let rows = to_rows(&batch).unwrap();
    let places: Vec<(i64, i64, &str)> =
        rows.iter().map(|row| (row.first, row.last, row.kind)).collect();
    let expected = [(1, 2, "delta"), (3, 3, "delta"), (4, 4, "delta")];
    assert_eq!(places[..3], expected);
    assert_eq!(places[3..], [(5, 5, "event"), (6, 6, "event")]);
    assert_eq!(
        rows[0].body,
        r#"[[1700000000000001,{"type":"text_added","item_id":"msg_1","text":"one"}],[1700000000000002,"\"two\"\u0000\n"]]"#
    );
    assert_eq!(read_back(&rows, &RunId::from("run_1")), batch);
}

#[test]
fn starts_and_ends_are_told_to_the_database() {
    let call_id = CallId::from("call_1");
    let started = Event::ToolStarted { call_id: call_id.clone(), attempt: 1, label: String::new() };
    let outcome = ToolOutcome::Cancelled;
    let finished = Event::ToolFinished { call_id, outcome, duration_ms: 1 };
    let over = Event::RunFinished {
        outcome: turnwire_contract::RunOutcome::Completed,
        usage: Usage::default(),
    };
    let rows = to_rows(&[recorded(1, started), recorded(2, finished), recorded(3, over)]).unwrap();
    let kinds: Vec<(&str, Option<&str>)> =
        rows.iter().map(|row| (row.kind, row.call.as_deref())).collect();
    assert_eq!(kinds, [("start", Some("call_1")), ("end", Some("call_1")), ("over", None)]);
}

/// Any call id can be indexed, and different ids get different keys.
#[test]
fn a_name_that_no_index_takes_is_replaced_in_the_index_only() {
    let names = ["a\0b".to_owned(), "a\0c".to_owned(), "x".repeat(100_000)];
    let in_index = names.each_ref().map(|name| index_name(&CallId::from(name.as_str())));
    assert!(in_index.iter().all(|name| name.len() < 100 && !name.contains('\0')));
    assert_ne!(in_index[0], in_index[1]);
}

/// The size of a row of deltas is bounded.
#[test]
fn a_row_does_not_grow_without_end() {
    let long = "x".repeat(1_000);
    let batch: Vec<Arc<RecordedEvent>> = (1..=100).map(|seq| text(seq, "msg_1", &long)).collect();
    let rows = to_rows(&batch).unwrap();
    assert!(rows.iter().all(|row| row.body.len() < ROW_BYTES + 2_000));
    assert!((3..=5).contains(&rows.len()), "{}", rows.len());
    assert_eq!(read_back(&rows, &RunId::from("run_1")), batch);
}

#[test]
fn a_row_that_was_tampered_with_is_refused() {
    let run_id = RunId::from("run_1");
    let row = to_rows(&[text(1, "msg_1", "one")]).unwrap().remove(0);
    let two = StoredRow { last: 2, ..stored(&row) };
    assert!(two.decoded(&run_id).is_err(), "it says that it holds two");
    for body in ["[[1,\"text of nothing\"]]", "["] {
        assert!(StoredRow { body, ..stored(&row) }.decoded(&run_id).is_err());
    }
}

/// C27: an unreadable row is substituted from its other columns, seq by seq, so that readers
/// continue and a takeover knows which calls have ended.
#[test]
fn a_row_that_cannot_be_read_has_a_substitute() {
    let call_id = CallId::from("call_1");
    let outcome = RunOutcome::Completed;
    let events = [
        Event::ToolStarted { call_id: call_id.clone(), attempt: 1, label: "a".to_owned() },
        Event::ToolFinished { call_id, outcome: ToolOutcome::Cancelled, duration_ms: 1 },
        Event::TurnStarted { turn: 1 },
        Event::RunFinished { outcome, usage: Usage::default() },
    ];
    let batch: Vec<Arc<RecordedEvent>> = (7..).zip(events).map(|(n, e)| recorded(n, e)).collect();
    let rows = to_rows(&batch).unwrap();
    let run_id = RunId::from("run_1");
    let substitutes: Vec<Arc<RecordedEvent>> = rows
        .iter()
        .flat_map(|row| {
            let deep = format!("{}{}", &row.body[..row.body.len() - 2], ",1]]");
            assert!(StoredRow { body: &deep, ..stored(row) }.decoded(&run_id).is_err());
            StoredRow { body: &deep, ..stored(row) }.events(&run_id, Timestamp::from_micros(0))
        })
        .collect();
    let at: Vec<(Seq, Timestamp)> = substitutes.iter().map(|event| (event.seq, event.at)).collect();
    assert_eq!(at, batch.iter().map(|event| (event.seq, event.at)).collect::<Vec<_>>());
    let [started, finished, turn, over] = &substitutes[..] else { panic!("{substitutes:?}") };
    assert!(
        matches!(&started.event, Event::ToolStarted { call_id, .. } if call_id.as_str() == "call_1")
    );
    let Event::ToolFinished { outcome, .. } = &finished.event else { panic!("{finished:?}") };
    assert!(matches!(outcome, ToolOutcome::OutcomeUnknown { .. }), "{outcome:?}");
    assert!(turn.event.is_unreadable());
    let Event::RunFinished { outcome, .. } = &over.event else { panic!("{over:?}") };
    assert_eq!(*outcome, RunOutcome::Failed { failure: Failure::journal_unreadable() });
    // A row of deltas has as many substitutes as events.
    let deltas = to_rows(&[text(1, "msg_1", "one"), text(2, "msg_1", "two")]).unwrap();
    let events =
        StoredRow { body: "?", ..stored(&deltas[0]) }.events(&run_id, Timestamp::from_micros(7));
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [Seq(1), Seq(2)]);
    // It does not tell its time, so it is that of what comes before.
    assert!(events.iter().all(|event| event.at == Timestamp::from_micros(7)));
}

/// A tool that reports NaN as progress must not make its run unreadable.
#[test]
fn progress_that_is_not_a_number_can_be_read_again() {
    let progressed = |progress, total| {
        recorded(1, Event::ToolProgressed { call_id: "c".into(), progress, total, message: None })
    };
    let odd = progressed(f64::NAN, Some(f64::INFINITY));
    let rows = to_rows(&[odd]).unwrap();
    assert_eq!(read_back(&rows, &RunId::from("run_1")), [progressed(0.0, None)]);
}

fn nested(depth: usize, odd: bool) -> Value {
    let around = |inside, n: usize| {
        if n.is_multiple_of(2) ^ odd { json!([inside]) } else { json!({ "\u{0}\\\"[{": inside }) }
    };
    (0..depth).fold(json!("]}\u{0}\u{2028}\u{ffff}"), around)
}

/// Events that are deep, large or strange in every way a tool, server, model or client can produce.
fn strange_events() -> impl Strategy<Value = Event> {
    let text = || "[\\PC\\x00\\n\"\\\\\\[\\]{}\u{10ffff}]{0,24}";
    let number = prop_oneof![
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(f64::MAX)),
        Just(Value::from(5e-324)),
    ];
    let value = (0_usize..140, any::<bool>(), number)
        .prop_map(|(depth, odd, number)| json!([nested(depth, odd), number]));
    let output = (text(), value.clone(), text()).prop_map(|(text, data, id)| {
        let output = ToolOutput { text, structured: Some(data), ..ToolOutput::default() };
        let (call_id, outcome) = (CallId::new(id), ToolOutcome::Succeeded { output });
        Event::ToolFinished { call_id, outcome, duration_ms: u64::MAX }
    });
    let question = (text(), value.clone()).prop_map(|(message, schema)| Event::InputRequested {
        call_id: "call_1".into(),
        input_id: "inp_1".into(),
        message,
        schema,
        expires_at: None,
        unknown_outcome: false,
    });
    let progress = (any::<f64>(), any::<Option<f64>>(), text()).prop_map(|(progress, total, m)| {
        let (call_id, message) = ("call_1".into(), Some(m));
        Event::ToolProgressed { call_id, progress, total, message }
    });
    let tools = (text(), value.clone()).prop_map(|(name, schema)| {
        let mut left_out = LeftOut::default();
        left_out.add(&name, &WhyLeftOut::NameTaken);
        let mut spec = ToolSpec::new(name, "does something");
        spec.parameters = schema;
        let (item_id, server) = ("mcpl_1".into(), "docs".to_owned());
        let outcome = DiscoveryOutcome::Listed { tools: vec![Arc::new(spec)] };
        Event::ToolsDiscovered { item_id, server, outcome, left_out }
    });
    let source = (text(), value.clone()).prop_map(|(kind, source)| {
        let annotation = Annotation { kind, source };
        Event::AnnotationAdded { item_id: "msg_1".into(), annotation }
    });
    let queued = (text(), value, any::<f64>()).prop_map(|(model, schema, temperature)| {
        let mut request = RunRequest::new(model, vec![Item::user("hi")]);
        request.generation.answer_schema = Some(schema.clone());
        request.generation.temperature = Some(temperature);
        request.surface_data.insert("as it came".to_owned(), schema);
        Event::RunQueued { request: Arc::new(request) }
    });
    let text_added =
        (text(), text()).prop_map(|(id, text)| Event::TextAdded { item_id: ItemId::new(id), text });
    prop_oneof![output, question, progress, tools, source, queued, text_added]
}

/// C26: every event is either rejected or can be decoded again. `TURNWIRE_CASES` sets the number of
/// cases.
#[test]
fn what_is_kept_can_be_read() {
    #[expect(clippy::disallowed_methods, reason = "a test may be asked for more")]
    let cases = std::env::var("TURNWIRE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let (run_id, kept) = (RunId::from("run_1"), std::cell::Cell::new(0_u32));
    let checked = runner.run(&vec(strange_events(), 1..4), |events| {
        let batch: Vec<Arc<RecordedEvent>> =
            (1..).zip(events).map(|(seq, event)| recorded(seq, event)).collect();
        let Ok(rows) = to_rows(&batch) else { return Ok(()) };
        kept.set(kept.get() + 1);
        let mut places = Vec::new();
        for row in &rows {
            let events = stored(row).decoded(&run_id);
            prop_assert!(events.is_ok(), "{:?} {}", events, row.body);
            places.extend(events.unwrap_or_default().iter().map(|event| event.seq));
            prop_assert!(!row.call.as_deref().is_some_and(|call| call.contains('\0')));
        }
        prop_assert_eq!(places, batch.iter().map(|event| event.seq).collect::<Vec<_>>());
        Ok(())
    });
    checked.unwrap();
    assert!(kept.get() > cases / 8, "{} of {cases} were kept", kept.get());
}

/// C26: at the limit and one past it. At the limit every JSON parser can read the event.
#[test]
fn an_event_may_be_nested_a_hundred_deep() {
    let finished = |depth: usize| {
        let output = ToolOutput { structured: Some(nested(depth, false)), ..ToolOutput::default() };
        let outcome = ToolOutcome::Succeeded { output };
        recorded(1, Event::ToolFinished { call_id: "call_1".into(), outcome, duration_ms: 1 })
    };
    // The event, its outcome and its output are three levels.
    let rows = to_rows(&[finished(97)]).unwrap();
    assert_eq!(read_back(&rows, &RunId::from("run_1")), [finished(97)]);
    let refused = to_rows(&[finished(98)]).unwrap_err();
    assert!(matches!(refused, DatabaseError::InvalidValue(_)), "{refused:?}");
}
