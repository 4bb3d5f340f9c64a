//! The tools a client wishes for, in our words.
//!
//! A wish is not yet a tool: which servers there are and which searches are set up is for the
//! caller to know. The type decides what a tool is, never its name: a function that the client
//! calls `web_search` is a function of the client (S1-A1). The one exception is a function that
//! is only named: see [`bare_functions`].

use std::{collections::HashSet, fmt};

use serde_json::{Value, json};
use turnwire_contract::{AskBefore, ToolKind, ToolSpec};

use super::{
    MAX_SCHEMA,
    error::{ClientError, shown},
    fields::{Fields, placed},
    parts::is_web_address,
};

/// How many tools one request may bring, those in namespaces counted one by one.
pub(super) const MAX_TOOLS: usize = 128;

/// What the model knows the built-in web search by.
pub const WEB_SEARCH: &str = "web_search";

/// What the model knows the built-in file search by.
pub const FILE_SEARCH: &str = "file_search";

/// A tool that the client wishes for.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolWish {
    /// A function that the client runs. If it comes from a namespace, its settings are
    /// `{"namespace": …, "name": …}`, in the client's words.
    Function(ToolSpec),
    /// The tools of a server.
    Mcp(McpWish),
    /// The built-in web search.
    WebSearch {
        /// What the client says about it, without the type.
        settings: Value,
    },
    /// The built-in file search.
    FileSearch {
        /// What the client says about it, without the type.
        settings: Value,
    },
}

/// A tool server that the client wishes for.
#[derive(Clone, PartialEq, Eq)]
pub struct McpWish {
    /// What the client calls it.
    pub label: String,
    /// Where it is, if the client says. May hold a secret.
    pub url: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Which of its tools are offered; all of them if not set.
    pub allowed: Option<Vec<String>>,
    /// Which of its tools a person must allow; not set where the client does not say.
    pub ask_before: Option<AskBefore>,
    /// Whether the client sent headers or a token for it. They are not kept.
    pub has_headers: bool,
    /// Where it stands in the request, such as `tools[1]`.
    pub param: String,
}

impl fmt::Debug for McpWish {
    /// Without the address, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpWish")
            .field("label", &self.label)
            .field("allowed", &self.allowed)
            .field("ask_before", &self.ask_before)
            .field("has_headers", &self.has_headers)
            .finish_non_exhaustive()
    }
}

impl ToolWish {
    /// Two wishes with the same name cannot be told apart.
    fn name(&self) -> String {
        match self {
            Self::Function(spec) => spec.name.clone(),
            Self::Mcp(server) => format!("server {}", server.label),
            Self::WebSearch { .. } => WEB_SEARCH.to_owned(),
            Self::FileSearch { .. } => FILE_SEARCH.to_owned(),
        }
    }
}

/// Reads the field `tools` of a request.
pub fn read_tools(tools: &[Value]) -> Result<Vec<ToolWish>, ClientError> {
    let mut reader = Reader::default();
    let (namespaces, others): (Vec<_>, Vec<_>) = placed(tools, "tools")
        .partition(|(_, tool)| tool.get("type").and_then(Value::as_str) == Some("namespace"));
    for (path, tool) in others {
        let wish = read_tool(&Fields::of(tool, &path)?)?;
        reader.add(wish, &path)?;
    }
    // They come last, so that a name that is taken gives way.
    for (path, namespace) in namespaces {
        reader.read_namespace(&Fields::of(namespace, &path)?)?;
    }
    Ok(reader.wishes)
}

/// The functions that a request names and says nothing else about: those of this server are meant,
/// where it has one of that name. Whoever describes a function means one of their own.
pub fn bare_functions(tools: &[Value]) -> HashSet<&str> {
    let says = |tool: &Value, field: &str| tool.get(field).is_some_and(|value| !value.is_null());
    let is_bare = |tool: &&Value| {
        tool.get("type").and_then(Value::as_str) == Some("function")
            && !says(tool, "description")
            && !says(tool, "parameters")
    };
    let bare = tools.iter().filter(is_bare);
    bare.filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect()
}

#[derive(Default)]
struct Reader {
    wishes: Vec<ToolWish>,
    names: HashSet<String>,
}

