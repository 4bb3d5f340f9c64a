//! The shapes that are kept for ever, and the words that people read.

use std::time::Duration;

use serde_json::json;
use turnwire_contract::{
    Event, Failure, IncompleteReason, RecordedEvent, RunId, RunOutcome, Seq, TenantId, Timestamp,
    ToolOutcome, ToolOutput, ToolSpec, Usage, tool::BlobRef,
};

/// S2-12: times are RFC 3339 in UTC, and read back as they were.
#[test]
fn times_are_written_as_rfc_3339() {
    let at = Timestamp::from_micros(1_767_225_601_500_000);
    assert_eq!(serde_json::to_value(at).unwrap(), json!("2026-01-01T00:00:01.500000Z"));
    let read: Timestamp = serde_json::from_value(json!("2026-01-01T01:00:01.5+01:00")).unwrap();
    assert_eq!(read, at);
    assert_eq!(at.as_micros(), 1_767_225_601_500_000);
    assert!(serde_json::from_value::<Timestamp>(json!("yesterday")).is_err());
    let later = Timestamp::from_micros(at.as_micros() + 2_000_000);
    assert_eq!(later.since(at), Duration::from_secs(2));
    assert_eq!(at.since(later), Duration::ZERO);
}

/// S2-12: all timestamps have the same width, so they sort as text the way they sort as moments,
/// and there is none that cannot be written.
#[test]
fn times_have_a_fixed_width() {
    let micros = [
        i64::MIN,
        -1,
        0,
        1,
        999_999,
        1_000_000,
        1_767_225_601_500_000,
        1_767_225_601_500_001,
        i64::MAX,
    ];
    let times = micros.map(Timestamp::from_micros);
    let written = times.map(|time| time.to_string());
    assert_eq!(written[2], "1970-01-01T00:00:00.000000Z");
    assert_eq!(written[8], "9999-12-31T23:59:59.999999Z");
    assert!(written.iter().all(|text| text.len() == written[0].len()), "{written:?}");
    assert!(written.is_sorted(), "{written:?}");
    for (time, text) in times.iter().zip(&written) {
        assert_eq!(serde_json::from_value::<Timestamp>(json!(text)).unwrap(), *time);
    }
    assert_eq!(times[3].later(Duration::MAX), Timestamp::MAX);
}

/// The journal's shape, once and for all.
#[test]
fn an_event_is_written_with_its_envelope() {
    let recorded = RecordedEvent {
        run_id: RunId::from("run_1"),
        seq: Seq(7),
        at: Timestamp::from_micros(0),
        event: Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() },
    };
    let expected = json!({
        "run_id": "run_1", "seq": 7, "at": "1970-01-01T00:00:00.000000Z",
        "event": {
            "type": "run_finished",
            "outcome": { "status": "completed" },
            "usage": { "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "reasoning_tokens": 0 },
        },
    });
    assert_eq!(serde_json::to_value(&recorded).unwrap(), expected);
    assert_eq!(serde_json::from_value::<RecordedEvent>(expected).unwrap(), recorded);
    assert!(recorded.event.ends_the_run());
    assert!(!Event::RunStarted.ends_the_run());
    assert_eq!(Seq::START.next(), Seq(1));
}

/// I4: everything but a success has a problem, in words.
#[test]
fn every_failure_has_words() {
    let failed = |message: &str| ToolOutcome::Failed { failure: Failure::new("c", message) };
    let cases = [
        (ToolOutcome::Succeeded { output: ToolOutput::text("x") }, None),
        (failed("disk is full"), Some("disk is full")),
        (ToolOutcome::TimedOut { after_ms: 2_000 }, Some("timed out after 2 s")),
        (ToolOutcome::TimedOut { after_ms: 1_560 }, Some("timed out after 1.5 s")),
        (ToolOutcome::Cancelled, Some("cancelled")),
        (ToolOutcome::Denied { reason: String::new() }, Some("denied by the user")),
        (ToolOutcome::Denied { reason: "no".into() }, Some("denied by the user: no")),
        (ToolOutcome::InvalidArguments { message: "b".into() }, Some("invalid arguments: b")),
        (ToolOutcome::NotFound { message: "n".into() }, Some("n")),
        (ToolOutcome::Skipped { reason: "r".into() }, Some("not carried out: r")),
        (ToolOutcome::OutcomeUnknown { message: "u".into() }, Some("u")),
    ];
    for (outcome, words) in cases {
        assert_eq!(outcome.problem().as_deref(), words);
        assert_eq!(outcome.is_success(), words.is_none());
        assert_eq!(serde_json::to_value(&outcome).unwrap()["status"], outcome.name());
    }
}

/// The names of outcomes in metrics and traces are those of the journal.
#[test]
fn run_outcomes_have_the_names_of_the_journal() {
    let reason = IncompleteReason::MaxTurns;
    for outcome in [
        RunOutcome::Completed,
        RunOutcome::Incomplete { reason },
        RunOutcome::Failed { failure: Failure::new("c", "m") },
        RunOutcome::Cancelled,
    ] {
        assert_eq!(serde_json::to_value(&outcome).unwrap()["status"], outcome.name());
    }
}

/// A tool nobody has described further gets the most careful settings.
#[test]
fn a_plain_tool_is_treated_with_care() {
    let spec = ToolSpec::new("rm", "Removes.");
    assert_eq!(spec.effect, turnwire_contract::Effect::Once);
    assert!(!spec.parallel);
    assert_eq!(spec.reference().name, "rm");
    assert_eq!(TenantId::default().as_str(), "default");
    let rest = Some(BlobRef { blob: "blob_1".into(), bytes: 9 });
    assert_eq!(ToolOutput { rest, ..ToolOutput::text("x") }.total_bytes(), 9);
    assert_eq!(ToolOutput::text("xy").total_bytes(), 2);
    let image = turnwire_contract::Image { media_type: "image/png".into(), base64: "aGk=".into() };
    assert_eq!(image.data_url(), "data:image/png;base64,aGk=");
}
