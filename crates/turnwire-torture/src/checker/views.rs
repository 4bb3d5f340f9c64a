//! Compares what readers saw with the journal.
//!
//! The frames of every surface are derived from the journal alone, so there is exactly one correct
//! result: the same ids with the same bytes, from first to last, for any reconnects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{
    ChatStream, ChatStreamOptions, Profile, Projection, Responses, WithCursors, wire_json,
};

use super::{Complaints, Kind, RunFacts};
use crate::observations::{Place, Seen, Surface, View, fingerprint};

/// Maximum number of reported errors per reader.
const MAX_TOLD: usize = 3;

/// Checks every reader of the run.
pub(super) fn check(facts: &RunFacts, journal: &[RecordedEvent], wrong: &mut Complaints) {
    check_against_each_other(&facts.views, wrong);
    let surfaces: BTreeSet<Surface> = facts.views.iter().map(|view| view.surface).collect();
    let expected: BTreeMap<Surface, Vec<Seen>> =
        surfaces.into_iter().map(|surface| (surface, frames(surface, journal))).collect();
    for view in &facts.views {
        check_view(view, expected.get(&view.surface).map_or(&[], Vec::as_slice), wrong);
    }
}

/// Two readers of one surface must have seen the same frames, whatever the journal says.
fn check_against_each_other(views: &[View], wrong: &mut Complaints) {
    let mut bytes: HashMap<(Surface, Place), u64> = HashMap::new();
    let mut n_told = 0;
    for view in views {
        for seen in &view.seen {
            let first = *bytes.entry((view.surface, seen.place)).or_insert(seen.fingerprint);
            if first != seen.fingerprint && n_told < MAX_TOLD {
                let place = seen.place;
                let detail = format!("{:?} {place:?} was sent in two versions", view.surface);
                wrong.add(Kind::DifferentBytes, detail);
                n_told += 1;
            }
        }
    }
}

fn check_view(view: &View, expected: &[Seen], wrong: &mut Complaints) {
    let places: HashMap<Place, usize> =
        expected.iter().enumerate().map(|(n, frame)| (frame.place, n)).collect();
    let mut next = 0;
    let mut met: BTreeSet<usize> = BTreeSet::new();
    let mut mistakes: Vec<(Kind, String)> = Vec::new();
    let surface = view.surface;
    for seen in &view.seen {
        let place = seen.place;
        let Some(&n) = places.get(&place) else {
            mistakes.push((Kind::SeenNotRecorded, format!("{surface:?} {place:?}")));
            continue;
        };
        if expected.get(n).is_some_and(|frame| frame.fingerprint != seen.fingerprint) {
            let detail = format!("{surface:?} {place:?} is not what the journal says");
            mistakes.push((Kind::DifferentBytes, detail));
        }
        if !met.insert(n) {
            mistakes.push((Kind::ViewDuplicate, format!("{surface:?} {place:?}")));
        } else if n < next {
            mistakes.push((Kind::ViewOrder, format!("{surface:?} {place:?} came late")));
        } else if n > next {
            let missing = expected.get(next).map(|frame| frame.place);
            let detail = format!("{surface:?} {place:?} came where {missing:?} was due");
            mistakes.push((Kind::ViewGap, detail));
        }
        next = next.max(n + 1);
    }
    if view.ended && next < expected.len() {
        let (n_seen, n_expected) = (next, expected.len());
        let detail = format!("{surface:?} ended after {n_seen} of {n_expected} frames");
        mistakes.push((Kind::ViewGap, detail));
    }
    if !view.ended {
        let (n_seen, n_expected) = (view.seen.len(), expected.len());
        let refused = view.refused.as_deref().unwrap_or("nothing");
        let detail = format!(
            "{surface:?} stopped after {n_seen} of {n_expected} frames and {} connections; the \
             server said {refused}",
            view.n_connections
        );
        mistakes.push((Kind::ViewUnfinished, detail));
    }
    for (kind, detail) in mistakes.into_iter().take(MAX_TOLD) {
        wrong.add(kind, detail);
    }
}

/// Returns all frames of a surface for a journal.
pub fn frames(surface: Surface, journal: &[RecordedEvent]) -> Vec<Seen> {
    match surface {
        Surface::Responses => {
            let mut projection = Responses::new(Profile::Strict);
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            frames.map(|frame| seen(Place::at(frame.sequence_number), &wire_json(&frame))).collect()
        }
        Surface::Runs => journal
            .iter()
            .map(|recorded| seen(Place::at(recorded.seq.0), &wire_json(recorded)))
            .collect(),
        Surface::Chat => {
            let wishes = ChatStreamOptions { tokens: true, approvals: true, inputs: true };
            let mut projection = WithCursors::new(ChatStream::new(wishes));
            let frames = journal.iter().flat_map(|recorded| projection.project(recorded));
            frames
                .map(|placed| {
                    let place = Place { seq: placed.cursor.seq.0, index: placed.cursor.index };
                    seen(place, &placed.frame.data())
                })
                .collect()
        }
    }
}

fn seen(place: Place, bytes: &str) -> Seen {
    Seen { place, fingerprint: fingerprint(bytes) }
}
