//! Codes of the stream checker and their meaning.
//!
//! One table generates the enum, its names and its meanings. `docs/check.md` lists the same, and a
//! test compares them. Codes are stable, because scripts depend on them.

use std::fmt;

use serde::{Serialize, Serializer};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Breaks an official client or gives it false information.
    Fault,
    /// Informational.
    Note,
}

macro_rules! codes {
    ($($level:ident $variant:ident = $name:literal: $meaning:literal,)*) => {
        /// Code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// All codes, in the order of `docs/check.md`.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the meaning.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// Returns the severity.
            pub fn level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }
        }
    };
}

codes! {
    // Parsing.
    Fault StreamEmpty = "stream_empty": "The stream contains no event.",
    Fault NotJson = "not_json": "The data of an event is not valid JSON.",
    Fault NotAnEvent = "not_an_event": "The data of an event is JSON, but not an object with a `type`.",
    Fault NameDiffers = "name_differs": "The `event:` line and `type` name different events.",
    Fault FieldMissing = "field_missing": "A required field is missing or has the wrong type.",
    Fault ErrorKey = "error_key": "An event other than `error` has a top-level `error` key. Official clients raise an exception on it.",

    // Sequence numbers.
    Fault SequenceMissing = "sequence_missing": "An event has no `sequence_number`.",
    Fault SequenceStart = "sequence_start": "The first `sequence_number` is not 0.",
    Fault SequenceGap = "sequence_gap": "Sequence numbers are missing between two events.",
    Fault SequenceRepeated = "sequence_repeated": "Two consecutive events have the same sequence number.",
    Fault SequenceBackwards = "sequence_backwards": "An event has a lower sequence number than an earlier one.",

    // The response.
    Fault CreatedMissing = "created_missing": "The first event is not `response.created`.",
    Fault CreatedTwice = "created_twice": "The stream contains a second `response.created`.",
    Fault ResponseIdChanged = "response_id_changed": "The ID of the response changes.",
    Fault StatusWrong = "status_wrong": "The status of the response does not match the event.",
    Fault StateBackwards = "state_backwards": "The response is queued after it was in progress.",
    Fault SnapshotIncomplete = "snapshot_incomplete": "A second `response.in_progress` does not list the items so far.",

    // Items.
    Fault ItemIndexGap = "item_index_gap": "An item is added at an index that leaves a gap.",
    Fault ItemIndexReused = "item_index_reused": "An item is added at an index that is already in use.",
    Fault ItemIdMissing = "item_id_missing": "An item has no ID.",
    Fault ItemIdReused = "item_id_reused": "Two items have the same ID.",
    Fault ItemUnknown = "item_unknown": "An event refers to an item that was never added.",
    Fault ItemIdDiffers = "item_id_differs": "An event has the index of one item and the ID of another item, or of none.",
    Fault ItemIndexDiffers = "item_index_differs": "An event has the ID of an item and the wrong index.",
    Fault ItemKindDiffers = "item_kind_differs": "An event does not match the type of its item.",
    Fault ItemClosed = "item_closed": "An event refers to an item that is already done.",
    Fault ItemDoneTwice = "item_done_twice": "An item is done twice.",
    Fault ItemChanged = "item_changed": "A field that must not change has another value when the item is done.",
    Fault ItemUnfinished = "item_unfinished": "An item is done, but its status is not final.",
    Fault ItemNotDone = "item_not_done": "The response ends before one of its items is done.",

    // Parts of items.
    Fault PartUnknown = "part_unknown": "An event refers to a part that was never added.",
    Fault PartIndexGap = "part_index_gap": "A part is added at an index that leaves a gap.",
    Fault PartIndexReused = "part_index_reused": "A part is added at an index that is already in use.",
    Fault PartKindDiffers = "part_kind_differs": "An event does not match the type of its part.",
    Fault PartClosed = "part_closed": "An event refers to a part that is already done.",
    Fault PartNotDone = "part_not_done": "An item is done before one of its parts is done.",
    Fault AnnotationIndexGap = "annotation_index_gap": "The annotations of a part are not numbered 0, 1, 2, …",

    // Deltas and final values.
    Fault DeltaAfterWhole = "delta_after_whole": "A delta follows the final value.",
    Fault WholeTwice = "whole_twice": "The final value is sent twice.",
    Fault WholeMissing = "whole_missing": "Deltas are not followed by a final value.",
    Fault DeltasDiffer = "deltas_differ": "The final value is not the concatenation of the deltas.",
    Fault ContentDiffers = "content_differs": "The text of a part or item that is done differs from the streamed text.",
    Fault ArgumentsDiffer = "arguments_differ": "The arguments of a call that is done differ from the streamed arguments.",

    // Calls.
    Fault CallNotStarted = "call_not_started": "A call continues or ends without an `in_progress` event.",
    Fault CallEndedTwice = "call_ended_twice": "A call ends twice.",
    Fault CallAfterEnd = "call_after_end": "A call continues after its end.",
    Fault CallNotEnded = "call_not_ended": "The item of a call is done, but no event ended the call.",
    Fault CallOutcomeDiffers = "call_outcome_differs": "The final event of a call and its item disagree on whether the call succeeded.",
    Fault CallIdReused = "call_id_reused": "Two calls have the same `call_id`.",
    Fault OutputBeforeCall = "output_before_call": "The output of a call precedes the call.",

    // End of the stream.
    Fault EndMissing = "end_missing": "The stream ends before the response does.",
    Fault EndTwice = "end_twice": "The response ends twice.",
    Fault AfterEnd = "after_end": "An event follows the end of the response.",
    Fault ErrorWithoutFailed = "error_without_failed": "An `error` is not followed by `response.failed`.",
    Fault OutputItemLost = "output_item_lost": "An item that was done is missing from the final response.",
    Fault OutputItemUnknown = "output_item_unknown": "The final response contains an item that was never added.",
    Fault OutputItemDiffers = "output_item_differs": "An item of the final response differs from its state when it was done.",
    Fault OutputOrder = "output_order": "The items of the final response are in a different order.",
    Fault DoneMarkerEarly = "done_marker_early": "`[DONE]` precedes the end of the response.",
    Fault AfterDoneMarker = "after_done_marker": "Data follows `[DONE]`.",

    // Notes.
    Note EventUnknown = "event_unknown": "The name of an event is not official. Some official clients raise an exception on it.",
    Note ItemLeftOpen = "item_left_open": "The response failed while an item was not done.",
    Note DoneMarkerMissing = "done_marker_missing": "The stream has no `[DONE]`. Open Responses requires it; OpenAI does not send it.",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