impl Reader {
    fn add(&mut self, wish: ToolWish, path: &str) -> Result<(), ClientError> {
        let name = wish.name();
        if self.names.contains(&name) {
            let message = format!("There are two tools with the name `{name}`.");
            return Err(ClientError::new("duplicate_tool", path, message));
        }
        if self.wishes.len() == MAX_TOOLS {
            let message = format!("There may be at most {MAX_TOOLS} tools.");
            return Err(ClientError::new("too_many_tools", "tools", message));
        }
        self.names.insert(name);
        self.wishes.push(wish);
        Ok(())
    }

    /// Functions in a namespace are offered under their own names where these are free.
    fn read_namespace(&mut self, namespace: &Fields<'_>) -> Result<(), ClientError> {
        let space = namespace.needed_name("name")?;
        for (path, tool) in namespace.list("tools")?.into_iter().flatten() {
            let tool = Fields::of(tool, &path)?;
            let "function" = tool.needed_text("type")? else { return Err(unsupported(&tool)?) };
            let mut spec = read_function(&tool)?;
            spec.settings = json!({ "namespace": space, "name": spec.name });
            if self.names.contains(&spec.name) {
                let longer = format!("{space}__{}", spec.name);
                spec.name = if is_name(&longer) { longer } else { spec.name };
            }
            self.add(ToolWish::Function(spec), &path)?;
        }
        Ok(())
    }
}

fn read_tool(tool: &Fields<'_>) -> Result<ToolWish, ClientError> {
    let kind = tool.needed_text("type")?;
    match kind {
        "function" => Ok(ToolWish::Function(read_function(tool)?)),
        "mcp" => Ok(ToolWish::Mcp(read_server(tool)?)),
        "file_search" => read_file_search(tool),
        _ if is_web_search(kind) => Ok(ToolWish::WebSearch { settings: settings_of(tool) }),
        _ => Err(unsupported(tool)?),
    }
}

/// All generations of the web search are one to us.
pub(super) fn is_web_search(kind: &str) -> bool {
    kind == WEB_SEARCH || kind == "web_search_2025_08_26" || kind.starts_with("web_search_preview")
}

fn unsupported(tool: &Fields<'_>) -> Result<ClientError, ClientError> {
    let kind = shown(tool.needed_text("type")?);
    let message = format!("Tools of the type `{kind}` are not supported.");
    Ok(ClientError::new("unsupported_tool", tool.path_of("type"), message))
}

fn read_function(tool: &Fields<'_>) -> Result<ToolSpec, ClientError> {
    let name = checked_name(tool, "name")?;
    let description = tool.text("description")?.unwrap_or_default();
    // Checked, and of no use to the model.
    tool.flag("strict")?;
    let mut spec = ToolSpec::new(name, description);
    spec.kind = ToolKind::Client;
    if let Some(parameters) = tool.object("parameters")? {
        spec.parameters = checked_schema(&parameters)?;
    }
    Ok(spec)
}

