//! `turnwire runs list`.

use serde_json::Value;

use super::super::{
    output::{Output, one_line, short_time, word},
    table::{Row, Table},
};
use crate::{
    args::RunsListArguments,
    exit::{Exit, Result},
    server_client::ServerClient,
    terminal::Colour,
};

pub(super) async fn list(
    client: &ServerClient,
    arguments: &RunsListArguments,
    output: Output,
) -> Result<Exit> {
    let page = client.get(&["v1", "runs"], &query(arguments)).await?;
    output.print(&page, || worded(&page, output));
    Ok(Exit::Done)
}

fn query(arguments: &RunsListArguments) -> Vec<(&'static str, String)> {
    let filters = [
        ("status", &arguments.status),
        ("model", &arguments.model),
        ("conversation_id", &arguments.conversation),
        ("tool", &arguments.tool),
        ("q", &arguments.text),
        ("created_after", &arguments.created_after),
        ("created_before", &arguments.created_before),
        ("after", &arguments.after),
    ];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let limit = arguments.limit.map(|limit| ("limit", limit.to_string()));
    let order = arguments.oldest_first.then(|| ("order", "asc".to_owned()));
    filters.chain(limit).chain(order).collect()
}

fn worded(page: &Value, output: Output) -> String {
    let runs: Vec<&Value> =
        page.get("data").and_then(Value::as_array).into_iter().flatten().collect();
    if runs.is_empty() {
        return "there are no such runs".to_owned();
    }
    let table = Table {
        header: vec!["RUN", "STATUS", "CREATED", "TOOLS", "QUESTION"],
        rows: runs.iter().map(|run| row(run)).collect(),
    };
    let mut text = table.format(output.width, output.paint);
    if page.get("has_more") == Some(&Value::from(true)) {
        let last = one_line(word(page, "last_id"));
        text.push('\n');
        text.push_str(&output.paint.dim(&format!("more with --after {last}")));
    }
    text
}

fn row(run: &Value) -> Row {
    let status = word(run, "status");
    let number = |key: &str| run.get(key).and_then(Value::as_u64).unwrap_or_default();
    let n_tools = match (number("n_calls"), number("n_failed_calls")) {
        (0, _) => String::new(),
        (n_calls, 0) => n_calls.to_string(),
        (n_calls, n_failed) => format!("{n_calls}, {n_failed} failed"),
    };
    let cells = [
        one_line(word(run, "run_id")),
        status_word(status),
        short_time(word(run, "created_at")),
        n_tools,
        one_line(word(run, "title")),
    ];
    Row { cells: cells.into(), colour: colour_of(status) }
}

/// The status with the words that people see elsewhere.
pub(super) fn status_word(status: &str) -> String {
    match status {
        "active" => "running".to_owned(),
        "completed" => "done".to_owned(),
        "cancelled" => "stopped".to_owned(),
        other => one_line(&other.replace('_', " ")),
    }
}

pub(super) fn colour_of(status: &str) -> Option<Colour> {
    match status {
        "active" | "running" | "queued" => Some(Colour::Cyan),
        "completed" => Some(Colour::Green),
        "failed" => Some(Colour::Red),
        "needs_input" | "stalled" | "incomplete" | "cancelled" => Some(Colour::Yellow),
        _ => None,
    }
}
