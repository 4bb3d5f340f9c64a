//! `turnwire runs share`: read-only links to a run.

use serde_json::{Value, json};

use super::super::{
    output::{Output, one_line, short_time, word},
    table::{Row, Table},
};
use crate::{
    args::ShareArguments,
    exit::{Exit, Result},
    server_client::ServerClient,
};

pub(super) async fn share(
    client: &ServerClient,
    arguments: &ShareArguments,
    output: Output,
) -> Result<Exit> {
    let run_id = arguments.run_id.as_str();
    if let Some(share_id) = &arguments.revoke {
        let answer = client.delete(&["v1", "runs", run_id, "shares", share_id]).await?;
        output.print(&answer, || format!("{} does not work any more", one_line(share_id)));
    } else if arguments.list {
        let shares = client.get(&["v1", "runs", run_id, "shares"], &[]).await?;
        output.print(&shares, || listed(&shares, output));
    } else {
        let mut body = json!({ "redact": arguments.redact });
        if let (Some(seconds), Some(body)) = (arguments.expires, body.as_object_mut()) {
            body.insert("expires_in_sec".to_owned(), Value::from(seconds));
        }
        let mut made = client.post(&["v1", "runs", run_id, "share"], &body).await?;
        let link = format!("{}{}", client.base(), word(&made, "path"));
        if let Some(made) = made.as_object_mut() {
            made.insert("url".to_owned(), Value::from(link.as_str()));
        }
        output.print(&made, || one_line(&link));
        if !output.json {
            let redacted = if arguments.redact { ", without texts" } else { "" };
            let until = short_time(word(&made, "expires_at"));
            let id = one_line(word(&made, "share_id"));
            crate::terminal::tell(&format!("until {until} UTC{redacted}; revoke it as {id}"));
        }
    }
    Ok(Exit::Done)
}

fn listed(shares: &Value, output: Output) -> String {
    let rows = shares.get("data").and_then(Value::as_array).into_iter().flatten().map(|share| {
        let redacted = share.get("redact") == Some(&Value::from(true));
        let texts = if redacted { "withheld" } else { "shown" };
        let cells = [
            one_line(word(share, "share_id")),
            texts.to_owned(),
            short_time(word(share, "created_at")),
            short_time(word(share, "expires_at")),
        ];
        Row { cells: cells.into(), colour: None }
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return "the run has no links".to_owned();
    }
    let header = vec!["LINK", "TEXTS", "CREATED", "EXPIRES"];
    Table { header, rows }.format(output.width, output.paint)
}
