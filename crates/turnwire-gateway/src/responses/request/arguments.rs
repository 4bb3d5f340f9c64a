//! The arguments of calls in a history.

use serde_json::Value;

use crate::{client_error::ClientError, fields::Fields};

/// The arguments of a call as valid JSON, whatever the client sent. Invalid arguments that a model
/// once generated must not block the conversation for ever.
pub(super) fn read_arguments(item: &Fields<'_>) -> Result<String, ClientError> {
    let raw = item.needed_text("arguments")?.trim();
    check_length(raw, item, "arguments")?;
    let is_object = || serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_object());
    Ok(match raw {
        "" => "{}".to_owned(),
        _ if is_object() => raw.to_owned(),
        _ => serde_json::json!({ "invalid_arguments": raw }).to_string(),
    })
}

/// Refuses arguments over the limit.
pub(super) fn check_length(
    arguments: &str,
    item: &Fields<'_>,
    name: &str,
) -> Result<(), ClientError> {
    let (n_bytes, most) = (arguments.len(), item.limits().argument_bytes);
    if n_bytes > most {
        let path = item.path_of(name);
        let message = format!("`{path}` may have at most {most} bytes, not {n_bytes}.");
        return Err(ClientError::new("arguments_too_large", path, message));
    }
    Ok(())
}
