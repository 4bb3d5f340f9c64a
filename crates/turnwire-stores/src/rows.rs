//! Events as rows of the journal, and back.
//!
//! Neighbouring deltas of one item share a row, so that an answer of a thousand words is not a
//! thousand rows; every other event has one of its own, so that the database can see to it that
//! a call has one end and a run has one. The body of a row is a list of `[at, event]`; in a row
//! of deltas all but the first are `[at, "text"]`: the same again, with this text.
//!
//! Nothing is written that could not be read again. Should a row be unreadable all the same, what
//! its other columns say stands in its place, so that it harms its own run alone.

use std::{borrow::Cow, mem, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turnwire_contract::{
    CallId, Event, Failure, RecordedEvent, RunId, RunOutcome, Seq, TenantId, Timestamp,
    ToolOutcome, Usage,
};

use crate::{
    database::{DatabaseError, Transaction, Value},
    writer::new_tag,
};

/// The most that goes into one row of deltas, so that a page of rows stays a page.
const ROW_BYTES: usize = 32 * 1024;

/// A longer name of a call does not fit into an index.
const LONGEST_CALL: usize = 256;

/// How deeply an event may be nested. Readers of JSON give up at 128, and those of a surface find
/// an event inside of its frame.
const MAX_NESTING: usize = 100;

/// A row of the journal, without what all rows of an append have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) kind: &'static str,
    pub(crate) call: Option<String>,
    pub(crate) body: String,
}

impl EventRow {
    /// What goes into a row of `run_events`: tenant, run, first and last place, tag, kind, call,
    /// body.
    pub(crate) fn values<'a>(
        &'a self,
        tenant: &'a TenantId,
        run_id: &'a RunId,
        tag: i64,
    ) -> [Value<'a>; 8] {
        [
            Value::Text(tenant.as_str()),
            Value::Text(run_id.as_str()),
            Value::Integer(self.first),
            Value::Integer(self.last),
            Value::Integer(tag),
            Value::Text(self.kind),
            Value::OptionalText(self.call.as_deref()),
            Value::Text(&self.body),
        ]
    }
}

/// The rows that keep `batch`.
pub(crate) fn to_rows(batch: &[Arc<RecordedEvent>]) -> Result<Vec<EventRow>, DatabaseError> {
    let mut rows: Vec<EventRow> = Vec::with_capacity(batch.len().min(16));
    let mut before: Option<&Event> = None;
    for recorded in batch {
        match (rows.last_mut(), before, delta_text(&recorded.event)) {
            (Some(row), Some(before), Some(text))
                if row.body.len() < ROW_BYTES && are_of_one_item(before, &recorded.event) =>
            {
                row.last = seq_column(recorded.seq)?;
                row.body.pop();
                row.body.push(',');
                write_entry(&mut row.body, recorded.at, &text)?;
                row.body.push(']');
            }
            _ => rows.push(own_row(recorded)?),
        }
        before = Some(&recorded.event);
    }
    Ok(rows)
}

fn own_row(recorded: &RecordedEvent) -> Result<EventRow, DatabaseError> {
    let seq_column = seq_column(recorded.seq)?;
    let (kind, call) = match &recorded.event {
        Event::ToolStarted { call_id, .. } => ("start", Some(index_name(call_id))),
        Event::ToolFinished { call_id, .. } => ("end", Some(index_name(call_id))),
        Event::RunFinished { .. } => ("over", None),
        event if delta_text(event).is_some() => ("delta", None),
        _ => ("event", None),
    };
    let mut body = String::with_capacity(160);
    body.push('[');
    write_entry(&mut body, recorded.at, &*with_real_numbers(&recorded.event))?;
    body.push(']');
    // The row itself adds two levels.
    let nesting = nesting(&body).saturating_sub(2);
    if nesting > MAX_NESTING {
        let message = format!("an event is nested {nesting} deep, more than {MAX_NESTING}");
        return Err(DatabaseError::Refused(message));
    }
    Ok(EventRow { first: seq_column, last: seq_column, kind, call, body })
}

