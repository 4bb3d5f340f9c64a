//! Journal rows in the database, each with one event or several consecutive deltas.

use serde::Deserialize;
use serde_json::{Value, json};
use turnwire_contract::{Event, RecordedEvent, RunId, Seq, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Seq of its first event.
    pub first_seq: u64,
    /// Seq of its last event.
    pub last_seq: u64,
    pub kind: String,
    pub call_id: Option<String>,
    /// Its events, as a JSON array, or as an object if the journal was compacted.
    pub body: String,
}

/// The deltas of one item in a compacted journal.
#[derive(Deserialize)]
struct Merged {
    /// The time of the first one.
    at: i64,
    first: Value,
    /// The times between the others and the one before each.
    gaps: Vec<i64>,
    texts: Vec<String>,
}

/// Decodes the events of a row, or returns the error.
pub fn events_of(run_id: &RunId, row: &Row) -> Result<Vec<RecordedEvent>, String> {
    let not_an_array = |error| format!("row {} is no array of events: {error}", row.first_seq);
    let events: Vec<Value> = if row.body.starts_with('{') {
        let Merged { mut at, first, gaps, texts } =
            serde_json::from_str(&row.body).map_err(not_an_array)?;
        let mut events = vec![json!([at, first])];
        events.extend(gaps.into_iter().zip(texts).map(|(gap, text)| {
            at += gap;
            json!([at, text])
        }));
        events
    } else {
        serde_json::from_str(&row.body).map_err(not_an_array)?
    };
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
    fn a_compacted_row_is_read() {
        let body = r#"{"at":5,"first":{"type":"text_added","item_id":"msg_1","text":"a"},
                       "gaps":[1,-2],"texts":["b","c"]}"#;
        let events = events_of(&RunId::new("run_1"), &row(4, 6, body)).unwrap();
        let times: Vec<_> = events.iter().map(|recorded| recorded.at.as_micros()).collect();
        assert_eq!(times, [5, 6, 4]);
        let item_id = ItemId::new("msg_1");
        assert_eq!(events[2].event, Event::TextAdded { item_id, text: "c".to_owned() });
        assert!(events_of(&RunId::new("run_1"), &row(4, 7, body)).is_err());
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
