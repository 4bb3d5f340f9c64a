//! The tools of the demo's story: three calls at once, of which one reports progress and fails and
//! one needs approval.
//!
//! They only play: nothing is searched, deployed or deleted.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnwire::{Effect, ToolContext};
use turnwire_contract::{Tool, ToolClaims, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec};
use turnwire_tools::FunctionTool;

/// What `deploy_check` does before it fails, of [`N_STEPS`] steps.
const STEPS: [&str; 3] = ["lint", "build", "unit tests"];
const N_STEPS: f64 = 5.0;

const CHECK_FAILED: &str = "unit tests: 2 failed (exit 1)";
const STOPPED: &str = "the call was cancelled";

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

/// Creates the search, which always finds the same.
pub(crate) fn web_search(tool_time: Duration) -> Arc<dyn Tool> {
    Arc::new(PlayedSearch { spec: search_spec(), time: tool_time.mul_f64(1.25) })
}

struct PlayedSearch {
    spec: ToolSpec,
    time: Duration,
}

fn search_spec() -> ToolSpec {
    ToolSpec {
        parameters: json!({
            "type": "object",
            "properties": { "query": { "type": "string" } },
            "required": ["query"],
        }),
        kind: ToolKind::WebSearch,
        effect: Effect::Pure,
        parallel: true,
        telling_arguments: vec!["query".to_owned()],
        ..ToolSpec::new("web_search", "Searches the web. It is played: it always finds the same.")
    }
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

#[async_trait]
impl Tool for PlayedSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        context.phase("searching").await;
        wait(&context, self.time).await.map_err(ToolError::failed)?;
        let query = request.arguments.get("query").cloned().unwrap_or_default();
        let sources = FOUND.map(|(title, url, _)| json!({ "url": url, "title": title }));
        let found = (1..).zip(FOUND);
        let lines = found.map(|(n, (title, url, begin))| format!("[{n}] {title} ({url}): {begin}"));
        Ok(ToolOutput {
            structured: Some(json!({ "action": "search", "queries": [query], "sources": sources })),
            short: Some(format!("{} results", FOUND.len())),
            ..ToolOutput::text(lines.collect::<Vec<_>>().join("\n"))
        })
    }

    fn label(&self, arguments: &Map<String, Value>) -> Option<String> {
        Some(format!("“{}”", arguments.get("query")?.as_str()?))
    }
}

/// Waits as long as the tool would work.
async fn wait(context: &ToolContext, time: Duration) -> Result<(), &'static str> {
    tokio::select! {
        // Cancellation does not wait for the delay.
        () = context.cancelled() => Err(STOPPED),
        () = tokio::time::sleep(time) => Ok(()),
    }
}