/// How many arrays and objects of a JSON text are inside of each other at most.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

fn write_entry(
    body: &mut String,
    at: Timestamp,
    what: &impl serde::Serialize,
) -> Result<(), DatabaseError> {
    let entry = serde_json::to_string(&(at.as_micros(), what));
    body.push_str(&entry.map_err(|error| DatabaseError::Broken(error.to_string()))?);
    Ok(())
}

/// JSON has no word for what is not a number, and a row that cannot be read again would cost the
/// whole run.
fn with_real_numbers(event: &Event) -> Cow<'_, Event> {
    match event {
        Event::ToolProgressed { call_id, progress, total, message }
            if !(progress.is_finite() && total.is_none_or(f64::is_finite)) =>
        {
            let (call_id, message) = (call_id.clone(), message.clone());
            let progress = if progress.is_finite() { *progress } else { 0.0 };
            let total = total.filter(|total| total.is_finite());
            Cow::Owned(Event::ToolProgressed { call_id, progress, total, message })
        }
        event => Cow::Borrowed(event),
    }
}

/// A place as databases know it.
pub(crate) fn seq_column(seq: Seq) -> Result<i64, DatabaseError> {
    i64::try_from(seq.0).map_err(|error| DatabaseError::Broken(error.to_string()))
}

/// What a call goes by in the index. Models and clients make up the names of calls, and an index
/// takes neither very long ones nor a zero byte.
fn index_name(call_id: &CallId) -> String {
    let name = call_id.as_str();
    if name.len() <= LONGEST_CALL && !name.contains('\0') {
        return name.to_owned();
    }
    format!("sha256 {:x}", Sha256::digest(name))
}

/// A row of the journal as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) kind: &'a str,
    pub(crate) call: Option<&'a str>,
    pub(crate) body: &'a str,
}

impl StoredRow<'_> {
    /// The events of the row. If it cannot be read, others stand in their place.
    pub(crate) fn events(&self, run_id: &RunId) -> Vec<Arc<RecordedEvent>> {
        self.decoded(run_id).unwrap_or_else(|error| {
            tracing::error!(%run_id, seq = self.first, %error, "unreadable journal row");
            let (at, seqs) = (self.time(), self.first..=self.last);
            let recorded = |seq| {
                let (seq, event) = (Seq(seq), self.substitute());
                Arc::new(RecordedEvent { run_id: run_id.clone(), seq, at, event })
            };
            seqs.filter_map(|seq| u64::try_from(seq).ok()).map(recorded).collect()
        })
    }

    /// When the first event of a row was recorded that cannot be read otherwise.
    fn time(&self) -> Timestamp {
        let digits = self.body.trim_start_matches('[').split(',').next().unwrap_or_default();
        Timestamp::from_micros(digits.parse().unwrap_or_default())
    }

    /// The events of the row.
    pub(crate) fn decoded(&self, run_id: &RunId) -> Result<Vec<Arc<RecordedEvent>>, String> {
        let unreadable = |error: serde_json::Error| error.to_string();
        let entries: Vec<Entry> = serde_json::from_str(self.body).map_err(unreadable)?;
        let mut events: Vec<Arc<RecordedEvent>> = Vec::with_capacity(entries.len());
        let seqs = u64::try_from(self.first).unwrap_or_default()..;
        for (seq, Entry(at, what)) in seqs.zip(entries) {
            let event = match events.first() {
                Some(first) if what.get().starts_with('"') => {
                    let text: Cow<'_, str> =
                        serde_json::from_str(what.get()).map_err(unreadable)?;
                    with_text(&first.event, text.into_owned())
                }
                _ => serde_json::from_str(what.get()).map_err(unreadable)?,
            };
            let at = Timestamp::from_micros(at);
            events.push(Arc::new(RecordedEvent {
                run_id: run_id.clone(),
                seq: Seq(seq),
                at,
                event,
            }));
        }
        if events.len() as u64 == u64::try_from(self.last - self.first + 1).unwrap_or_default() {
            return Ok(events);
        }
        Err(format!("{} events from {} to {}", events.len(), self.first, self.last))
    }

    /// What is known of an event whose row cannot be read: that a call began or ended, that the
    /// run is over, or only that there was something.
    fn substitute(&self) -> Event {
        let message = "what was recorded here cannot be read".to_owned();
        match (self.kind, self.call) {
            ("start", Some(call)) => {
                let (call_id, label) = (CallId::from(call), String::new());
                Event::ToolStarted { call_id, attempt: 1, label }
            }
            ("end", Some(call)) => {
                let (call_id, outcome) =
                    (CallId::from(call), ToolOutcome::OutcomeUnknown { message });
                Event::ToolFinished { call_id, outcome, duration_ms: 0 }
            }
            ("over", _) => {
                let outcome = RunOutcome::Failed { failure: Failure::journal_unreadable() };
                Event::RunFinished { outcome, usage: Usage::default() }
            }
            _ => Event::unreadable(),
        }
    }
}

