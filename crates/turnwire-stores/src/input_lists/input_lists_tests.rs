use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{Item, RunRequest, TenantId, Tool};
use turnwire_testkit::{Behaviour, FakeTool};
use zeroize::Zeroizing;

use super::{SharedParts, SharedRequest};
use crate::{failures::decode, sealing::DataKey};

fn request(n_turns: usize) -> RunRequest {
    let said = |n| Item::user(format!("message {n}"));
    let mut request = RunRequest::new("m", (0..n_turns).map(said).collect());
    request.instructions = Some("Be brief. ".repeat(500));
    let look = FakeTool::new("look", Behaviour::Returns(String::new()));
    request.tools = vec![Arc::new(look.spec().clone())];
    request.surface_data.insert("tools".to_owned(), json!(["x".repeat(600)]));
    request.surface_data.insert("user".to_owned(), json!("me"));
    request
}

fn split(request: &RunRequest, key: Option<&DataKey>) -> SharedRequest {
    SharedRequest::of(request, key).unwrap().unwrap()
}

/// The IDs of the preamble and of the list up to each item.
fn ids(request: &RunRequest, key: Option<&DataKey>) -> Vec<String> {
    let shared = split(request, key);
    [shared.preamble].into_iter().chain(shared.items).map(|part| part.id).collect()
}

fn key(tenant: &str, byte: u8) -> DataKey {
    DataKey::new(&TenantId::from(tenant), "00000000", Zeroizing::new([byte; 32]))
}

/// What is taken out of a request comes back, and nothing long stays.
#[test]
fn a_request_is_split_and_joined() {
    for n_items in [0, 1, 3] {
        let request = request(n_items);
        let shared = split(&request, None);
        let mut rest = shared.rest;
        assert_eq!((rest.input.len(), rest.tools.len(), rest.instructions.as_ref()), (0, 0, None));
        assert_eq!(
            (&rest.surface_data["tools"], &rest.surface_data["user"]),
            (&Value::Null, &json!("me"))
        );
        assert_eq!(shared.items.len(), n_items);
        let input = shared.items.iter().map(|item| decode(&item.body).unwrap()).collect();
        let parts = SharedParts { preamble: decode(&shared.preamble.body).unwrap(), input };
        parts.join(&mut rest);
        assert_eq!(rest, request);
        assert!(rest.surface_data.keys().eq(request.surface_data.keys()), "in the same order");
    }
}

/// What is short, or is deleted before the next turn, is not worth it. What cannot be shared does
/// not count.
#[test]
fn some_requests_are_stored_whole() {
    let mut short = request(3);
    short.instructions = None;
    short.generation.answer_schema = Some(json!("x".repeat(10_000)));
    assert_eq!(SharedRequest::of(&short, None).unwrap(), None);
    let mut unstored = request(3);
    unstored.surface_data.insert("store".to_owned(), json!(false));
    assert_eq!(SharedRequest::of(&unstored, None).unwrap(), None);
}

/// What two requests have in common at the beginning has the same IDs, and nothing after it.
#[test]
fn lists_that_begin_alike_have_the_same_ids_so_far() {
    let short = ids(&request(2), None);
    let long = ids(&request(4), None);
    assert_eq!(long[..3], short);

    let mut other = request(4);
    other.input[1] = Item::user("something else");
    let other = ids(&other, None);
    assert_eq!((&other[..2], other[2] == long[2], other[4] == long[4]), (&long[..2], false, false));

    // Instructions and items do not depend on each other.
    let mut other = request(4);
    other.instructions = other.instructions.map(|text| text + "It is five o'clock.");
    let other = ids(&other, None);
    assert_eq!((other[0] == long[0], &other[1..]), (false, &long[1..]));

    // What differs from request to request does not matter.
    let mut other = request(4);
    other.metadata.insert("turn".to_owned(), "4".to_owned());
    other.surface_data.insert("user".to_owned(), Value::Null);
    assert_eq!(ids(&other, None), long);

    // A17: without the key nobody can tell what has a certain ID.
    let keyed = ids(&request(4), Some(&key("t", 1)));
    assert!(keyed.iter().all(|id| !long.contains(id)));
    assert_eq!(ids(&request(4), Some(&key("t", 1))), keyed);
    assert!(ids(&request(4), Some(&key("t", 2))).iter().all(|id| !keyed.contains(id)));
}
