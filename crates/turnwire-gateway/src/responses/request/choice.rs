//! Whether the model must, may or must not use tools, and which of them stay on offer.
//!
//! Tools that `allowed_tools` leaves out are not offered at all: what the model does not know
//! it cannot call.

use serde_json::Value;
use turnwire_contract::{ToolChoice, ToolKind, ToolSpec};

use super::{
    error::{ClientError, shown},
    fields::{Fields, known_word},
    tools::{FILE_SEARCH, McpWish, ToolWish, WEB_SEARCH, is_web_search},
    unread::Unread,
};

/// Reads the field `tool_choice` of a request. Returns the choice, and those of the `wishes`
/// that stay on offer.
///
/// `own` are the names of functions that the server offers by itself; they may be chosen too.
pub fn read_choice(
    tool_choice: Option<&Value>,
    wishes: Vec<ToolWish>,
    own: &[&str],
) -> Result<(ToolChoice, Vec<ToolWish>), ClientError> {
    const PATH: &str = "tool_choice";
    let unread = Unread::default();
    match tool_choice {
        None | Some(Value::Null) => Ok((ToolChoice::Auto, wishes)),
        Some(Value::String(word)) => {
            let word = known_word(word, PATH, &["none", "auto", "required"])?;
            Ok((choice_of(word), wishes))
        }
        Some(object @ Value::Object(_)) => {
            let choice = Fields::of(object, PATH, &unread)?;
            let read = read_object(&choice, wishes, own)?;
            choice.refuse_others(&[])?;
            Ok(read)
        }
        Some(other) => Err(ClientError::wrong_type(PATH, "a string or an object", other)),
    }
}

/// Whether a request counts on the web search: its `tool_choice` names it.
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
    wishes: Vec<ToolWish>,
    own: &[&str],
) -> Result<(ToolChoice, Vec<ToolWish>), ClientError> {
    if choice.needed_text("type")? == "allowed_tools" {
        return read_allowed(choice, &wishes, own);
    }
    match find(choice, &wishes, own)? {
        Named::Own(name) => Ok((ToolChoice::Named { name }, wishes)),
        Named::Wish(wish) => match wish {
            ToolWish::Function(spec) => {
                let name = spec.name.clone();
                Ok((ToolChoice::Named { name }, wishes))
            }
            ToolWish::WebSearch { .. } => Ok((named(WEB_SEARCH), wishes)),
            ToolWish::FileSearch { .. } => Ok((named(FILE_SEARCH), wishes)),
            ToolWish::Mcp(server) => match choice.text("name")? {
                Some(name) => {
                    let name = name_on_offer(server, name, &wishes);
                    Ok((ToolChoice::Named { name }, wishes))
                }
                // No single name stands for a server, so nothing else is offered.
                None => Ok((ToolChoice::Required, vec![ToolWish::Mcp(server.clone())])),
            },
        },
    }
}

fn named(name: &str) -> ToolChoice {
    ToolChoice::Named { name: name.to_owned() }
}

/// What the model will know a server's tool by: the engine puts the label before a name that
/// another tool has.
fn name_on_offer(server: &McpWish, name: &str, wishes: &[ToolWish]) -> String {
    let is_taken = wishes.iter().any(|wish| match wish {
        ToolWish::Function(spec) => spec.name == name,
        ToolWish::WebSearch { .. } => name == WEB_SEARCH,
        ToolWish::FileSearch { .. } => name == FILE_SEARCH,
        ToolWish::Mcp(_) => false,
    });
    if is_taken { format!("{}__{name}", server.label) } else { name.to_owned() }
}

fn read_allowed(
    choice: &Fields<'_>,
    wishes: &[ToolWish],
    own: &[&str],
) -> Result<(ToolChoice, Vec<ToolWish>), ClientError> {
    let mode = choice.word("mode", &["none", "auto", "required"])?.unwrap_or("auto");
    let tools = choice.list("tools")?;
    let tools = tools.ok_or_else(|| ClientError::missing(choice.path_of("tools")))?;
    let mut offered: Vec<ToolWish> = Vec::new();
    for (path, tool) in tools {
        let tool = choice.inner(tool, &path)?;
        let Named::Wish(wish) = find(&tool, wishes, own)? else { continue };
        let narrowed = match wish {
            ToolWish::Mcp(server) => ToolWish::Mcp(narrowed(server, tool.owned_text("name")?)),
            other => other.clone(),
        };
        add(&mut offered, narrowed);
    }
    Ok((choice_of(mode), offered))
}

fn narrowed(server: &McpWish, name: Option<String>) -> McpWish {
    let allowed = name.map(|name| vec![name]).or_else(|| server.allowed.clone());
    McpWish { allowed, ..server.clone() }
}

/// Several tools of one server are one wish.
fn add(offered: &mut Vec<ToolWish>, wish: ToolWish) {
    if let ToolWish::Mcp(new) = &wish {
        let same = offered.iter_mut().find_map(|wish| match wish {
            ToolWish::Mcp(server) if server.label == new.label => Some(server),
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
    if !offered.contains(&wish) {
        offered.push(wish);
    }
}

/// What a choice names.
enum Named<'a> {
    Wish(&'a ToolWish),
    /// A function that the server offers by itself.
    Own(String),
}

fn find<'a>(
    choice: &Fields<'_>,
    wishes: &'a [ToolWish],
    own: &[&str],
) -> Result<Named<'a>, ClientError> {
    let kind = choice.needed_text("type")?;
    let find = |is_it: &dyn Fn(&ToolWish) -> bool| wishes.iter().find(|wish| is_it(wish));
    let (found, what) = match kind {
        "function" | "custom" => {
            let name = choice.needed_text("name")?;
            let is_custom = kind == "custom";
            let is_named = |spec: &ToolSpec| {
                let own_name = spec.reference().own_name() == name;
                (spec.name == name || own_name) && (spec.kind == ToolKind::Custom) == is_custom
            };
            let is_it =
                |wish: &ToolWish| matches!(wish, ToolWish::Function(spec) if is_named(spec));
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
            let has = |server: &McpWish| match (&server.allowed, name) {
                (Some(allowed), Some(name)) => allowed.iter().any(|known| known == name),
                _ => true,
            };
            let is_it = |wish: &ToolWish| matches!(wish, ToolWish::Mcp(server) if server.label == label && has(server));
            let tool = name.map(|name| format!("tool `{}` on the ", shown(name)));
            let tool = tool.unwrap_or_default();
            (find(&is_it), format!("{tool}server `{}`", shown(label)))
        }
        FILE_SEARCH => {
            let is_it = |wish: &ToolWish| matches!(wish, ToolWish::FileSearch { .. });
            (find(&is_it), "file search".to_owned())
        }
        _ if is_web_search(kind) => {
            let is_it = |wish: &ToolWish| matches!(wish, ToolWish::WebSearch { .. });
            (find(&is_it), "web search".to_owned())
        }
        _ => {
            let message = format!("Tools of the type `{}` are not supported.", shown(kind));
            return Err(ClientError::new("unsupported_tool", choice.path_of("type"), message));
        }
    };
    found.map(Named::Wish).ok_or_else(|| {
        let message = format!("There is no {what} among the tools of this request.");
        ClientError::new("tool_not_found", choice.path(), message)
    })
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
