//! `turnwire chat --resume`: the conversation that is continued, and the end of it.

use console::Term;
use serde_json::Value;
use turnwire::RunId;
use turnwire_surfaces::clean;

use crate::{
    exit::Result,
    server_client::ServerClient,
    terminal::{Look, formatted, tell},
};

/// Number of items that are shown.
const MAX_SHOWN: usize = 10;
/// Number of runs that are looked through for the last conversation.
const MAX_RUNS: usize = 100;

/// A conversation to be continued.
pub(super) struct Resumed {
    pub(super) id: String,
    /// A run of it that is in progress.
    pub(super) active_run: Option<RunId>,
}

/// Finds a conversation and shows the end of it. An empty name means the last one.
pub(super) async fn resume(
    client: &ServerClient,
    wanted: &str,
    look: Look,
) -> Result<Option<Resumed>> {
    let id = match wanted {
        "" => last_conversation(client).await?,
        id => Some(id.to_owned()),
    };
    let Some(id) = id else { return Ok(None) };
    let query = [("limit", MAX_SHOWN.to_string()), ("order", "desc".to_owned())];
    let page = client.get(&["v1", "conversations", &id, "items"], &query).await?;
    let items = page.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    for item in items.iter().rev() {
        show(item, look);
    }
    let query = [
        ("conversation_id", id.clone()),
        ("status", "active,needs_input,stalled".to_owned()),
        ("limit", "1".to_owned()),
    ];
    let active = client.get(&["v1", "runs"], &query).await?;
    let active_run = active.pointer("/data/0/run_id").and_then(Value::as_str).map(RunId::new);
    Ok(Some(Resumed { id, active_run }))
}

async fn last_conversation(client: &ServerClient) -> Result<Option<String>> {
    let runs = client.get(&["v1", "runs"], &[("limit", MAX_RUNS.to_string())]).await?;
    let mut runs = runs.get("data").and_then(Value::as_array).into_iter().flatten();
    Ok(runs.find_map(|run| Some(run.get("conversation_id")?.as_str()?.to_owned())))
}

/// Shows a message. Calls and their results are left to `turnwire runs show`.
fn show(item: &Value, look: Look) {
    if item.get("type").and_then(Value::as_str) != Some("message") {
        return;
    }
    let text = match item.get("content") {
        Some(Value::String(text)) => text.clone(),
        content => {
            let parts = content.and_then(Value::as_array).into_iter().flatten();
            parts.filter_map(|part| part.get("text")?.as_str()).collect()
        }
    };
    if item.get("role").and_then(Value::as_str) == Some("user") {
        tell(&look.paint.dim(&format!("› {}", clean(text.trim()).replace('\r', " "))));
    } else if look.is_formatted {
        let width = usize::from(Term::stderr().size().1);
        tell(formatted(&text, width, look.paint).trim_end());
    } else {
        tell(&clean(text.trim_end()));
    }
}
