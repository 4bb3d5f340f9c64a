//! Reads `tool_choice`: whether the model must, may or must not call tools, and which ones.
//!
//! Tools that `allowed_tools` excludes are not offered at all, so the model cannot call them.

use serde_json::Value;
use turnwire_contract::{ToolChoice, ToolKind, ToolSpec};

use super::tools::{FILE_SEARCH, RequestedServer, RequestedTool, WEB_SEARCH, is_web_search};
use crate::{
    client_error::{ClientError, shown},
    field_tracker::FieldTracker,
    fields::{Fields, known_word},
};

/// Reads the field `tool_choice` of a request. Returns the choice, and those of the
/// `requested_tools` that stay on offer.
///
/// `own` are the names of functions that the server itself offers; they may be chosen too.
pub fn read_choice(
    tool_choice: Option<&Value>,
    requested_tools: Vec<RequestedTool>,
    own: &[&str],
) -> Result<(ToolChoice, Vec<RequestedTool>), ClientError> {
    const PATH: &str = "tool_choice";
    let unread = FieldTracker::default();
    match tool_choice {
        None | Some(Value::Null) => Ok((ToolChoice::Auto, requested_tools)),
        Some(Value::String(word)) => {
            let word = known_word(word, PATH, &["none", "auto", "required"])?;
            Ok((choice_of(word), requested_tools))
        }
        Some(object @ Value::Object(_)) => {
            let choice = Fields::of(object, PATH, &unread)?;
            let read = read_object(&choice, requested_tools, own)?;
            choice.refuse_others(&[])?;
            Ok(read)
        }
        Some(other) => Err(ClientError::wrong_type(PATH, "a string or an object", other)),
    }
}

/// Whether `tool_choice` names the web search.
pub fn names_web_search(tool_choice: Option<&Value>) -> bool {
    let is_it = |tool: &Value| tool.get("type").and_then(Value::as_str).is_some_and(is_web_search);
    let Some(choice) = tool_choice else { return false };
    let listed = choice.get("tools").and_then(Value::as_array);
    is_it(choice) || listed.is_some_and(|tools| tools.iter().any(is_it))
}

fn choice_of(word: &str) -> ToolChoice {
    match word {
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        _ => ToolChoice::Auto,
    }
}

fn read_object(
    choice: &Fields<'_>,
    requested_tools: Vec<RequestedTool>,
    own: &[&str],
) -> Result<(ToolChoice, Vec<RequestedTool>), ClientError> {
    if choice.needed_text("type")? == "allowed_tools" {
        return read_allowed(choice, &requested_tools, own);
    }
    match find(choice, &requested_tools, own)? {
        Named::Own(name) => Ok((ToolChoice::Named { name }, requested_tools)),
        Named::Requested(requested) => match requested {
            RequestedTool::Function(spec) => {
                let name = spec.name.clone();
                Ok((ToolChoice::Named { name }, requested_tools))
            }
            RequestedTool::WebSearch { .. } => Ok((named(WEB_SEARCH), requested_tools)),
            RequestedTool::FileSearch { .. } => Ok((named(FILE_SEARCH), requested_tools)),
            RequestedTool::Mcp(server) => match choice.text("name")? {
                Some(name) => {
                    let name = name_on_offer(server, name, &requested_tools);
                    Ok((ToolChoice::Named { name }, requested_tools))
                }
                // A server has no single tool name, so only its tools are offered.
                None => Ok((ToolChoice::Required, vec![RequestedTool::Mcp(server.clone())])),
            },
        },
    }
}

fn named(name: &str) -> ToolChoice {
    ToolChoice::Named { name: name.to_owned() }
}

/// The name under which the model gets a tool of a server: the engine prefixes the label if another
/// tool has the same name.
fn name_on_offer(
    server: &RequestedServer,
    name: &str,
    requested_tools: &[RequestedTool],
) -> String {
    let is_taken = requested_tools.iter().any(|requested| match requested {
        RequestedTool::Function(spec) => spec.name == name,
        RequestedTool::WebSearch { .. } => name == WEB_SEARCH,
        RequestedTool::FileSearch { .. } => name == FILE_SEARCH,
        RequestedTool::Mcp(_) => false,
    });
    if is_taken { format!("{}__{name}", server.label) } else { name.to_owned() }
}

