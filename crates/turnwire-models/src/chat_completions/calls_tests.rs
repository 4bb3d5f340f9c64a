use serde_json::{Value, json};
use turnwire_contract::ModelPart;

use super::Calls;

/// Compares each call as `key id name arguments`, in the order of the reports.
fn check(deltas: Value, expected: &[&str]) {
    let mut calls = Calls::new(
        ["multiply", "multiply_all", "now"].map(|name| (name.to_owned(), name.to_owned())),
    );
    let mut parts = Vec::new();
    for delta in deltas.as_array().unwrap() {
        calls.add(serde_json::from_value(delta.clone()).unwrap(), &mut parts);
    }
    calls.close(&mut parts);
    let mut told: Vec<(u32, String)> = Vec::new();
    for part in parts {
        match part {
            ModelPart::CallStarted { key, id, name } => {
                told.push((key, format!("{key} {} {name} ", id.as_deref().unwrap_or("-"))));
            }
            ModelPart::CallArguments { key, text } => {
                told.iter_mut().find(|(other, _)| *other == key).unwrap().1.push_str(&text);
            }
            other => panic!("{other:?}"),
        }
    }
    let told: Vec<_> = told.into_iter().map(|(_, told)| told).collect();
    assert_eq!(told, expected, "{deltas}");
}

#[test]
fn odd_indexes_are_only_labels() {
    check(
        json!([
            { "index": -7, "id": "a", "function": { "name": "now", "arguments": "{" } },
            { "index": 2_147_483_648_u32, "id": "b", "function": { "name": "now", "arguments": "{" } },
            { "index": -7, "function": { "arguments": "}" } },
            { "index": 2_147_483_648_u32, "function": { "arguments": "}" } },
        ]),
        &["0 a now {}", "1 b now {}"],
    );
}

#[test]
fn two_calls_may_have_the_same_id() {
    check(
        json!([
            { "index": 0, "id": "a", "function": { "name": "now", "arguments": "{\"x\":1}" } },
            { "index": 1, "id": "a", "function": { "name": "now", "arguments": "{\"x\":2}" } },
        ]),
        &["0 a now {\"x\":1}", "1 a now {\"x\":2}"],
    );
}

#[test]
fn a_summary_under_another_index_is_a_summary() {
    check(
        json!([
            { "index": 0, "id": "a", "function": { "name": "now", "arguments": "{\"x\":1}" } },
            { "index": 9, "id": "a", "function": { "name": "now", "arguments": "{\"x\":1}" } },
        ]),
        &["0 a now {\"x\":1}"],
    );
}

#[test]
fn a_name_on_offer_may_be_the_beginning_of_another() {
    check(
        json!([
            { "index": 0, "id": "a", "function": { "name": "multiply" } },
            { "index": 0, "function": { "name": "_all" } },
            { "index": 0, "function": { "arguments": "{}" } },
        ]),
        &["0 a multiply_all {}"],
    );
}

#[test]
fn a_name_is_settled_once_arguments_came() {
    check(
        json!([
            { "index": 0, "id": "a", "function": { "name": "search", "arguments": "{" } },
            { "index": 0, "function": { "name": "er", "arguments": "}" } },
        ]),
        &["0 a search {}"],
    );
}

#[test]
fn a_piece_without_any_mark_belongs_to_the_last_call() {
    check(
        json!([
            { "function": { "name": "now" } },
            { "id": "late" },
            { "function": { "arguments": "{" } },
            { "id": "", "function": { "name": "", "arguments": "}" } },
        ]),
        &["0 late now {}"],
    );
}

#[test]
fn a_call_that_never_gets_a_name_is_never_announced() {
    check(json!([{ "index": 0, "function": { "arguments": "{}" } }, {}]), &[]);
}

#[test]
fn a_hundred_and_twenty_eight_calls_may_be_interleaved() {
    let start = (0..128)
        .map(|n| json!({ "index": n, "id": format!("c{n}"), "function": { "name": "now" } }));
    let pieces = ["{\"n\":", "1}"].into_iter().flat_map(|text| {
        (0..128).rev().map(move |n| json!({ "index": n, "function": { "arguments": text } }))
    });
    let expected: Vec<_> = (0..128).map(|n| format!("{n} c{n} now {{\"n\":1}}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check(start.chain(pieces).collect(), &expected);
}
