//! Checks a journal: no gaps, no duplicates, one end, as the last event.

use turnwire_contract::{Event, RecordedEvent, Seq};
use turnwire_testkit::invariants;

use super::{Kind, RunFacts, Violations, outcome_of};
use crate::journal::events_of;

/// Checks the journal and returns the one to use for the other checks.
pub(super) fn check(facts: &RunFacts, violations: &mut Violations) -> Vec<RecordedEvent> {
    let reported = facts.reported.as_ref().map(|reported| reported.journal.as_slice());
    let stored = facts.rows.as_ref().map(|_| stored(facts, violations));
    if let (Some(stored), Some(reported)) = (&stored, reported) {
        compare(stored, reported, violations);
    }
    let journal = stored.unwrap_or_else(|| reported.unwrap_or_default().to_vec());
    check_seqs(&journal, violations);
    check_end(&journal, violations);
    check_record(facts, &journal, violations);
    for complaint in invariants::violations(&journal) {
        violations.add(Kind::InvariantBroken, complaint);
    }
    journal
}

fn stored(facts: &RunFacts, violations: &mut Violations) -> Vec<RecordedEvent> {
    let mut journal = Vec::new();
    for row in facts.rows.iter().flatten() {
        match events_of(violations.run_id(), row) {
            Ok(events) => journal.extend(events),
            Err(why) => violations.add(Kind::JournalUnreadable, why),
        }
    }
    journal
}

fn compare(stored: &[RecordedEvent], reported: &[RecordedEvent], violations: &mut Violations) {
    if stored.len() != reported.len() {
        let (n_stored, n_reported) = (stored.len(), reported.len());
        violations.add(
            Kind::JournalsDisagree,
            format!("{n_stored} events stored, {n_reported} reported"),
        );
        return;
    }
    let differing = stored.iter().zip(reported).find(|(stored, reported)| stored != reported);
    if let Some((stored, reported)) = differing {
        violations
            .add(Kind::JournalsDisagree, format!("stored: {stored:?}, reported: {reported:?}"));
    }
}

fn check_seqs(journal: &[RecordedEvent], violations: &mut Violations) {
    let mut last = Seq::START;
    for recorded in journal {
        let seq = recorded.seq;
        if seq == last {
            violations.add(Kind::JournalDuplicate, format!("{seq} is there twice"));
        } else if seq < last {
            violations.add(Kind::JournalOrder, format!("{seq} follows {last}"));
        } else if seq != last.next() {
            violations.add(Kind::JournalGap, format!("{seq} follows {last}"));
        }
        last = last.max(seq);
    }
}

fn check_end(journal: &[RecordedEvent], violations: &mut Violations) {
    let ends: Vec<Seq> = journal
        .iter()
        .filter(|recorded| recorded.event.ends_the_run())
        .map(|recorded| recorded.seq)
        .collect();
    match ends.as_slice() {
        [] => violations.add(Kind::NoEnd, last_event(journal)),
        [_] => {}
        several => violations.add(Kind::SeveralEnds, format!("at {several:?}")),
    }
    let last = journal.last().map_or(Seq::START, |recorded| recorded.seq);
    if let Some(end) = ends.first().filter(|end| **end < last) {
        violations.add(Kind::AfterTheEnd, format!("the end is at {end}, the last event at {last}"));
    }
}

fn last_event(journal: &[RecordedEvent]) -> String {
    let Some(last) = journal.last() else { return "it has no events".to_owned() };
    let n_takeovers = super::n_takeovers(journal);
    let words = format!("{:?}", last.event);
    let words: String = words.chars().take(120).collect();
    format!("stands at {} since {}, {n_takeovers} takeovers: {words}", last.seq, last.at)
}

fn check_record(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    let Some(record) = &facts.record else { return };
    let outcome = outcome_of(journal);
    let expected = outcome.and_then(|outcome| serde_json::to_value(outcome).ok());
    let state = if expected.is_some() { "finished" } else { "active" };
    // A run that failed to start has no journal and is not active.
    if record.state != state && !journal.is_empty() {
        let detail = format!("the row says {}, the journal {state}", record.state);
        violations.add(Kind::StatusDiffers, detail);
    } else if expected.is_some() && record.outcome != expected {
        let detail = format!("the row says {:?}, the journal {expected:?}", record.outcome);
        violations.add(Kind::StatusDiffers, detail);
    }
}

/// Returns the times of the first work and of the end. A request has its time before the store
/// admits it, and may have waited there for the end of the run before it in its conversation.
pub(super) fn span(journal: &[RecordedEvent]) -> Option<(i64, Option<i64>)> {
    let is_work = |recorded: &&RecordedEvent| {
        !matches!(recorded.event, Event::RunQueued { .. } | Event::RunStarted)
    };
    let first = journal.iter().find(is_work).or(journal.first())?.at.as_micros();
    let end = journal.iter().find(|recorded| matches!(recorded.event, Event::RunFinished { .. }));
    Some((first, end.map(|recorded| recorded.at.as_micros())))
}
