//! Encoding of events as journal rows.
//!
//! Consecutive deltas of one item share a row, so that an answer of a thousand words is not a
//! thousand rows. Every other event has its own row, so that unique indexes can enforce one end per
//! call and per run. The body of a row is a list of `[at, event]`; in a row of deltas all but the
//! first are `[at, "text"]`: the same delta with this text.
//!
//! [`compaction`](crate::compaction) stores the deltas of a finished run in a more compact form,
//! [`MergedDeltas`].
//!
//! The first event of a run has its request. If it shares the long parts of it with others, what
//! follows says where they are: `[at, event, ids]` ([`input_lists`](crate::input_lists)). So does
//! what follows a long list of tools ([`catalogues`](crate::catalogues)).
//!
//! If what is stored is encrypted, the whole body is (`sealing`).
//!
//! Only events that can be decoded again are written. If a row is unreadable anyway, events derived
//! from its other columns replace it, so that only its own run is affected.

use std::{
    borrow::Cow,
    mem,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicI64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turnwire_contract::{
    CallId, Event, Failure, RecordedEvent, RunId, RunOutcome, Seq, TenantId, Timestamp,
    ToolOutcome, Usage,
};

use crate::{
    catalogues::{HeldCatalogue, without_list},
    database::{DatabaseError, Result, Transaction, Value, values},
    failures::encode,
    input_lists::{SharedIds, SharedRequest},
    nesting::{MAX_NESTING, nesting},
    sealing::{DataKey, Place},
};

/// Maximum bytes of a row of deltas, to bound the size of a page.
pub(crate) const ROW_BYTES: usize = 32 * 1024;

/// Maximum deltas in a row that compaction writes, so that it is not too large for a reader once it
/// is decoded.
const MERGED_DELTAS: usize = 512;

/// Maximum length of a call id in an index.
const LONGEST_CALL: usize = 256;

/// A journal row, without the columns shared by all rows of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) kind: &'static str,
    pub(crate) call: Option<String>,
    pub(crate) body: String,
}

impl EventRow {
    /// Returns the values of a `run_events` row: tenant, run, first and last seq, tag, kind, call,
    /// body.
    pub(crate) fn values<'a>(
        &'a self,
        tenant: &'a TenantId,
        run_id: &'a RunId,
        tag: i64,
    ) -> [Value<'a>; 8] {
        values![
            tenant,
            run_id.as_str(),
            self.first,
            self.last,
            tag,
            self.kind,
            self.call.as_deref(),
            &self.body
        ]
    }
}

/// Encodes `batch` as rows.
pub(crate) fn to_rows(batch: &[Arc<RecordedEvent>]) -> Result<Vec<EventRow>> {
    to_rows_beside(batch, &[])
}

/// Encodes `batch` as rows, without lists of tools that are stored elsewhere.
pub(crate) fn to_rows_beside(
    batch: &[Arc<RecordedEvent>],
    catalogues: &[HeldCatalogue],
) -> Result<Vec<EventRow>> {
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
            _ => rows.push(match catalogues.iter().find(|held| held.seq == recorded.seq) {
                Some(held) => row_beside(recorded, held)?,
                None => own_row(recorded)?,
            }),
        }
        before = Some(&recorded.event);
    }
    Ok(rows)
}

/// Encodes the first event of a run without the parts of its request that are stored elsewhere.
pub(crate) fn first_row(recorded: &RecordedEvent, shared: &SharedRequest) -> Result<EventRow> {
    let event = Event::RunQueued { request: Arc::new(shared.rest.clone()) };
    let body = encode(&[(recorded.at.as_micros(), event, shared.ids())])?;
    let seq = seq_column(recorded.seq)?;
    Ok(EventRow { first: seq, last: seq, kind: "event", call: None, body })
}

/// Encodes an event without its list of tools.
fn row_beside(recorded: &RecordedEvent, held: &HeldCatalogue) -> Result<EventRow> {
    let event = without_list(&recorded.event);
    let body = encode(&[(recorded.at.as_micros(), event, held.reference())])?;
    let seq = seq_column(recorded.seq)?;
    Ok(EventRow { first: seq, last: seq, kind: "event", call: None, body })
}

/// Deltas of one item in a row that compaction has written.
#[derive(Serialize, Deserialize)]
struct MergedDeltas<'a> {
    /// The time of the first one.
    at: i64,
    first: Event,
    /// Between each of the others and the one before, in microseconds.
    gaps: Vec<i64>,
    #[serde(borrow)]
    texts: Vec<Cow<'a, str>>,
}

