//! Checks a journal: no gaps, no duplicates, one end, as the last event.

use turnwire_contract::{Event, RecordedEvent, Seq};
use turnwire_testkit::invariants;

use super::{Complaints, Kind, RunFacts, outcome_of};
use crate::journal::events_of;

/// Checks the journal and returns the one to use for the other checks.
pub(super) fn check(facts: &RunFacts, wrong: &mut Complaints) -> Vec<RecordedEvent> {
    let told = facts.told.as_ref().map(|told| told.journal.as_slice());
    let kept = facts.rows.as_ref().map(|_| kept(facts, wrong));
    if let (Some(kept), Some(told)) = (&kept, told) {
        compare(kept, told, wrong);
    }
    let journal = kept.unwrap_or_else(|| told.unwrap_or_default().to_vec());
    check_places(&journal, wrong);
    check_end(&journal, wrong);
    check_record(facts, &journal, wrong);
    for complaint in invariants::violations(&journal) {
        wrong.add(Kind::InvariantBroken, complaint);
    }
    journal
}

fn kept(facts: &RunFacts, wrong: &mut Complaints) -> Vec<RecordedEvent> {
    let mut journal = Vec::new();
    for row in facts.rows.iter().flatten() {
        match events_of(wrong.run_id(), row) {
            Ok(events) => journal.extend(events),
            Err(why) => wrong.add(Kind::JournalUnreadable, why),
        }
    }
    journal
}

fn compare(kept: &[RecordedEvent], told: &[RecordedEvent], wrong: &mut Complaints) {
    if kept.len() != told.len() {
        let (n_kept, n_told) = (kept.len(), told.len());
        wrong.add(Kind::JournalsDisagree, format!("{n_kept} events are kept, {n_told} are told"));
        return;
    }
    let differing = kept.iter().zip(told).find(|(kept, told)| kept != told);
    if let Some((kept, told)) = differing {
        wrong.add(Kind::JournalsDisagree, format!("kept is {kept:?}, told is {told:?}"));
    }
}

fn check_places(journal: &[RecordedEvent], wrong: &mut Complaints) {
    let mut last = Seq::START;
    for recorded in journal {
        let seq = recorded.seq;
        if seq == last {
            wrong.add(Kind::JournalDuplicate, format!("{seq} is there twice"));
        } else if seq < last {
            wrong.add(Kind::JournalOrder, format!("{seq} follows {last}"));
        } else if seq != last.next() {
            wrong.add(Kind::JournalGap, format!("{seq} follows {last}"));
        }
        last = last.max(seq);
    }
}

fn check_end(journal: &[RecordedEvent], wrong: &mut Complaints) {
    let ends: Vec<Seq> = journal
        .iter()
        .filter(|recorded| recorded.event.ends_the_run())
        .map(|recorded| recorded.seq)
        .collect();
    match ends.as_slice() {
        [] => wrong.add(Kind::NoEnd, stands_at(journal)),
        [_] => {}
        several => wrong.add(Kind::SeveralEnds, format!("at {several:?}")),
    }
    let last = journal.last().map_or(Seq::START, |recorded| recorded.seq);
    if let Some(end) = ends.first().filter(|end| **end < last) {
        wrong.add(Kind::AfterTheEnd, format!("the end is at {end}, the last event at {last}"));
    }
}

fn stands_at(journal: &[RecordedEvent]) -> String {
    let Some(last) = journal.last() else { return "it has no events".to_owned() };
    let n_takeovers = super::n_takeovers(journal);
    let words = format!("{:?}", last.event);
    let words: String = words.chars().take(120).collect();
    format!("stands at {} since {}, {n_takeovers} takeovers: {words}", last.seq, last.at)
}

fn check_record(facts: &RunFacts, journal: &[RecordedEvent], wrong: &mut Complaints) {
    let Some(record) = &facts.record else { return };
    let outcome = outcome_of(journal);
    let expected = outcome.and_then(|outcome| serde_json::to_value(outcome).ok());
    let state = if expected.is_some() { "finished" } else { "active" };
    // A run that failed to start has no journal and is not active.
    if record.state != state && !journal.is_empty() {
        let detail = format!("the row says {}, the journal {state}", record.state);
        wrong.add(Kind::StatusDiffers, detail);
    } else if expected.is_some() && record.outcome != expected {
        let detail = format!("the row says {:?}, the journal {expected:?}", record.outcome);
        wrong.add(Kind::StatusDiffers, detail);
    }
}

/// Returns the times of the request and of the end.
pub(super) fn span(journal: &[RecordedEvent]) -> Option<(i64, Option<i64>)> {
    let first = journal.first()?.at.as_micros();
    let end = journal.iter().find(|recorded| matches!(recorded.event, Event::RunFinished { .. }));
    Some((first, end.map(|recorded| recorded.at.as_micros())))
}
