//! `turnwire runs show`: the state of a run on one screen.

use serde_json::Value;
use turnwire_surfaces::{clean, words};

use super::{
    super::output::{Output, one_line, short_time, word},
    list::{colour_of, status_word},
};
use crate::{
    exit::{Exit, Result},
    server_client::ServerClient,
    terminal::{Colour, Paint},
};

pub(super) async fn show(client: &ServerClient, run_id: &str, output: Output) -> Result<Exit> {
    let snapshot = client.get(&["v1", "runs", run_id], &[]).await?;
    output.print(&snapshot, || worded(&snapshot, output.paint));
    Ok(Exit::Done)
}

fn worded(run: &Value, paint: Paint) -> String {
    let status = word(run, "status");
    let state = status_word(status);
    let state = colour_of(status).map_or(state.clone(), |colour| paint.colour(colour, &state));
    let mut lines = vec![format!("{}  {state}", paint.strong(&one_line(word(run, "run_id"))))];
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("  {} {}", paint.dim(&format!("{name:<13}")), one_line(value)));
        }
    };
    fact("model", word(run, "model"));
    fact("conversation", word(run, "conversation_id"));
    fact("created", &short_time(word(run, "created_at")));
    fact("finished", &short_time(word(run, "finished_at")));
    fact("waits for", word(run, "stalled"));
    let failure = run.pointer("/outcome/failure/message").and_then(Value::as_str);
    fact("failure", failure.unwrap_or_default());
    for call in run.get("calls").and_then(Value::as_array).into_iter().flatten() {
        lines.push(call_line(call, paint));
    }
    let text = word(run, "text");
    if !text.is_empty() {
        lines.push(String::new());
        lines.push(clean(text).trim_end().to_owned());
    }
    lines.join("\n")
}

/// `  ✓ demo.multiply  done  1.2s  20`
fn call_line(call: &Value, paint: Paint) -> String {
    let state = word(call, "state");
    let (colour, symbol) = match state {
        "done" => (Colour::Green, '✓'),
        "failed" | "denied" | "timed out" => (Colour::Red, '✗'),
        "stopped" => (Colour::Yellow, '■'),
        "unknown" => (Colour::Yellow, '⚠'),
        words::NEEDS_APPROVAL | words::NEEDS_INPUT => (Colour::Yellow, '⏸'),
        _ => (Colour::Cyan, '•'),
    };
    let name = match word(call, "server") {
        "" => word(call, "tool").to_owned(),
        server => format!("{server}.{}", word(call, "tool")),
    };
    let time = call.get("duration_ms").and_then(Value::as_u64).map(words::seconds_with_tenths);
    let parts = [
        one_line(&name),
        one_line(state),
        time.unwrap_or_default(),
        one_line(word(call, "summary")),
        // What an answer has to name.
        if symbol == '⏸' { one_line(word(call, "call_id")) } else { String::new() },
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("  {} {}", paint.colour(colour, &symbol.to_string()), parts.join("  "))
}
