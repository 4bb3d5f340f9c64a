//! A valid stream passes, and each of many faults is found under its own code.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CheckOptions, Checker, Code, Level, Report};

const SEARCH: &str = include_str!("../../../turnwire-testkit/scenarios/web_search/responses.jsonl");
const SERVER: &str =
    include_str!("../../../turnwire-testkit/scenarios/server_tool_with_progress/responses.jsonl");
const EXTENDED: &str = include_str!(
    "../../../turnwire-testkit/scenarios/server_tool_with_progress/responses_extended.jsonl"
);
const FUNCTION: &str = include_str!("../../../turnwire-testkit/scenarios/one_tool/responses.jsonl");
const THOUGHT: &str =
    include_str!("../../../turnwire-testkit/scenarios/reasoning_then_text/responses.jsonl");
const REJECTED: &str =
    include_str!("../../../turnwire-testkit/scenarios/model_rejects/responses.jsonl");

const ADDED: &str = "response.output_item.added";
const DONE: &str = "response.output_item.done";
const COMPLETED: &str = "response.completed";
const TEXT_DELTA: &str = "response.output_text.delta";
const TEXT_DONE: &str = "response.output_text.done";
const PART_ADDED: &str = "response.content_part.added";
const PART_DONE: &str = "response.content_part.done";

/// A recorded stream, to be modified.
#[derive(Debug, Clone)]
struct Stream(Vec<Value>);