/// Encodes neighbouring deltas as few rows as possible.
pub(crate) fn to_merged_rows(deltas: &[Arc<RecordedEvent>]) -> Result<Vec<EventRow>> {
    let (mut n_bytes, mut n_deltas) = (0, 0);
    let rows = deltas.chunk_by(|one, next| {
        n_bytes += delta_text(&one.event).map_or(0, String::len);
        n_deltas += 1;
        let has_room = n_bytes < ROW_BYTES && n_deltas < MERGED_DELTAS;
        let goes_on = has_room && are_of_one_item(&one.event, &next.event);
        if !goes_on {
            (n_bytes, n_deltas) = (0, 0);
        }
        goes_on
    });
    rows.filter_map(|row| Some((row.first()?, row.last()?, row)))
        .map(|(first, last, row)| {
            let others = row.iter().zip(row.iter().skip(1));
            let (at, seq) = (first.at.as_micros(), seq_column(first.seq)?);
            let body = MergedDeltas {
                at,
                first: first.event.clone(),
                gaps: others.map(|(one, next)| next.at.as_micros() - one.at.as_micros()).collect(),
                texts: row
                    .iter()
                    .skip(1)
                    .filter_map(|recorded| delta_text(&recorded.event))
                    .map(|text| Cow::Borrowed(text.as_str()))
                    .collect(),
            };
            let (last, kind, body) = (seq_column(last.seq)?, "delta", encode(&body)?);
            Ok(EventRow { first: seq, last, kind, call: None, body })
        })
        .collect()
}

/// Encrypts the bodies of rows.
pub(crate) fn sealed_rows(
    mut rows: Vec<EventRow>,
    run_id: &RunId,
    key: Option<&DataKey>,
) -> Result<Vec<EventRow>> {
    if let Some(key) = key {
        for row in &mut rows {
            key.seal(Place::events(run_id, row.first), &mut row.body)?;
        }
    }
    Ok(rows)
}

fn own_row(recorded: &RecordedEvent) -> Result<EventRow> {
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
        return Err(DatabaseError::InvalidValue(message));
    }
    Ok(EventRow { first: seq_column, last: seq_column, kind, call, body })
}

fn write_entry(body: &mut String, at: Timestamp, what: &impl serde::Serialize) -> Result<()> {
    let entry = serde_json::to_string(&(at.as_micros(), what));
    body.push_str(&entry.map_err(|error| DatabaseError::Failed(error.to_string()))?);
    Ok(())
}

/// Replaces NaN and infinities. JSON cannot represent them, and an unreadable row would break the
/// run.
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

/// Converts a seq for the database.
pub(crate) fn seq_column(seq: Seq) -> Result<i64> {
    i64::try_from(seq.0).map_err(|error| DatabaseError::Failed(error.to_string()))
}

/// Returns the index key of a call. Models and clients choose call ids, and an index accepts
/// neither very long ones nor NUL.
fn index_name(call_id: &CallId) -> String {
    let name = call_id.as_str();
    if name.len() <= LONGEST_CALL && !name.contains('\0') {
        return name.to_owned();
    }
    format!("sha256 {:x}", Sha256::digest(name))
}

/// A journal row read from the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) kind: &'a str,
    pub(crate) call: Option<&'a str>,
    pub(crate) body: &'a str,
}

