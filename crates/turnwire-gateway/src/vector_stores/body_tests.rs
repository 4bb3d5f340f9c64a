use serde_json::{Map, Value, json};

use turnwire_contract::Chunking;

use super::{
    MAX_ATTRIBUTES, MAX_FILES, MAX_KEY, MAX_NAME, MAX_VALUE, Wanted, read_attach, read_attributes,
    read_batch, read_chunking, read_store,
};
use crate::api_error::ApiError;

fn wanted(id: &str, attributes: Value) -> Wanted {
    let Value::Object(attributes) = attributes else { panic!("attributes are an object") };
    Wanted { file_id: id.into(), attributes, chunking: Chunking::Auto }
}

fn place(error: &ApiError) -> (&str, Option<&str>) {
    (error.code, error.param.as_deref())
}

#[test]
fn what_clients_send_is_accepted() {
    let body = json!({
        "name": "Manuals",
        "description": "all of them",
        "file_ids": ["file_1"],
        "metadata": { "a": "b" },
        "expires_after": { "anchor": "last_active_at", "days": 7 },
        "chunking_strategy": { "type": "auto" },
    });
    let read = read_store(body).unwrap();
    assert_eq!(read.name.as_deref(), Some("Manuals"));
    assert_eq!(read.file_ids, Some(vec!["file_1".into()]));
    assert_eq!(read.metadata.unwrap().into_iter().collect::<Vec<_>>(), [("a".into(), "b".into())]);
    let nothing = read_store(json!({ "name": null, "metadata": null, "file_ids": null })).unwrap();
    assert!(nothing.name.is_none() && nothing.file_ids.is_none() && nothing.metadata.is_none());
}

/// A13: each limit itself is allowed, one more is not.
#[test]
fn a_store_has_limits() {
    let name = |n: usize| read_store(json!({ "name": "ä".repeat(n) })).map(drop);
    assert_eq!(name(MAX_NAME), Ok(()));
    assert_eq!(place(&name(MAX_NAME + 1).unwrap_err()), ("invalid_value", Some("name")));

    let files = |n: usize| read_store(json!({ "file_ids": vec!["file_1"; n] })).map(drop);
    assert_eq!(files(MAX_FILES), Ok(()));
    assert_eq!(place(&files(MAX_FILES + 1).unwrap_err()), ("invalid_value", Some("file_ids")));

    let notes = |n: usize| -> Map<String, Value> {
        (0..n).map(|n| (format!("key{n}"), json!("value"))).collect()
    };
    assert!(read_store(json!({ "metadata": notes(16) })).is_ok());
    let error = read_store(json!({ "metadata": notes(17) })).unwrap_err();
    assert_eq!(place(&error), ("metadata_too_large", Some("metadata")));
}

#[test]
fn a_wrong_type_is_named_with_its_place() {
    let error = |body: Value| read_store(body).unwrap_err();
    assert_eq!(place(&error(json!([]))), ("invalid_type", None));
    assert_eq!(place(&error(json!({ "name": 1 }))), ("invalid_type", Some("name")));
    let ids = error(json!({ "file_ids": ["a", 2] }));
    assert_eq!(place(&ids), ("invalid_type", Some("file_ids[1]")));
    let long = error(json!({ "file_ids": "x".repeat(100_000) }));
    assert_eq!(
        long.message, "`file_ids` is not of the right type. See /openapi.json for it.",
        "what was sent is not repeated"
    );
}

/// A13: each limit itself is allowed, one more is not.
#[test]
fn attributes_have_limits() {
    let pairs = |n: usize| -> Value { (0..n).map(|n| (n.to_string(), json!(n))).collect() };
    let fits = [
        json!({ "a": "text", "b": 1, "c": 1.5, "d": true }),
        pairs(MAX_ATTRIBUTES),
        json!({ "ä".repeat(MAX_KEY): 1 }),
        json!({ "a": "ä".repeat(MAX_VALUE) }),
        json!({}),
    ];
    for attributes in fits {
        let read = read_attributes(json!({ "attributes": attributes })).unwrap();
        assert_eq!(Value::Object(read), attributes);
    }
    assert_eq!(read_attributes(json!({ "attributes": null })), Ok(Map::new()));
    let does_not = [
        (pairs(MAX_ATTRIBUTES + 1), "`attributes` may have at most 16 pairs."),
        (
            json!({ "ä".repeat(MAX_KEY + 1): 1 }),
            "`attributes` may have keys of at most 64 characters.",
        ),
        (
            json!({ "a": "ä".repeat(MAX_VALUE + 1) }),
            "`attributes` may have texts of at most 512 characters.",
        ),
        (
            json!({ "a": [] }),
            "`attributes` may have texts, numbers, `true` and `false`, and nothing else.",
        ),
        (
            json!({ "a": null }),
            "`attributes` may have texts, numbers, `true` and `false`, and nothing else.",
        ),
    ];
    for (attributes, message) in does_not {
        let error = read_attributes(json!({ "attributes": attributes })).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(place(&error), ("invalid_value", Some("attributes")));
    }
}

