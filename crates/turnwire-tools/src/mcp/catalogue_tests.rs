//! What is cut and what is left out, and that it is always the same.

use serde_json::json;
use turnwire_contract::{LeftOut, ToolSpec};

use super::{CUT, MAX_DESCRIPTION, MAX_SERVER};
use crate::mcp::connection::ToolSpecs;

fn tool(n: usize, description: usize, schema: usize) -> ToolSpec {
    let parameters = json!({ "type": "object", "description": "s".repeat(schema) });
    ToolSpec { parameters, ..ToolSpec::new(format!("tool_{n}"), "é".repeat(description / 2)) }
}

fn bounded(tools: impl IntoIterator<Item = ToolSpec>) -> (ToolSpecs, LeftOut) {
    let mut left_out = LeftOut::default();
    let kept = super::bounded("docs", tools.into_iter().map(Ok), &mut left_out);
    (kept, left_out)
}

/// A19: a long description is cut between two characters, and says so.
#[test]
fn a_long_description_is_cut() {
    let tools = [tool(1, MAX_DESCRIPTION, 0), tool(2, 10 * MAX_DESCRIPTION, 0)];
    let (kept, left_out) = bounded(tools.clone());
    assert!(left_out.is_empty());
    assert_eq!(*kept[0], tools[0]);
    assert!(kept[1].description.len() <= MAX_DESCRIPTION, "{}", kept[1].description.len());
    assert!(kept[1].description.ends_with(CUT));
    assert!(kept[1].description.starts_with("éé"));
}

/// A19: a tool that is too large is left out, which is said, and the others stay.
#[test]
fn a_tool_that_is_too_large_is_left_out() {
    let tools = [tool(1, 10, 0), tool(2, 10, 64 * 1024), tool(3, 10, 63 * 1024)];
    let (kept, left_out) = bounded(tools);
    let names: Vec<&str> = kept.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["tool_1", "tool_3"]);
    let why = "its name, title, description and schema have more than 64 KiB";
    assert_eq!(left_out.to_string(), format!("tool_2 ({why})"));
}

/// A19: of ten times as much as a server may list, its first tools are kept, the same each time.
#[test]
fn a_server_lists_a_megabyte() {
    let tools = || (0..900).map(|n| tool(n, 32 * 1024, 8 * 1024));
    let (kept, left_out) = bounded(tools());
    let n_bytes: usize = kept.iter().map(|spec| spec.catalogue_bytes()).sum();
    assert!(n_bytes <= MAX_SERVER && n_bytes > MAX_SERVER - 16 * 1024, "{n_bytes}");
    let first: Vec<ToolSpec> = tools().take(kept.len()).collect();
    assert!(kept.iter().zip(&first).all(|(kept, listed)| kept.name == listed.name));
    assert_eq!(left_out.tools.len(), 900 - kept.len());
    assert_eq!(left_out.tools[0].name, format!("tool_{}", kept.len()));
    assert_eq!(left_out.tools[0].reason, "the tools before it take the 1 MiB of a server");
    assert_eq!((kept, left_out), bounded(tools()));
}
