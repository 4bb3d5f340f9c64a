//! Compares what readers saw with the journal.
//!
//! The frames of every surface are derived from the journal alone, so there is exactly one correct
//! result: the same ids with the same bytes, from first to last, for any reconnects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{
    AgUi, ChatStream, ChatStreamOptions, Profile, Projection, Responses, WithCursors,
    ai_sdk::{AiSdk, AiSdkFrame, Dialect, Span},
    wire_json,
};

use super::{Kind, RunFacts, Violations};
use crate::observations::{FrameId, ReceivedFrame, Surface, View, fingerprint};

/// Maximum number of reported errors per reader.
const MAX_LISTED: usize = 3;

/// Checks every reader of the run.
pub(super) fn check(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    check_against_each_other(&facts.views, violations);
    let surfaces: BTreeSet<Surface> = facts.views.iter().map(|view| view.surface).collect();
    let expected: BTreeMap<Surface, Vec<ReceivedFrame>> =
        surfaces.into_iter().map(|surface| (surface, frames(surface, journal))).collect();
    for view in &facts.views {
        check_view(view, expected.get(&view.surface).map_or(&[], Vec::as_slice), violations);
    }
}

/// Two readers of one surface must have seen the same frames, whatever the journal says.
fn check_against_each_other(views: &[View], violations: &mut Violations) {
    let mut bytes: HashMap<(Surface, FrameId), u64> = HashMap::new();
    let mut n_listed = 0;
    for view in views {
        for seen in &view.seen {
            let first = *bytes.entry((view.surface, seen.frame_id)).or_insert(seen.fingerprint);
            if first != seen.fingerprint && n_listed < MAX_LISTED {
                let frame_id = seen.frame_id;
                let detail = format!("{:?} {frame_id:?} was sent in two versions", view.surface);
                violations.add(Kind::DifferentBytes, detail);
                n_listed += 1;
            }
        }
    }
}

fn check_view(view: &View, expected: &[ReceivedFrame], violations: &mut Violations) {
    let positions: HashMap<FrameId, usize> =
        expected.iter().enumerate().map(|(n, frame)| (frame.frame_id, n)).collect();
    let mut next = 0;
    let mut met: BTreeSet<usize> = BTreeSet::new();
    let mut found: Vec<(Kind, String)> = Vec::new();
    let surface = view.surface;
    for seen in &view.seen {
        let frame_id = seen.frame_id;
        let Some(&n) = positions.get(&frame_id) else {
            found.push((Kind::SeenNotRecorded, format!("{surface:?} {frame_id:?}")));
            continue;
        };
        if expected.get(n).is_some_and(|frame| frame.fingerprint != seen.fingerprint) {
            let detail = format!("{surface:?} {frame_id:?} is not what the journal says");
            found.push((Kind::DifferentBytes, detail));
        }
        if !met.insert(n) {
            found.push((Kind::ViewDuplicate, format!("{surface:?} {frame_id:?}")));
        } else if n < next {
            found.push((Kind::ViewOrder, format!("{surface:?} {frame_id:?} came late")));
        } else if n > next {
            let missing = expected.get(next).map(|frame| frame.frame_id);
            let detail = format!("{surface:?} {frame_id:?} came where {missing:?} was due");
            found.push((Kind::ViewGap, detail));
        }
        next = next.max(n + 1);
    }
    if view.ended && next < expected.len() {
        let (n_seen, n_expected) = (next, expected.len());
        let detail = format!("{surface:?} ended after {n_seen} of {n_expected} frames");
        found.push((Kind::ViewGap, detail));
    }
    if !view.ended {
        let (n_seen, n_expected) = (view.seen.len(), expected.len());
        let refused = view.refused.as_deref().unwrap_or("nothing");
        let detail = format!(
            "{surface:?} stopped after {n_seen} of {n_expected} frames and {} connections; the \
             server said {refused}",
            view.n_connections
        );
        found.push((Kind::ViewUnfinished, detail));
    }
    for (kind, detail) in found.into_iter().take(MAX_LISTED) {
        violations.add(kind, detail);
    }
}

/// Returns all frames of a surface for a journal.
pub fn frames(surface: Surface, journal: &[RecordedEvent]) -> Vec<ReceivedFrame> {
    match surface {
        Surface::Responses => {
            let mut projection = Responses::new(Profile::Strict);
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            frames
                .map(|frame| received_frame(FrameId::at(frame.sequence_number), &wire_json(&frame)))
                .collect()
        }
        Surface::Runs | Surface::DurableStream => journal
            .iter()
            .map(|recorded| received_frame(FrameId::at(recorded.seq.0), &wire_json(recorded)))
            .collect(),
        Surface::Chat => {
            let options = ChatStreamOptions { tokens: true, approvals: true, inputs: true };
            let mut projection = WithCursors::new(ChatStream::new(options));
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            frames
                .map(|placed| {
                    let frame_id = FrameId { seq: placed.cursor.seq.0, index: placed.cursor.index };
                    received_frame(frame_id, &placed.frame.data())
                })
                .collect()
        }
        Surface::AiSdk => {
            let mut projection = AiSdk::new(Dialect::default(), Span::default());
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            let chunks = frames.filter_map(|frame| match frame {
                AiSdkFrame::Chunk(chunk) => Some(chunk),
                AiSdkFrame::AwaitsPeople(_) => None,
            });
            (0..)
                .zip(chunks)
                .map(|(n, chunk)| received_frame(FrameId::at(n), &chunk.data()))
                .collect()
        }
        Surface::AgUi => {
            let mut projection = AgUi::new();
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            frames.map(|frame| received_frame(FrameId::at(frame.number), &frame.data())).collect()
        }
    }
}

fn received_frame(frame_id: FrameId, bytes: &str) -> ReceivedFrame {
    ReceivedFrame { frame_id, fingerprint: fingerprint(bytes) }
}
