use std::collections::BTreeSet;

use utoipa::PartialSchema as _;

use super::*;
use crate::responses::{
    Profile,
    checks::{OFFICIAL, to_json, told},
    stories,
};

fn seen(profile: Profile) -> BTreeSet<&'static str> {
    let frames = stories::all().into_iter().flat_map(|(_, story)| told(story, profile).0);
    frames.map(|frame| frame.event_type()).collect()
}

/// S1-FR-012: the types that can be sent are exactly those that are listed, in either profile.
#[test]
fn every_listed_type_is_sent_and_no_other() {
    let strict: BTreeSet<_> = ResponseEvent::TYPES_STRICT.iter().copied().collect();
    let own: BTreeSet<_> = ResponseEvent::TYPES_EXTENDED.iter().copied().collect();
    assert_eq!(seen(Profile::Strict), strict);
    assert_eq!(seen(Profile::Extended), strict.union(&own).copied().collect());
}

/// S1-FR-013, S1-SC-003, R1: at least thirty, all of them official.
#[test]
fn there_are_at_least_thirty_and_all_are_official() {
    let strict: BTreeSet<_> = ResponseEvent::TYPES_STRICT.iter().collect();
    assert_eq!(strict.len(), ResponseEvent::TYPES_STRICT.len(), "named twice");
    assert!(strict.len() >= 30, "{}", strict.len());
    assert_eq!(strict.len(), 38);
    assert_eq!(strict.difference(&OFFICIAL.iter().collect()).next(), None);
    assert!(ResponseEvent::TYPES_EXTENDED.iter().all(|name| !OFFICIAL.contains(name)));
}

/// The values of `type` anywhere in a schema.
fn names(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            let kind = object.get("properties").and_then(|facts| facts.get("type"));
            let known = kind.and_then(|kind| kind.get("enum")?.as_array());
            into.extend(known.into_iter().flatten().map(|n| n.as_str().unwrap().to_owned()));
            object.values().for_each(|value| names(value, into));
        }
        Value::Array(values) => values.iter().for_each(|v| names(v, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// S1-FR-012: the `OpenAPI` document is made from the same table.
#[test]
fn the_schema_names_the_same_types() {
    let mut named = BTreeSet::new();
    names(&to_json(&ResponseEvent::schema()), &mut named);
    let all = ResponseEvent::TYPES_STRICT.iter().chain(ResponseEvent::TYPES_EXTENDED);
    assert_eq!(named, all.map(|name| (*name).to_owned()).collect());
}

/// Text deltas are the most frequent frames, so a frame must stay small in memory.
#[test]
fn a_frame_is_small() {
    assert!(size_of::<ResponseEvent>() <= 128, "{}", size_of::<ResponseEvent>());
}
