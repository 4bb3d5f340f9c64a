//! Entry points for fuzzing: rows of the journal.

use turnwire_contract::{RunId, Timestamp};

use crate::rows::StoredRow;

/// The body of a journal row.
pub fn journal_row(bytes: &[u8]) {
    let body = String::from_utf8_lossy(bytes);
    let row = StoredRow { first: 1, last: 3, kind: "text_added", call: None, body: &body };
    drop(row.events(&RunId::from("run_1"), Timestamp::from_micros(0)));
    drop(row.shared_ids());
}
