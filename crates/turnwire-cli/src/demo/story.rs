//! The tools of the demo's story: three calls at once, of which one reports progress and fails and
//! one needs approval.
//!
//! They only play: nothing is searched, deployed or deleted.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turnwire::{Effect, ToolContext};
use turnwire_contract::{Tool, ToolClaims, ToolKind, ToolOutput};
use turnwire_tools::FunctionTool;

use super::{Offered, wait};

/// What `deploy_check` does before it fails, of [`N_STEPS`] steps.
const STEPS: [&str; 3] = ["lint", "build", "unit tests"];
const N_STEPS: f64 = 5.0;

const CHECK_FAILED: &str = "unit tests: 2 failed (exit 1)";

/// The arguments of `deploy_check`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Checked {
    /// The version to check.
    r#ref: String,
}

/// Creates the tool that reports progress and then fails.
pub(crate) fn deploy_check(tool_time: Duration) -> FunctionTool<Checked> {
    let work = move |_: Checked, context: ToolContext| async move {
        for (n_done, step) in (1_u8..).zip(STEPS) {
            context.progress_with(f64::from(n_done), N_STEPS, step).await;
            context.output(format!("{step}: running\n")).await;
            wait(&context, tool_time.mul_f64(1.6)).await?;
        }
        context.output("test resume_after_restart ... FAILED\n").await;
        context.output("test resume_at_every_event ... FAILED\n").await;
        Err::<String, _>(CHECK_FAILED)
    };
    FunctionTool::with_context("deploy_check", "Checks whether a version can be deployed.", work)
        .effect(Effect::Pure)
        .parallel()
        .timeout(tool_time + Duration::from_mins(1))
        .label(|checked| format!("ref={}", checked.r#ref))
}

/// The arguments of `delete_branch`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Branch {
    /// The branch to delete.
    name: String,
    /// Whether to delete it even if it is not merged.
    #[serde(default)]
    force: bool,
}

/// Creates the tool that needs approval.
pub(crate) fn delete_branch(tool_time: Duration) -> FunctionTool<Branch> {
    let work = move |branch: Branch, context: ToolContext| async move {
        wait(&context, tool_time.mul_f64(0.5)).await?;
        Ok::<_, &str>(format!("deleted branch {} (was 3f2a91c)", branch.name))
    };
    FunctionTool::with_context("delete_branch", "Deletes a branch.", work)
        .parallel()
        .needs_approval()
        .timeout(tool_time + Duration::from_mins(1))
        .label(|branch| format!("name={} force={}", branch.name, branch.force))
}

/// What the server of `delete_branch` would claim about it.
pub(super) fn destructive() -> ToolClaims {
    ToolClaims { read_only: Some(false), destructive: Some(true), ..ToolClaims::default() }
}

/// The arguments of `web_search`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Search {
    /// What to search for.
    query: String,
}

/// Creates the search, which always finds the same.
pub(crate) fn web_search(tool_time: Duration) -> Arc<dyn Tool> {
    let work = move |search: Search, context: ToolContext| async move {
        context.phase("searching").await;
        wait(&context, tool_time.mul_f64(1.25)).await?;
        Ok::<_, &str>(found_by(&search))
    };
    let description = "Searches the web. It is played: it always finds the same.";
    let tool = FunctionTool::with_context("web_search", description, work)
        .effect(Effect::Pure)
        .parallel()
        .telling(["query"])
        .timeout(tool_time + Duration::from_mins(1))
        .label(|search| format!("“{}”", search.query));
    Offered::with(tool, |spec| spec.kind = ToolKind::WebSearch)
}

/// Title, address and beginning of the pages that are found.
const FOUND: [(&str, &str, &str); 6] = [
    ("Stream stops after a restart", "https://forum.example/t/4211", "Since 0.4 a resumed stream"),
    ("0.4 loses its place", "https://forum.example/t/4230", "After the restart the page shows"),
    ("Release notes of 0.4", "https://docs.example/0.4", "Runs survive the restart of a server"),
    ("Upgrading to 0.4", "https://docs.example/upgrade", "Back up the database first"),
    ("Resuming a stream", "https://docs.example/resume", "A client sends the last number it saw"),
    ("All releases", "https://docs.example/releases", "0.4, 0.3.2, 0.3.1"),
];

fn found_by(search: &Search) -> ToolOutput {
    let sources = FOUND.map(|(title, url, _)| json!({ "url": url, "title": title }));
    let found = (1..).zip(FOUND);
    let lines = found.map(|(n, (title, url, begin))| format!("[{n}] {title} ({url}): {begin}"));
    let structured =
        json!({ "action": "search", "queries": [search.query.as_str()], "sources": sources });
    ToolOutput {
        structured: Some(structured),
        short: Some(format!("{} results", FOUND.len())),
        ..ToolOutput::text(lines.collect::<Vec<_>>().join("\n"))
    }
}