#[test]
fn a_file_to_attach_must_be_named() {
    let read = read_attach(json!({ "file_id": "file_1", "attributes": { "a": 1 } }));
    assert_eq!(read, Ok(wanted("file_1", json!({ "a": 1 }))));
    let error = read_attach(json!({})).unwrap_err();
    assert_eq!(place(&error), ("missing_required_parameter", Some("file_id")));
}

#[test]
fn a_batch_is_a_list_of_ids_or_of_files() {
    let ids = json!({ "file_ids": ["file_1", "file_2"], "attributes": { "a": 1 } });
    let both = vec![wanted("file_1", json!({ "a": 1 })), wanted("file_2", json!({ "a": 1 }))];
    assert_eq!(read_batch(ids), Ok(both));
    let files = json!({ "files": [{ "file_id": "file_1", "attributes": { "a": 1 } },
                                  { "file_id": "file_2" }] });
    let each = vec![wanted("file_1", json!({ "a": 1 })), wanted("file_2", json!({}))];
    assert_eq!(read_batch(files), Ok(each));

    let refused = [
        (json!({}), "missing_required_parameter", "file_ids"),
        (json!({ "file_ids": [], "files": [] }), "invalid_value", "files"),
        (json!({ "files": [{}] }), "missing_required_parameter", "files[0].file_id"),
        (
            json!({ "files": [{ "file_id": "a" }, { "file_id": "b", "attributes": { "a": {} } }] }),
            "invalid_value",
            "files[1].attributes",
        ),
        (json!({ "file_ids": vec!["a"; MAX_FILES + 1] }), "invalid_value", "file_ids"),
        (json!({ "files": vec![json!({}); MAX_FILES + 1] }), "invalid_value", "files"),
    ];
    for (body, code, param) in refused {
        assert_eq!(place(&read_batch(body).unwrap_err()), (code, Some(param)));
    }
}

#[test]
fn a_chunking_strategy_is_read_or_refused_by_its_field() {
    let read = |strategy: Value| {
        let body = json!({ "chunking_strategy": strategy });
        read_chunking(read_store(body)?.chunking_strategy)
    };
    let cut = |most: u32, overlap: u32| {
        let tokens = json!({ "max_chunk_size_tokens": most, "chunk_overlap_tokens": overlap });
        read(json!({ "type": "static", "static": tokens }))
    };
    assert_eq!(read(Value::Null), Ok(Chunking::Auto));
    assert_eq!(read(json!({ "type": "auto" })), Ok(Chunking::Auto));
    for (most, overlap) in [(100, 0), (100, 50), (4_096, 2_048)] {
        let expected = Chunking::Static { max_tokens: most, overlap_tokens: overlap };
        assert_eq!(cut(most, overlap), Ok(expected));
    }
    let at = |read: Result<Chunking, ApiError>| read.unwrap_err().param.unwrap();
    assert_eq!(at(read(json!({ "type": "clever" }))), "chunking_strategy.type");
    assert_eq!(at(read(json!({ "type": "static" }))), "chunking_strategy.static");
    for most in [99, 4_097] {
        assert_eq!(at(cut(most, 0)), "chunking_strategy.static.max_chunk_size_tokens");
    }
    assert_eq!(at(cut(100, 51)), "chunking_strategy.static.chunk_overlap_tokens");
    let body = json!({ "files": [{ "file_id": "a", "chunking_strategy": { "type": "x" } }] });
    let error = read_batch(body).unwrap_err();
    assert_eq!(place(&error), ("invalid_value", Some("files[0].chunking_strategy.type")));
}

#[test]
fn an_expiry_is_read_or_refused_by_its_field() {
    let read = |anchor: &str, days: i64| {
        let body = json!({ "expires_after": { "anchor": anchor, "days": days } });
        let days = read_store(body)?.expires_after.map(|after| after.days());
        days.transpose().map_err(ApiError::from)
    };
    assert_eq!(read("last_active_at", 1), Ok(Some(1)));
    assert_eq!(read("last_active_at", 365), Ok(Some(365)));
    for days in [0, 366] {
        let error = read("last_active_at", days).unwrap_err();
        assert_eq!(place(&error), ("invalid_value", Some("expires_after.days")));
    }
    let error = read("created_at", 1).unwrap_err();
    assert_eq!(place(&error), ("invalid_value", Some("expires_after.anchor")));
}