/// A name that every provider takes.
pub(super) fn checked_name(fields: &Fields<'_>, field: &str) -> Result<String, ClientError> {
    let name = fields.needed_text(field)?;
    if is_name(name) {
        return Ok(name.to_owned());
    }
    let path = fields.path_of(field);
    let message = format!(
        "`{path}` must have 1 to 64 letters, digits, underscores and dashes, and no others."
    );
    Err(ClientError::invalid(path, message))
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// A JSON Schema that is not too long.
pub(super) fn checked_schema(schema: &Fields<'_>) -> Result<Value, ClientError> {
    let value = Value::Object(schema.all().clone());
    let n_bytes = value.to_string().len();
    if n_bytes > MAX_SCHEMA {
        let path = schema.path();
        let message = format!("`{path}` may have at most {MAX_SCHEMA} bytes, not {n_bytes}.");
        return Err(ClientError::new("schema_too_large", path, message));
    }
    Ok(value)
}

fn read_file_search(tool: &Fields<'_>) -> Result<ToolWish, ClientError> {
    tool.texts("vector_store_ids")?;
    tool.whole("max_num_results", 1..=50)?;
    Ok(ToolWish::FileSearch { settings: settings_of(tool) })
}

fn settings_of(tool: &Fields<'_>) -> Value {
    let mut settings = tool.all().clone();
    settings.shift_remove("type");
    Value::Object(settings)
}

fn read_server(tool: &Fields<'_>) -> Result<McpWish, ClientError> {
    for name in ["connector_id", "tunnel_id"] {
        if tool.value(name).is_some() {
            let path = tool.path_of(name);
            let message = format!("`{path}` is not supported; name a server by `server_label`.");
            return Err(ClientError::new("unsupported_tool", path, message));
        }
    }
    let label = tool.needed_name("server_label")?;
    if label.chars().count() > 64 || label.chars().any(char::is_control) {
        let path = tool.path_of("server_label");
        let message = format!("`{path}` may have at most 64 characters, all of them visible.");
        return Err(ClientError::invalid(path, message));
    }
    Ok(McpWish {
        label: label.to_owned(),
        url: read_address(tool)?,
        description: tool.owned_text("server_description")?,
        allowed: read_allowed(tool)?,
        ask_before: read_ask_before(tool)?,
        has_headers: has_headers(tool)?,
        param: tool.path().to_owned(),
    })
}

fn has_headers(tool: &Fields<'_>) -> Result<bool, ClientError> {
    let headers = tool.object("headers")?.is_some_and(|headers| !headers.all().is_empty());
    Ok(headers || tool.text("authorization")?.is_some())
}

fn read_address(tool: &Fields<'_>) -> Result<Option<String>, ClientError> {
    let Some(url) = tool.text("server_url")? else { return Ok(None) };
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !is_web_address(url) || host.is_empty() || host.contains('@') {
        let path = tool.path_of("server_url");
        let message = format!("`{path}` must be an http address without a user or password.");
        return Err(ClientError::invalid(path, message));
    }
    Ok(Some(url.to_owned()))
}

/// A list of names, or an object with one.
fn read_allowed(tool: &Fields<'_>) -> Result<Option<Vec<String>>, ClientError> {
    let Some(Value::Object(_)) = tool.value("allowed_tools") else {
        return tool.texts("allowed_tools");
    };
    let Some(filter) = tool.object("allowed_tools")? else { return Ok(None) };
    if filter.flag("read_only")? == Some(true) {
        let path = filter.path_of("read_only");
        let message = "Tools cannot be chosen by what a server says about them; name them.";
        return Err(ClientError::new("unsupported_value", path, message));
    }
    filter.texts("tool_names")
}

/// Which tools one half of an approval filter means.
enum Means {
    Nothing,
    These(Vec<String>),
    Everything,
}

/// `"always"`, `"never"`, or an object with both. Where it leaves a tool open, a person is
/// asked; likewise where it speaks of read-only tools, because only a server's word says which
/// those are.
fn read_ask_before(tool: &Fields<'_>) -> Result<Option<AskBefore>, ClientError> {
    const NAME: &str = "require_approval";
    if tool.value(NAME).is_some_and(|value| !value.is_object()) {
        let word = tool.word(NAME, &["always", "never"])?;
        return Ok(word.map(|word| match word {
            "never" => AskBefore::Nothing,
            _ => AskBefore::Everything,
        }));
    }
    let Some(filter) = tool.object(NAME)? else { return Ok(None) };
    let always = read_half(&filter, "always", Means::Everything)?;
    let never = read_half(&filter, "never", Means::These(Vec::new()))?;
    Ok(Some(match (always, never) {
        (Means::Everything, _) | (Means::Nothing, Means::Nothing) => AskBefore::Everything,
        (Means::Nothing, Means::Everything) => AskBefore::Nothing,
        (Means::These(always), Means::Nothing | Means::Everything) => AskBefore::Only(always),
        (Means::Nothing, Means::These(never)) => AskBefore::AllBut(never),
        (Means::These(always), Means::These(mut never)) => {
            never.retain(|name| !always.contains(name));
            AskBefore::AllBut(never)
        }
    }))
}

fn read_half(filter: &Fields<'_>, name: &str, of_read_only: Means) -> Result<Means, ClientError> {
    let Some(half) = filter.object(name)? else { return Ok(Means::Nothing) };
    let names = half.texts("tool_names")?;
    if half.flag("read_only")?.is_some() {
        return Ok(of_read_only);
    }
    Ok(names.map_or(Means::Everything, Means::These))
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
