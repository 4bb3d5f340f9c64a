use serde_json::json;

use super::*;

fn open(unread: &FieldTracker, path: &str, object: &Value) {
    unread.open(path, object.as_object().unwrap());
}

#[test]
fn what_is_not_read_is_left() {
    let unread = FieldTracker::default();
    let nothing = json!({ "a": null, "b": [], "c": {} });
    open(&unread, "text", &nothing);
    open(&unread, "", &json!({ "model": "m", "odd": 1, "off": false }));
    unread.read("", "model");
    assert_eq!(unread.left(), ["odd", "off"]);
}

/// An object that is opened twice is registered once.
#[test]
fn opening_again_does_not_undo_reading() {
    let unread = FieldTracker::default();
    let tool = json!({ "type": "mcp", "odd": 1 });
    open(&unread, "tools[0]", &tool);
    unread.read("tools[0]", "type");
    open(&unread, "tools[0]", &tool);
    unread.report("tools[1]", "");
    assert_eq!(unread.left(), ["tools[0].odd", "tools[1]"]);
}

/// A schema may have thousands of fields; they are read at once, and only those of their object.
#[test]
fn an_object_that_is_taken_whole_leaves_nothing() {
    let unread = FieldTracker::default();
    let schema: Map<String, Value> = (0..10_000).map(|n| (n.to_string(), json!(1))).collect();
    unread.open("tools[0].parameters", &schema);
    open(&unread, "tools[0]", &json!({ "odd": 1 }));
    unread.read_all("tools[0].parameters");
    assert!(unread.refuse("tools[0].parameters", &[]).is_ok());
    assert_eq!(unread.left(), ["tools[0].odd"]);
}

#[test]
fn items_are_not_told_apart() {
    let unread = FieldTracker::default();
    for n in 0..200 {
        open(&unread, &format!("input[{n}].content[{n}]"), &json!({ "phase": "x" }));
    }
    assert_eq!(unread.left(), ["input[].content[].phase"]);
}

#[test]
fn the_report_has_an_end() {
    let unread = FieldTracker::default();
    let object: Map<String, Value> =
        (0..1_000).map(|n| (format!("{n}{}", "x".repeat(200)), json!(1))).collect();
    unread.open("input[0]", &object);
    let left = unread.left();
    assert_eq!(left.len(), MAX_REPORTED);
    assert!(left.iter().all(|field| field.chars().count() < 100), "{}", left[0]);
}

#[test]
fn a_field_nobody_knows_is_refused_with_what_was_meant() {
    let unread = FieldTracker::default();
    open(&unread, "", &json!({ "temprature": 1, "image": {} }));
    for name in ["temperature", "top_p", "input"] {
        unread.read("", name);
    }
    let refused = unread.refuse("", &["image"]).unwrap_err();
    assert_eq!(refused.code, "unknown_parameter");
    assert_eq!(refused.param.as_deref(), Some("temprature"));
    assert_eq!(refused.message, "Unknown parameter: 'temprature'. Did you mean 'temperature'?");
    assert_eq!(unread.refuse("", &["temprature"]), Ok(()), "one that is reported");
    assert_eq!(unread.refuse("text", &[]), Ok(()), "another object");

    let unread = FieldTracker::default();
    open(&unread, "text", &json!({ "zzz.zz\n": 1 }));
    let refused = unread.refuse("text", &[]).unwrap_err();
    assert_eq!(refused.message, "Unknown parameter: 'text.zzz.zz…'.");
}