fn of(text: &str) -> Stream {
    Stream(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

impl Stream {
    /// Index of the `nth` event of a type, counted from 0.
    fn place(&self, kind: &str, nth: usize) -> usize {
        let all = self.0.iter().enumerate().filter(|(_, event)| event["type"] == kind);
        all.map(|(n, _)| n).nth(nth).unwrap_or_else(|| panic!("no {kind}"))
    }

    fn without(mut self, kind: &str, nth: usize) -> Self {
        self.0.remove(self.place(kind, nth));
        self.numbered()
    }

    fn twice(mut self, kind: &str, nth: usize) -> Self {
        let place = self.place(kind, nth);
        self.0.insert(place, self.0[place].clone());
        self.numbered()
    }

    /// Moves an event right behind another one.
    fn behind(mut self, kind: &str, nth: usize, other: &str, other_nth: usize) -> Self {
        let event = self.0.remove(self.place(kind, nth));
        let place = self.place(other, other_nth);
        self.0.insert(place + 1, event);
        self.numbered()
    }

    /// Inserts a new event right behind another one.
    fn then(mut self, kind: &str, nth: usize, event: Value) -> Self {
        let place = self.place(kind, nth);
        self.0.insert(place + 1, event);
        self.numbered()
    }

    fn with(mut self, kind: &str, nth: usize, pointer: &str, value: Value) -> Self {
        let place = self.place(kind, nth);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = self.0[place].pointer_mut(parent).unwrap();
        if let Value::Array(list) = parent {
            list[key.parse::<usize>().unwrap()] = value;
        } else {
            parent[key] = value;
        }
        self
    }

    fn lacking(mut self, kind: &str, nth: usize, key: &str) -> Self {
        let place = self.place(kind, nth);
        self.0[place].as_object_mut().unwrap().remove(key).unwrap();
        self
    }

    /// Changes the final response.
    fn with_output(mut self, change: impl FnOnce(&mut Vec<Value>)) -> Self {
        let last = self.0.last_mut().unwrap();
        change(last["response"]["output"].as_array_mut().unwrap());
        self
    }

    fn cut_at(mut self, kind: &str, nth: usize) -> Self {
        self.0.truncate(self.place(kind, nth));
        self
    }

    /// Renumbers all events, so that only the seeded fault is left.
    fn numbered(mut self) -> Self {
        for (n, event) in self.0.iter_mut().enumerate() {
            event["sequence_number"] = n.into();
        }
        self
    }

    fn report(&self, options: CheckOptions) -> Report {
        let mut checker = Checker::new(options);
        for event in &self.0 {
            checker.event(event["type"].as_str(), event);
        }
        checker.finish()
    }
}

/// One seeded fault.
struct Seed {
    code: Code,
    report: Report,
    /// Other codes that the fault necessarily causes.
    also: &'static [Code],
}

fn seed(code: Code, stream: Stream) -> Seed {
    Seed { code, report: stream.report(CheckOptions::default()), also: &[] }
}

/// A fault that causes others.
fn with(mut seed: Seed, also: &'static [Code]) -> Seed {
    seed.also = also;
    seed
}

/// A fault of the framing.
fn framed(code: Code, read: impl FnOnce(&mut Checker)) -> Seed {
    let mut checker = Checker::new(CheckOptions { is_sse: true, ..CheckOptions::default() });
    read(&mut checker);
    Seed { code, report: checker.finish(), also: &[] }
}

fn all(checker: &mut Checker, stream: &str) {
    for event in of(stream).0 {
        checker.event(None, &event);
    }
}

fn seeds_of_framing() -> Vec<Seed> {
    vec![
        framed(Code::StreamEmpty, |_| {}),
        framed(Code::NotJson, |checker| {
            all(checker, FUNCTION);
            checker.unreadable("expected value at line 1 column 1");
            checker.done_marker();
        }),
        framed(Code::NotAnEvent, |checker| {
            all(checker, FUNCTION);
            checker.event(None, &json!({ "object": "response" }));
            checker.done_marker();
        }),
        framed(Code::NameDiffers, |checker| {
            for event in of(FUNCTION).0 {
                let name = event["type"].as_str().unwrap().replace("output_text", "text");
                checker.event(Some(&name), &event);
            }
            checker.done_marker();
        }),
        with(
            framed(Code::DoneMarkerEarly, |checker| {
                checker.event(None, &of(FUNCTION).0[0]);
                checker.done_marker();
            }),
            &[Code::EndMissing],
        ),
        framed(Code::AfterDoneMarker, |checker| {
            all(checker, FUNCTION);
            checker.done_marker();
            checker.done_marker();
        }),
        framed(Code::DoneMarkerMissing, |checker| all(checker, FUNCTION)),
    ]
}

fn seeds_of_numbers() -> Vec<Seed> {
    let number = "sequence_number";
    vec![
        // Seen in gateways: the adapter's last event has no number, or 0; workers count in parallel
        // without a lock; numbers restart with every turn.
        seed(Code::SequenceMissing, of(FUNCTION).lacking(COMPLETED, 0, number)),
        seed(Code::SequenceStart, {
            let mut late = of(FUNCTION);
            late.0.iter_mut().for_each(|e| e[number] = (e[number].as_u64().unwrap() + 1).into());
            late
        }),
        seed(Code::SequenceGap, {
            let mut gap = of(FUNCTION);
            let at = gap.place(TEXT_DELTA, 1);
            gap.0[at..]
                .iter_mut()
                .for_each(|e| e[number] = (e[number].as_u64().unwrap() + 1).into());
            gap
        }),
        seed(Code::SequenceRepeated, {
            let mut same = of(FUNCTION);
            let at = same.place(TEXT_DELTA, 1);
            same.0[at..]
                .iter_mut()
                .for_each(|e| e[number] = (e[number].as_u64().unwrap() - 1).into());
            same
        }),
        seed(
            Code::SequenceBackwards,
            of(FUNCTION).with(COMPLETED, 0, "/sequence_number", json!(0)),
        ),
    ]
}

fn seeds_of_responses() -> Vec<Seed> {
    let created = of(FUNCTION).0[0].clone();
    let progress = "response.in_progress";
    vec![
        seed(Code::CreatedMissing, of(FUNCTION).without("response.created", 0)),
        seed(Code::CreatedTwice, of(FUNCTION).then(DONE, 0, created)),
        seed(
            Code::ResponseIdChanged,
            of(FUNCTION).with(COMPLETED, 0, "/response/id", json!("resp_2")),
        ),
        seed(
            Code::StatusWrong,
            of(FUNCTION).with(COMPLETED, 0, "/response/status", json!("in_progress")),
        ),
        seed(Code::StateBackwards, {
            let mut queued = of(FUNCTION).0[0].clone();
            queued["type"] = json!("response.queued");
            queued["response"]["status"] = json!("queued");
            of(FUNCTION).then(progress, 0, queued)
        }),
        // A recovery that sends the response again: helpers lose what they had.
        seed(Code::SnapshotIncomplete, {
            let again = of(FUNCTION).0[1].clone();
            of(FUNCTION).then(DONE, 0, again)
        }),
        seed(Code::ErrorKey, {
            let error = json!({ "message": "no" });
            of(FUNCTION).with(TEXT_DELTA, 0, "/error", error)
        }),
        // Seen in gateways: the end of a call without its item.
        seed(Code::FieldMissing, of(SERVER).lacking("response.mcp_call.in_progress", 1, "item_id")),
    ]
}

fn seeds_of_items() -> Vec<Seed> {
    let delta = "response.function_call_arguments.delta";
    vec![
        seed(Code::ItemIndexGap, {
            // Seen in a gateway: indexes start at 1.
            let mut late = of(THOUGHT);
            for event in &mut late.0 {
                if let Some(place) = event["output_index"].as_u64() {
                    event["output_index"] = (place + 1).into();
                }
            }
            late
        }),
        with(
            seed(Code::ItemIndexReused, {
                let mut again = of(FUNCTION).0[8].clone();
                again["item"]["id"] = json!("fc_2");
                again["item"]["call_id"] = json!("call_n");
                of(FUNCTION).then(DONE, 1, again).with(ADDED, 2, "/output_index", json!(1))
            }),
            &[Code::ItemNotDone],
        ),
        seed(Code::ItemIdMissing, {
            let mut nameless = of(FUNCTION);
            let places = [(ADDED, 2, "/item/id"), (DONE, 2, "/item/id")];
            for (kind, nth, pointer) in places {
                nameless = nameless.with(kind, nth, pointer, Value::Null);
            }
            nameless.with_output(|output| output[2]["id"] = Value::Null)
        }),
        seed(Code::ItemIdReused, {
            let name = json!("fc_1");
            let same = of(FUNCTION).with(ADDED, 2, "/item/id", name.clone());
            let same = same.with(DONE, 2, "/item/id", name);
            same.with_output(|output| drop(output[2].as_object_mut().unwrap().remove("id")))
        }),
        // Seen in a gateway: lifecycle events of a call have its `call_id` as item ID, and a later
        // index.
        seed(Code::ItemUnknown, {
            let at = of(SERVER).place("response.mcp_call.in_progress", 1);
            let mut wrong = of(SERVER);
            wrong.0[at]["item_id"] = json!("call_1");
            wrong.0[at]["output_index"] = json!(9);
            wrong
        }),
        // Seen in a gateway: the end of a call has a new item ID.
        with(
            seed(
                Code::ItemIdDiffers,
                of(SERVER).with("response.mcp_call.completed", 0, "/item_id", json!("mcp_9")),
            ),
            &[Code::CallNotEnded],
        ),
        seed(
            Code::ItemIndexDiffers,
            of(SERVER).with("response.mcp_call.in_progress", 1, "/output_index", json!(7)),
        ),
        seed(Code::ItemKindDiffers, {
            let wrong = of(SERVER);
            let event = wrong.0[wrong.place("response.mcp_call.in_progress", 0)].clone();
            let mut search = event;
            search["type"] = json!("response.web_search_call.searching");
            wrong.then("response.mcp_call.in_progress", 0, search)
        }),
        seed(Code::ItemClosed, {
            let more = of(FUNCTION).0[of(FUNCTION).place(delta, 0)].clone();
            of(FUNCTION).then(DONE, 1, more)
        }),
        seed(Code::ItemDoneTwice, of(FUNCTION).twice(DONE, 1)),
        with(
            seed(Code::ItemChanged, of(FUNCTION).with(DONE, 1, "/item/name", json!("divide"))),
            &[Code::OutputItemDiffers],
        ),
        with(
            seed(Code::ItemUnfinished, {
                of(FUNCTION).with(DONE, 3, "/item/status", json!("in_progress"))
            }),
            &[Code::OutputItemDiffers],
        ),
        seed(Code::ItemNotDone, of(FUNCTION).without(DONE, 1)),
        seed(Code::ItemLeftOpen, {
            let mut open = of(REJECTED);
            open.0.insert(2, of(FUNCTION).0[2].clone());
            open.numbered()
        }),
    ]
}

fn seeds_of_parts() -> Vec<Seed> {
    let annotation = "response.output_text.annotation.added";
    vec![
        with(seed(Code::PartUnknown, of(FUNCTION).without(PART_ADDED, 0)), &[Code::ContentDiffers]),
        seed(Code::PartIndexGap, {
            let mut gap = of(SEARCH);
            for event in &mut gap.0 {
                if event.get("content_index").is_some() {
                    event["content_index"] = json!(1);
                }
            }
            gap
        }),
        seed(Code::PartIndexReused, of(FUNCTION).twice(PART_ADDED, 0)),
        with(
            seed(
                Code::PartKindDiffers,
                of(FUNCTION).with(PART_ADDED, 0, "/part/type", json!("refusal")),
            ),
            &[],
        ),
        seed(Code::PartClosed, of(FUNCTION).twice(PART_DONE, 0)),
        seed(Code::PartNotDone, of(FUNCTION).without(PART_DONE, 1)),
        seed(
            Code::AnnotationIndexGap,
            of(SEARCH).with(annotation, 0, "/annotation_index", json!(1)),
        ),
    ]
}

fn seeds_of_texts() -> Vec<Seed> {
    let arguments = "response.function_call_arguments.done";
    vec![
        with(
            seed(Code::DeltaAfterWhole, of(FUNCTION).behind(TEXT_DELTA, 2, TEXT_DONE, 1)),
            &[Code::DeltasDiffer],
        ),
        seed(Code::WholeTwice, of(FUNCTION).twice(TEXT_DONE, 0)),
        seed(Code::WholeMissing, of(FUNCTION).without(arguments, 0)),
        // Seen in a gateway: the complete text is empty. Also what a lost delta looks like.
        with(
            seed(Code::DeltasDiffer, of(FUNCTION).with(TEXT_DONE, 0, "/text", json!(""))),
            &[Code::ContentDiffers],
        ),
        with(
            seed(
                Code::ContentDiffers,
                of(FUNCTION).with(DONE, 0, "/item/content/0/text", json!("Let me add.")),
            ),
            &[Code::OutputItemDiffers],
        ),
        with(
            seed(Code::ArgumentsDiffer, of(FUNCTION).with(DONE, 1, "/item/arguments", json!("{}"))),
            &[Code::OutputItemDiffers],
        ),
    ]
}

fn seeds_of_calls() -> Vec<Seed> {
    let (begun, ended) = ("response.mcp_call.in_progress", "response.mcp_call.completed");
    let search = "response.web_search_call.in_progress";
    vec![
        seed(Code::CallNotStarted, of(SEARCH).without(search, 0)),
        seed(Code::CallEndedTwice, of(SERVER).twice(ended, 0)),
        // Seen in a gateway: the tools have run before their start is sent.
        seed(Code::CallAfterEnd, of(SERVER).behind(begun, 1, ended, 0)),
        // Seen in a gateway: a failing search just stops.
        seed(Code::CallNotEnded, of(SERVER).without(ended, 0)),
        // Seen in a gateway: a failed tool is sent as completed.
        seed(Code::CallOutcomeDiffers, {
            let error = json!({ "type": "mcp_tool_execution_error", "content": [] });
            let failed = of(SERVER).with(DONE, 1, "/item/status", json!("failed"));
            let failed = failed.with(DONE, 1, "/item/error", error.clone());
            failed.with_output(|output| {
                output[1]["status"] = json!("failed");
                output[1]["error"] = error;
            })
        }),
        seed(Code::CallIdReused, {
            let mut again = of(FUNCTION);
            let (add, done) = (again.0[8].clone(), again.0[12].clone());
            let place = again.0.len() - 1;
            for (n, mut event) in [add, done].into_iter().enumerate() {
                event["output_index"] = json!(4);
                event["item"]["id"] = json!("fc_9");
                again.0.insert(place + n, event);
            }
            let item = again.0[place + 1]["item"].clone();
            again.with_output(|output| output.push(item)).numbered()
        }),
        seed(Code::OutputBeforeCall, {
            let mut turned = of(FUNCTION).0;
            // The output (13, 14) before its call (8 to 12), with their indexes swapped.
            let output: Vec<Value> = turned.drain(13..15).collect();
            turned.splice(8..8, output);
            for event in &mut turned[8..15] {
                let place = if event["item"]["id"] == "fco_1" { 1 } else { 2 };
                event["output_index"] = json!(place);
            }
            Stream(turned).with_output(|output| output.swap(1, 2)).numbered()
        }),
    ]
}

fn seeds_of_endings() -> Vec<Seed> {
    vec![
        seed(Code::EndMissing, of(FUNCTION).cut_at(COMPLETED, 0)),
        seed(Code::EndTwice, of(FUNCTION).twice(COMPLETED, 0)),
        seed(Code::AfterEnd, of(FUNCTION).behind("response.in_progress", 0, COMPLETED, 0)),
        seed(Code::ErrorWithoutFailed, of(REJECTED).cut_at("response.failed", 0)),
        seed(Code::OutputItemLost, of(FUNCTION).with_output(|output| drop(output.remove(1)))),
        seed(Code::OutputItemUnknown, {
            let extra = json!({ "type": "message", "id": "msg_9", "status": "completed" });
            of(FUNCTION).with_output(|output| output.push(extra))
        }),
        seed(
            Code::OutputItemDiffers,
            of(FUNCTION).with_output(|output| output[1]["arguments"] = json!("{}")),
        ),
        // Seen in a gateway: items are collected in another order than that of their indexes.
        seed(Code::OutputOrder, of(FUNCTION).with_output(|output| output.swap(0, 1))),
        seed(Code::EventUnknown, {
            let cancelled = json!({ "type": "response.cancelled" });
            of(FUNCTION).then(DONE, 0, cancelled)
        }),
    ]
}

fn seeds() -> Vec<Seed> {
    let groups = [
        seeds_of_framing(),
        seeds_of_numbers(),
        seeds_of_responses(),
        seeds_of_items(),
        seeds_of_parts(),
        seeds_of_texts(),
        seeds_of_calls(),
        seeds_of_endings(),
    ];
    groups.into_iter().flatten().collect()
}

fn codes(report: &Report) -> BTreeSet<&'static str> {
    report.findings.iter().map(|finding| finding.code.name()).collect()
}

/// S1-SC-004, R4, I1, I2, I4, I5: every seeded fault is found under its own code, and nothing else
/// but what follows from it.
#[test]
fn every_seeded_fault_is_found_under_its_own_code() {
    let mut wrong = Vec::new();
    for Seed { code, report, also } in seeds() {
        let wanted: BTreeSet<&str> = also.iter().chain([&code]).map(|code| code.name()).collect();
        if codes(&report) != wanted {
            wrong.push((code.name(), report.findings));
        }
        let is_fault = code.level() == Level::Fault;
        assert_eq!(report.faults == 0, !is_fault, "{code}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every code can occur.
#[test]
fn every_code_has_a_seed() {
    let seeded: BTreeSet<Code> = seeds().iter().map(|seed| seed.code).collect();
    assert_eq!(seeded.into_iter().collect::<Vec<_>>(), Code::ALL);
    assert!(seeds().len() >= 30);
}

/// The recorded streams are valid, so that only seeded faults are found.
#[test]
fn the_recorded_streams_are_fine() {
    for stream in [SEARCH, SERVER, EXTENDED, FUNCTION, THOUGHT, REJECTED] {
        let report = of(stream).report(CheckOptions::default());
        assert_eq!(report.findings, [], "{stream}");
    }
}

/// C11: the rest of a stream is valid wherever it is resumed, and only if it is marked as resumed.
#[test]
fn the_rest_of_a_stream_is_fine_wherever_it_begins() {
    let resumed = CheckOptions { is_resumed: true, ..CheckOptions::default() };
    for stream in [SEARCH, SERVER, EXTENDED, FUNCTION, THOUGHT, REJECTED] {
        let whole = of(stream).0;
        for n in 1..whole.len() {
            let rest = Stream(whole[n..].to_vec());
            assert_eq!(rest.report(resumed).findings, [], "after {n}");
            assert!(!rest.report(CheckOptions::default()).is_fine(), "after {n}");
        }
    }
}

/// The rest of a stream is checked as far as possible: a second end is still found.
#[test]
fn the_rest_of_a_stream_is_checked_too() {
    let resumed = CheckOptions { is_resumed: true, ..CheckOptions::default() };
    let rest = |stream: Stream| Stream(stream.0[9..].to_vec());
    let found = |stream| rest(stream).report(resumed).findings;
    let codes = |stream| found(stream).into_iter().map(|finding| finding.code).collect::<Vec<_>>();
    assert_eq!(codes(of(FUNCTION).twice(COMPLETED, 0)), [Code::EndTwice]);
    assert_eq!(codes(of(FUNCTION).twice(DONE, 1)), [Code::ItemDoneTwice]);
    assert_eq!(
        codes(of(FUNCTION).with(TEXT_DONE, 1, "/text", json!("5 times 4"))),
        [Code::DeltasDiffer, Code::ContentDiffers, Code::ContentDiffers]
    );
    let gap = of(FUNCTION).with(COMPLETED, 0, "/sequence_number", json!(99));
    assert_eq!(codes(gap), [Code::SequenceGap]);
}

/// Additions of other vendors are noted once, and are not faults.
#[test]
fn what_other_vendors_add_is_noted_once() {
    let own = json!({ "type": "acme:thinking", "how": "hard" });
    let stream = of(FUNCTION).then(DONE, 0, own.clone()).then(DONE, 1, own);
    let report = stream.report(CheckOptions::default());
    assert_eq!((report.faults, report.notes), (0, 1));
    let item = json!({ "type": "acme:receipt", "id": "acme_1" });
    let event = |kind: &str| json!({ "type": kind, "output_index": 4, "item": item.clone() });
    let place = of(FUNCTION).0.len() - 2;
    let (kind, nth) = (DONE, 3);
    assert_eq!(of(FUNCTION).place(kind, nth), place);
    let stream = of(FUNCTION).then(kind, nth, event(ADDED)).then(kind, nth, event(DONE));
    let mut stream = stream;
    stream.0.swap(place + 1, place + 2);
    let stream = stream.numbered().with_output(|output| output.push(item));
    assert_eq!(stream.report(CheckOptions::default()).findings, []);
}

/// A finding has its location, for people and for scripts.
#[test]
fn a_finding_has_its_place() {
    let stream = of(FUNCTION).with(DONE, 1, "/item/id", json!("fc_2"));
    let report = stream.report(CheckOptions::default());
    let first = serde_json::to_value(&report.findings[0]).unwrap();
    assert_eq!(
        first,
        json!({
            "code": "item_id_differs", "level": "fault", "event": 13,
            "type": "response.output_item.done", "sequence_number": 12, "item_id": "fc_2",
            "output_index": 1, "message": "the item at 1 is `fc_1`, not `fc_2`",
        })
    );
}

/// A stream that consists of faults only does not fill the memory.
#[test]
fn findings_are_counted_when_nobody_can_read_them_all() {
    let mut checker = Checker::new(CheckOptions::default());
    for _ in 0..1500 {
        checker.event(None, &json!(1));
    }
    let report = checker.finish();
    assert_eq!((report.faults, report.findings.len(), report.left_off), (1501, 1000, 501));
}

/// The documentation lists all codes.
#[test]
fn every_code_is_in_the_documentation() {
    let text = include_str!("../../../../docs/check.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`');
        let (level, meaning) = (cells.next()?, cells.next()?.trim_end_matches(" |"));
        Some((name.to_owned(), level.to_owned(), meaning.to_owned()))
    });
    let code = |code: &Code| {
        let level = match code.level() {
            Level::Fault => "fault",
            Level::Note => "note",
        };
        (code.name().to_owned(), level.to_owned(), code.meaning().to_owned())
    };
    assert_eq!(rows.collect::<Vec<_>>(), Code::ALL.iter().map(code).collect::<Vec<_>>());
}
