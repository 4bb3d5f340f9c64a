//! Journal rows in the database, each with one event or several consecutive deltas.

use serde_json::Value;
use turnwire_contract::{Event, RecordedEvent, RunId, Seq, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Seq of its first event.
    pub first_seq: u64,
    /// Seq of its last event.
    pub last_seq: u64,
    pub kind: String,
    pub call_id: Option<String>,
    /// Its events, as a JSON array.
    pub body: String,
}

/// Decodes the events of a row, or returns the error.
pub fn events_of(run_id: &RunId, row: &Row) -> Result<Vec<RecordedEvent>, String> {
    let events: Vec<Value> = serde_json::from_str(&row.body)
        .map_err(|error| format!("row {} is no array of events: {error}", row.first_seq))?;
    let n_places = (row.last_seq + 1).saturating_sub(row.first_seq);
    if events.len() as u64 != n_places {
        let (first, last, n_events) = (row.first_seq, row.last_seq, events.len());
        return Err(format!("row {first} to {last} has {n_events} events"));
    }
    let mut before = Value::Null;
    let mut read = Vec::with_capacity(events.len());
    for (seq, entry) in (row.first_seq..).zip(events) {
        let unreadable = |why: String| format!("event {seq} cannot be read: {why}");
        let (at, event): (i64, Value) =
            serde_json::from_value(entry).map_err(|error| unreadable(error.to_string()))?;
        match (event, before.as_object_mut()) {
            // The same delta with another text.
            (Value::String(text), Some(before)) => {
                before.insert("text".to_owned(), Value::String(text));
            }
            (event, _) => before = event,
        }
        let event: Event = serde_json::from_value(before.clone())
            .map_err(|error| unreadable(error.to_string()))?;
        let (run_id, at) = (run_id.clone(), Timestamp::from_micros(at));
        read.push(RecordedEvent { run_id, seq: Seq(seq), at, event });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use turnwire_contract::{Event, ItemId, RunId, Seq};

    use super::{Row, events_of};

    fn row(first_seq: u64, last_seq: u64, body: &str) -> Row {
        let (kind, body) = ("event".to_owned(), body.to_owned());
        Row { first_seq, last_seq, kind, call_id: None, body }
    }

    #[test]
    fn deltas_share_a_row() {
        let body = r#"[[5,{"type":"text_added","item_id":"msg_1","text":"a"}],[6,"b"]]"#;
        let events = events_of(&RunId::new("run_1"), &row(4, 5, body)).unwrap();
        let added =
            |text: &str| Event::TextAdded { item_id: ItemId::new("msg_1"), text: text.to_owned() };
        let read: Vec<_> =
            events.iter().map(|r| (r.seq, r.at.as_micros(), r.event.clone())).collect();
        assert_eq!(read, [(Seq(4), 5, added("a")), (Seq(5), 6, added("b"))]);
    }

    #[test]
    fn a_row_that_lies_about_itself() {
        let run_id = RunId::new("run_1");
        let one = r#"[[0,{"type":"run_started"}]]"#;
        assert!(events_of(&run_id, &row(4, 5, one)).unwrap_err().contains("has 1 events"));
        assert!(events_of(&run_id, &row(4, 4, r#"["x"]"#)).is_err());
        assert!(events_of(&run_id, &row(4, 4, "{")).is_err());
    }
}
