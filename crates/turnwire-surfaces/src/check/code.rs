//! The codes of the stream checker, with their meaning.
//!
//! One table makes the enum, its names and its sentences, and `docs/check.md` lists the same, which
//! a test compares. A code never changes: scripts look for it.

use std::fmt;

use serde::{Serialize, Serializer};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Some clients fail on it, or get wrong information.
    Fault,
    /// For information; nothing to repair.
    Note,
}

macro_rules! codes {
    ($($level:ident $variant:ident = $name:literal: $meaning:literal,)*) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// All codes, in the order of `docs/check.md`.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// The severity.
            pub fn level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }
        }
    };
}

codes! {
    // Readability.
    Fault StreamEmpty = "stream_empty": "There is not one event in the stream.",
    Fault NotJson = "not_json": "The data of an event is not JSON.",
    Fault NotAnEvent = "not_an_event": "The data of an event is JSON, but not an object with a `type`.",
    Fault NameDiffers = "name_differs": "The `event:` line names another event than `type` does.",
    Fault FieldMissing = "field_missing": "A field that every client reads is missing, or is of the wrong kind.",
    Fault ErrorKey = "error_key": "An event other than `error` has a top-level `error`, at which official clients raise.",

    // Sequence numbers.
    Fault SequenceMissing = "sequence_missing": "An event has no `sequence_number`.",
    Fault SequenceStart = "sequence_start": "The first `sequence_number` is not 0.",
    Fault SequenceGap = "sequence_gap": "Numbers are left out between two events.",
    Fault SequenceRepeated = "sequence_repeated": "Two events in a row have the same number.",
    Fault SequenceBackwards = "sequence_backwards": "An event has a smaller number than one before it.",

    // The response.
    Fault CreatedMissing = "created_missing": "The first event is not `response.created`.",
    Fault CreatedTwice = "created_twice": "There is a second `response.created`: two lives in one stream.",
    Fault ResponseIdChanged = "response_id_changed": "The response has another id than before.",
    Fault StatusWrong = "status_wrong": "The status of the response is not what the event says.",
    Fault StateBackwards = "state_backwards": "The response is queued after it was in progress.",
    Fault SnapshotIncomplete = "snapshot_incomplete": "A second `response.in_progress` does not list the items so far.",

    // Items.
    Fault ItemIndexGap = "item_index_gap": "An item is added behind a place that is empty.",
    Fault ItemIndexReused = "item_index_reused": "An item is added at a place that is taken.",
    Fault ItemIdMissing = "item_id_missing": "An item has no id.",
    Fault ItemIdReused = "item_id_reused": "Two items have the same id.",
    Fault ItemUnknown = "item_unknown": "An event is about an item that was never added.",
    Fault ItemIdDiffers = "item_id_differs": "An event has the place of one item and the id of another, or of none.",
    Fault ItemIndexDiffers = "item_index_differs": "An event has the id of an item and a place where it is not.",
    Fault ItemKindDiffers = "item_kind_differs": "An event is about an item of another kind.",
    Fault ItemClosed = "item_closed": "An event is about an item that is done.",
    Fault ItemDoneTwice = "item_done_twice": "An item is done a second time.",
    Fault ItemChanged = "item_changed": "A fact that never changes is another when the item is done.",
    Fault ItemUnfinished = "item_unfinished": "An item is done, and its status says that it is not.",
    Fault ItemNotDone = "item_not_done": "The response ends before one of its items is done.",

    // Parts of items.
    Fault PartUnknown = "part_unknown": "An event is about a part that was never added.",
    Fault PartIndexGap = "part_index_gap": "A part is added behind a place that is empty.",
    Fault PartIndexReused = "part_index_reused": "A part is added at a place that is taken.",
    Fault PartKindDiffers = "part_kind_differs": "An event is about a part of another kind.",
    Fault PartClosed = "part_closed": "An event is about a part that is done.",
    Fault PartNotDone = "part_not_done": "An item is done before one of its parts is.",
    Fault AnnotationIndexGap = "annotation_index_gap": "The annotations of a part are not numbered 0, 1, 2, …",

    // Deltas and what they add up to.
    Fault DeltaAfterWhole = "delta_after_whole": "More comes of something whose whole has been told.",
    Fault WholeTwice = "whole_twice": "The whole of something is told twice.",
    Fault WholeMissing = "whole_missing": "Deltas are never followed by their whole.",
    Fault DeltasDiffer = "deltas_differ": "The whole is not what the deltas add up to.",
    Fault ContentDiffers = "content_differs": "A part or an item, when done, has another text than was streamed.",
    Fault ArgumentsDiffer = "arguments_differ": "A call, when done, has other arguments than were streamed.",

    // Calls.
    Fault CallNotStarted = "call_not_started": "A call goes on or ends without ever having been `in_progress`.",
    Fault CallEndedTwice = "call_ended_twice": "A call ends twice.",
    Fault CallAfterEnd = "call_after_end": "A call goes on after its end.",
    Fault CallNotEnded = "call_not_ended": "The item of a call is done, and nothing said that the call had ended.",
    Fault CallOutcomeDiffers = "call_outcome_differs": "A call is said to have worked and its item says it failed, or the other way round.",
    Fault CallIdReused = "call_id_reused": "Two calls have the same `call_id`.",
    Fault OutputBeforeCall = "output_before_call": "The output of a call comes before the call.",

    // The end.
    Fault EndMissing = "end_missing": "The stream ends, and the response has not.",
    Fault EndTwice = "end_twice": "The response ends twice.",
    Fault AfterEnd = "after_end": "Something follows the end of the response.",
    Fault ErrorWithoutFailed = "error_without_failed": "An `error` is not followed by `response.failed`.",
    Fault OutputItemLost = "output_item_lost": "An item that was done is not in the final response.",
    Fault OutputItemUnknown = "output_item_unknown": "The final response has an item that was never added.",
    Fault OutputItemDiffers = "output_item_differs": "An item of the final response is not as it was when done.",
    Fault OutputOrder = "output_order": "The final response has its items in another order.",
    Fault DoneMarkerEarly = "done_marker_early": "`[DONE]` comes before the response has ended.",
    Fault AfterDoneMarker = "after_done_marker": "Something follows `[DONE]`.",

    // Notes.
    Note EventUnknown = "event_unknown": "An event has a name that is not official; some official helpers throw at it.",
    Note ItemLeftOpen = "item_left_open": "The response failed while an item was open.",
    Note DoneMarkerMissing = "done_marker_missing": "There is no `[DONE]`: Open Responses wants one, OpenAI sends none.",
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