impl StoredRow<'_> {
    /// Decodes the events of the row. Substitutes them if the row is unreadable; `before` is the
    /// time of what comes before them, in case the row does not tell its own.
    pub(crate) fn events(&self, run_id: &RunId, before: Timestamp) -> Vec<Arc<RecordedEvent>> {
        self.decoded(run_id).unwrap_or_else(|error| {
            tracing::error!(%run_id, seq = self.first, %error, "unreadable journal row");
            let (at, seqs) = (self.time().unwrap_or(before), self.first..=self.last);
            let recorded = |seq| {
                let (seq, event) = (Seq(seq), self.substitute());
                Arc::new(RecordedEvent { run_id: run_id.clone(), seq, at, event })
            };
            seqs.filter_map(|seq| u64::try_from(seq).ok()).map(recorded).collect()
        })
    }

    /// Returns the timestamp of the first event, also of an unreadable row, if it can be read.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let body = self.body.strip_prefix("{\"at\":").or_else(|| self.body.strip_prefix("[["));
        let (digits, _) = body?.split_once(',')?;
        digits.parse().ok().map(Timestamp::from_micros)
    }

    /// Returns where the long parts of the request are, if this is the first row of a run and they
    /// are not in it.
    pub(crate) fn shared_ids(&self) -> Option<SharedIds> {
        if self.first != 1 {
            return None;
        }
        let Elsewhere { preamble, input_list, .. } = self.elsewhere()?;
        Some(SharedIds { preamble, input_list })
    }

    /// Returns the ID of the list of tools of the event, if it is not in the row.
    pub(crate) fn catalogue(&self, events: &[Arc<RecordedEvent>]) -> Option<String> {
        let [recorded] = events else { return None };
        if !matches!(recorded.event, Event::ToolsDiscovered { .. }) {
            return None;
        }
        self.elsewhere()?.catalogue
    }

    fn elsewhere(&self) -> Option<Elsewhere> {
        let entries: Vec<Entry> = serde_json::from_str(self.body).ok()?;
        entries.into_iter().next()?.2
    }

    pub(crate) fn decoded(&self, run_id: &RunId) -> Result<Vec<Arc<RecordedEvent>>, String> {
        let unreadable = |error: serde_json::Error| error.to_string();
        if self.body.starts_with('{') {
            let merged = serde_json::from_str(self.body).map_err(unreadable)?;
            return self.checked(self.merged_events(run_id, merged));
        }
        let entries: Vec<Entry> = serde_json::from_str(self.body).map_err(unreadable)?;
        let mut events: Vec<Arc<RecordedEvent>> = Vec::with_capacity(entries.len());
        let seqs = u64::try_from(self.first).unwrap_or_default()..;
        for (seq, Entry(at, what, _)) in seqs.zip(entries) {
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
        self.checked(events)
    }

    fn merged_events(&self, run_id: &RunId, merged: MergedDeltas<'_>) -> Vec<Arc<RecordedEvent>> {
        let MergedDeltas { at: first_at, first, gaps, texts } = merged;
        let mut at = first_at;
        let recorded = |seq, at, event| {
            let at = Timestamp::from_micros(at);
            Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at, event })
        };
        let seq = u64::try_from(self.first).unwrap_or_default();
        let others: Vec<_> = (seq + 1..)
            .zip(gaps.into_iter().zip(texts))
            .map(|(seq, (gap, text))| {
                at = at.saturating_add(gap);
                recorded(seq, at, with_text(&first, text.into_owned()))
            })
            .collect();
        let mut events = vec![recorded(seq, first_at, first)];
        events.extend(others);
        events
    }

    /// Returns `events` if there are as many as the row says.
    fn checked(&self, events: Vec<Arc<RecordedEvent>>) -> Result<Vec<Arc<RecordedEvent>>, String> {
        if events.len() as u64 == u64::try_from(self.last - self.first + 1).unwrap_or_default() {
            return Ok(events);
        }
        Err(format!("{} events from {} to {}", events.len(), self.first, self.last))
    }

    /// Returns a substitute for an event of an unreadable row: start or end of a call, end of the
    /// run, or an unknown event.
    fn substitute(&self) -> Event {
        let message = "this event cannot be read".to_owned();
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

/// Time and event, and what follows the first event.
#[derive(Deserialize)]
struct Entry<'a>(i64, #[serde(borrow)] &'a RawValue, #[serde(default)] Option<Elsewhere>);

/// A [`SharedIds`] or a [`CatalogueRef`](crate::catalogues::CatalogueRef).
#[derive(Deserialize)]
struct Elsewhere {
    preamble: String,
    input_list: Option<String>,
    catalogue: Option<String>,
}

/// Returns the text of a delta event.
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

/// Returns the item of a delta event.
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

/// Returns the delta with another text.
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

/// Returns a tag that is unique among appends at the same seq: a counter with a random start.
pub(crate) fn new_tag() -> i64 {
    static NEXT: LazyLock<AtomicI64> = LazyLock::new(|| {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        AtomicI64::new((high ^ low.rotate_left(32)).cast_signed())
    });
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Appends the end of a run after its last row, without reading the journal. Does nothing if the
/// run has ended.
pub(crate) async fn append_forced_end(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    run_id: &RunId,
    outcome: &RunOutcome,
    at: Timestamp,
) -> Result<()> {
    let (outcome, usage) = (outcome.clone(), Usage::default());
    let event = Event::RunFinished { outcome, usage };
    let end = own_row(&RecordedEvent { run_id: run_id.clone(), seq: Seq(0), at, event })?;
    let sql = "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
               select $1, $2, head.next, head.next, $3, 'over', $4
               from (select coalesce(max(last_seq), 0) + 1 as next
                     from run_events where run_id = $2) as head
               where not exists (select 1 from run_events where run_id = $2 and kind = 'over')";
    let values = values![tenant, run_id.as_str(), new_tag(), &end.body];
    transaction.query(sql, &values).await.map(drop)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