fn read_allowed(
    choice: &Fields<'_>,
    requested_tools: &[RequestedTool],
    own: &[&str],
) -> Result<(ToolChoice, Vec<RequestedTool>), ClientError> {
    let mode = choice.word("mode", &["none", "auto", "required"])?.unwrap_or("auto");
    let tools = choice.list("tools")?;
    let tools = tools.ok_or_else(|| ClientError::missing(choice.path_of("tools")))?;
    let mut offered: Vec<RequestedTool> = Vec::new();
    for (path, tool) in tools {
        let tool = choice.inner(tool, &path)?;
        let Named::Requested(requested) = find(&tool, requested_tools, own)? else { continue };
        let narrowed = match requested {
            RequestedTool::Mcp(server) => {
                RequestedTool::Mcp(narrowed(server, tool.owned_text("name")?))
            }
            other => other.clone(),
        };
        add(&mut offered, narrowed);
    }
    Ok((choice_of(mode), offered))
}

fn narrowed(server: &RequestedServer, name: Option<String>) -> RequestedServer {
    let allowed = name.map(|name| vec![name]).or_else(|| server.allowed.clone());
    RequestedServer { allowed, ..server.clone() }
}

/// Adds a tool, merging entries of the same server.
fn add(offered: &mut Vec<RequestedTool>, requested: RequestedTool) {
    if let RequestedTool::Mcp(new) = &requested {
        let same = offered.iter_mut().find_map(|requested| match requested {
            RequestedTool::Mcp(server) if server.label == new.label => Some(server),
            _ => None,
        });
        if let Some(server) = same {
            server.allowed = match (server.allowed.take(), &new.allowed) {
                (Some(mut names), Some(more)) => {
                    names.extend(more.iter().cloned());
                    Some(names)
                }
                _ => None,
            };
            return;
        }
    }
    if !offered.contains(&requested) {
        offered.push(requested);
    }
}

/// The tool that a choice names.
enum Named<'a> {
    Requested(&'a RequestedTool),
    /// A function that the server itself offers.
    Own(String),
}

fn find<'a>(
    choice: &Fields<'_>,
    requested_tools: &'a [RequestedTool],
    own: &[&str],
) -> Result<Named<'a>, ClientError> {
    let kind = choice.needed_text("type")?;
    let find = |is_it: &dyn Fn(&RequestedTool) -> bool| {
        requested_tools.iter().find(|requested| is_it(requested))
    };
    let (found, what) = match kind {
        "function" | "custom" => {
            let name = choice.needed_text("name")?;
            let is_custom = kind == "custom";
            let is_named = |spec: &ToolSpec| {
                let own_name = spec.reference().own_name() == name;
                (spec.name == name || own_name) && (spec.kind == ToolKind::Custom) == is_custom
            };
            let is_it = |requested: &RequestedTool| matches!(requested, RequestedTool::Function(spec) if is_named(spec));
            let found = find(&is_it);
            if found.is_none() && own.contains(&name) && !is_custom {
                return Ok(Named::Own(name.to_owned()));
            }
            let what = if is_custom { "custom tool" } else { "function" };
            (found, format!("{what} `{}`", shown(name)))
        }
        "mcp" => {
            let label = choice.needed_text("server_label")?;
            let name = choice.text("name")?;
            let has = |server: &RequestedServer| match (&server.allowed, name) {
                (Some(allowed), Some(name)) => allowed.iter().any(|known| known == name),
                _ => true,
            };
            let is_it = |requested: &RequestedTool| matches!(requested, RequestedTool::Mcp(server) if server.label == label && has(server));
            let tool = name.map(|name| format!("tool `{}` on the ", shown(name)));
            let tool = tool.unwrap_or_default();
            (find(&is_it), format!("{tool}server `{}`", shown(label)))
        }
        FILE_SEARCH => {
            let is_it =
                |requested: &RequestedTool| matches!(requested, RequestedTool::FileSearch { .. });
            (find(&is_it), "file search".to_owned())
        }
        _ if is_web_search(kind) => {
            let is_it =
                |requested: &RequestedTool| matches!(requested, RequestedTool::WebSearch { .. });
            (find(&is_it), "web search".to_owned())
        }
        _ => {
            let message = format!("Tools of the type `{}` are not supported.", shown(kind));
            return Err(ClientError::new("unsupported_tool", choice.path_of("type"), message));
        }
    };
    found.map(Named::Requested).ok_or_else(|| {
        let message = format!("There is no {what} among the tools of this request.");
        ClientError::new("tool_not_found", choice.path(), message)
    })
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
