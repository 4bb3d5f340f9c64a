//! Maximum nesting depth of tool data. Journaled data must be readable, and most JSON parsers stop
//! at depth 128.

use serde_json::Value;

const MAX_DEPTH: usize = 64;

/// Returns whether `value` is nested too deeply for the journal.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    is_deeper_than(MAX_DEPTH, value)
}

fn is_deeper_than(depth: usize, value: &Value) -> bool {
    let left = depth.checked_sub(1);
    let inside = |value: &Value| left.is_none_or(|left| is_deeper_than(left, value));
    match value {
        Value::Array(items) => left.is_none() || items.iter().any(inside),
        Value::Object(fields) => left.is_none() || fields.values().any(inside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(
            json!(1),
            |inside, n| if n % 2 == 0 { json!([inside]) } else { json!({ "a": inside }) },
        )
    }

    /// C26: at the limit and one past it.
    #[test]
    fn data_may_be_nested_64_deep() {
        assert!(!is_too_deep(&nested(0)));
        assert!(!is_too_deep(&nested(64)));
        assert!(is_too_deep(&nested(65)));
        assert!(is_too_deep(&nested(120)));
    }
}