#[derive(Deserialize)]
struct Entry<'a>(i64, #[serde(borrow)] &'a RawValue);

/// The new part, if the event is one that only adds to an item.
fn delta_text(event: &Event) -> Option<&String> {
    match event {
        Event::TextAdded { text, .. }
        | Event::RefusalAdded { text, .. }
        | Event::ReasoningAdded { text, .. }
        | Event::ArgumentsAdded { text, .. }
        | Event::ToolOutputAdded { text, .. } => Some(text),
        _ => None,
    }
}

/// What a delta adds to.
fn item_of(event: &Event) -> Option<&str> {
    match event {
        Event::TextAdded { item_id, .. }
        | Event::RefusalAdded { item_id, .. }
        | Event::ReasoningAdded { item_id, .. } => Some(item_id.as_str()),
        Event::ArgumentsAdded { call_id, .. } | Event::ToolOutputAdded { call_id, .. } => {
            Some(call_id.as_str())
        }
        _ => None,
    }
}

fn are_of_one_item(one: &Event, other: &Event) -> bool {
    mem::discriminant(one) == mem::discriminant(other)
        && item_of(one).is_some()
        && item_of(one) == item_of(other)
}

/// The same delta with another text.
fn with_text(delta: &Event, text: String) -> Event {
    match delta {
        Event::TextAdded { item_id, .. } => Event::TextAdded { item_id: item_id.clone(), text },
        Event::RefusalAdded { item_id, .. } => {
            Event::RefusalAdded { item_id: item_id.clone(), text }
        }
        Event::ReasoningAdded { item_id, .. } => {
            Event::ReasoningAdded { item_id: item_id.clone(), text }
        }
        Event::ArgumentsAdded { call_id, .. } => {
            Event::ArgumentsAdded { call_id: call_id.clone(), text }
        }
        Event::ToolOutputAdded { call_id, .. } => {
            Event::ToolOutputAdded { call_id: call_id.clone(), text }
        }
        other => other.clone(),
    }
}

/// Writes the end of a run behind whatever there is of its journal, without reading it; nothing
/// if it has an end.
pub(crate) async fn append_forced_end(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    run_id: &RunId,
    outcome: &RunOutcome,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let (outcome, usage) = (outcome.clone(), Usage::default());
    let event = Event::RunFinished { outcome, usage };
    let end = own_row(&RecordedEvent { run_id: run_id.clone(), seq: Seq(0), at, event })?;
    let sql = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
               select $1, $2, head.next, head.next, $3, 'over', $4
               from (select coalesce(max(last_seq), 0) + 1 as next
                     from run_events where run_id = $2) as head
               where not exists (select 1 from run_events where run_id = $2 and kind = 'over')";
    let values = [
        Value::Text(tenant.as_str()),
        Value::Text(run_id.as_str()),
        Value::Integer(new_tag()),
        Value::Text(&end.body),
    ];
    transaction.query(sql, &values).await.map(drop)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
