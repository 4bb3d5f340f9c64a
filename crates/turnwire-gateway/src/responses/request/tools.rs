//! Reads the tools of a request.
//!
//! A requested tool is not yet resolved: the caller knows which servers and searches are
//! configured. The type decides what a tool is, never its name: a client function named
//! `web_search` is a client function (S1-A1). The one exception is a function with nothing but a
//! name: see [`functions_by_name`].

use std::collections::HashSet;

use axum::http::{HeaderName, HeaderValue};
use serde_json::Value;
use turnwire_contract::{
    AskBefore, InputFormat, SecretText, ServerSecrets, ToolKind, ToolRef, ToolSpec, partial_debug,
};
use turnwire_engine::{SchemaTooComplex, check_schema};

use super::parts::is_web_address;
use crate::{
    client_error::{ClientError, shown},
    field_tracker::FieldTracker,
    fields::Fields,
    limits::RequestLimits,
};

/// Name of the built-in web search for the model.
pub const WEB_SEARCH: &str = "web_search";

/// Name of the built-in file search for the model.
pub const FILE_SEARCH: &str = "file_search";

/// Type of the search for deferred tools of a client.
const TOOL_SEARCH: &str = "tool_search";

/// Maximum size of the headers for one server, with their names.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Headers for a server that a request cannot supply: those of the protocol and of the connection.
const RESERVED_HEADERS: [&str; 15] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a few, and only while a request is read")]
pub enum RequestedTool {
    /// A function or a custom tool that the client executes.
    Function(ToolSpec),
    Mcp(RequestedServer),
    /// The built-in web search.
    WebSearch {
        /// The fields of the tool, without the type.
        settings: Value,
        /// Path in the request, such as `tools[1]`.
        param: String,
    },
    /// The built-in file search.
    FileSearch {
        /// The fields of the tool, without the type.
        settings: Value,
        /// Path in the request, such as `tools[1]`.
        param: String,
    },
}

/// A requested MCP server.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestedServer {
    pub label: String,
    /// URL of the server, if the client sent one. May contain a secret.
    pub url: Option<String>,
    /// Names of the tools to offer; `None` for all of them.
    pub allowed: Option<Vec<String>>,
    /// Tools whose calls need an approval; `None` if the client does not say.
    pub ask_before: Option<AskBefore>,
    /// Headers that the client sent for it, one of which may have a token.
    pub secrets: ServerSecrets,
    /// Path in the request, such as `tools[1]`.
    pub param: String,
}

// Without the URL, which may contain a secret.
partial_debug!(RequestedServer { label, allowed, ask_before, secrets });

impl RequestedTool {
    /// Name for finding duplicates.
    fn name(&self) -> String {
        match self {
            Self::Function(spec) => spec.name.clone(),
            Self::Mcp(server) => format!("server {}", server.label),
            Self::WebSearch { .. } => WEB_SEARCH.to_owned(),
            Self::FileSearch { .. } => FILE_SEARCH.to_owned(),
        }
    }
}

/// A tool as the client sent it, and its path in the request.
pub type PlacedTool<'a> = (String, &'a Value);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestedTools {
    pub tools: Vec<RequestedTool>,
    /// The fields that were ignored.
    pub ignored: Vec<String>,
}

/// Reads the tools of a request.
pub fn read_tools(
    tools: &[PlacedTool<'_>],
    limits: &RequestLimits,
) -> Result<RequestedTools, ClientError> {
    let unread = FieldTracker::within(limits);
    let mut reader = ToolsReader { max_tools: limits.tools, ..ToolsReader::default() };
    let is_namespace = |tool: &Value| tool.get("type").and_then(Value::as_str) == Some("namespace");
    for (path, tool) in tools.iter().filter(|(_, tool)| !is_namespace(tool)) {
        if let Some(requested) = read_tool(&Fields::of(tool, path, &unread)?)? {
            reader.add(requested, path)?;
        }
    }
    // Read last, so that a tool in a namespace gets another name if its own is taken.
    for (path, namespace) in tools.iter().filter(|(_, tool)| is_namespace(tool)) {
        reader.read_namespace(&Fields::of(namespace, path, &unread)?)?;
    }
    let ToolsReader { requested_tools, .. } = reader;
    Ok(RequestedTools { tools: requested_tools, ignored: unread.left() })
}

/// The functions of a request that have nothing but a name. They refer to a configured function of
/// the server, if there is one of that name. A function with a description or parameters is always
/// the client's own.
pub fn functions_by_name(tools: &[Value]) -> HashSet<&str> {
    let says = |tool: &Value, field: &str| tool.get(field).is_some_and(|value| !value.is_null());
    let is_only_named = |tool: &&Value| {
        tool.get("type").and_then(Value::as_str) == Some("function")
            && !says(tool, "description")
            && !says(tool, "parameters")
    };
    let bare = tools.iter().filter(is_only_named);
    bare.filter_map(|tool| tool.get("name").and_then(Value::as_str)).collect()
}

#[derive(Default)]
struct ToolsReader {
    max_tools: usize,
    requested_tools: Vec<RequestedTool>,
    names: HashSet<String>,
}

impl ToolsReader {
    fn add(&mut self, requested: RequestedTool, path: &str) -> Result<(), ClientError> {
        let name = requested.name();
        if self.names.contains(&name) {
            let message = format!("There are two tools with the name `{name}`.");
            return Err(ClientError::new("duplicate_tool", path, message));
        }
        if self.requested_tools.len() == self.max_tools {
            let message = format!("There may be at most {} tools.", self.max_tools);
            return Err(ClientError::new("too_many_tools", "tools", message));
        }
        self.names.insert(name);
        self.requested_tools.push(requested);
        Ok(())
    }

    /// Reads a namespace. Its tools are offered under their own names if these are free.
    fn read_namespace(&mut self, namespace: &Fields<'_>) -> Result<(), ClientError> {
        namespace.pass_over(&["type"]);
        let space = namespace.needed_name("name")?;
        let description = namespace.text("description")?.unwrap_or_default();
        for (path, tool) in namespace.list("tools")?.into_iter().flatten() {
            let tool = namespace.inner(tool, &path)?;
            let mut spec = match tool.needed_text("type")? {
                "function" => read_function(&tool)?,
                "custom" => read_custom(&tool)?,
                _ => return Err(unsupported(&tool)?),
            };
            // A name that already starts with the namespace gets another prefix, to stay
            // unambiguous.
            let is_taken = self.names.contains(&spec.name)
                || ToolRef::own_name_of(&spec.name, space) != spec.name;
            if is_taken {
                let longer = format!("{space}__{}", spec.name);
                spec.name = if is_name(&longer) { longer } else { spec.name };
            }
            spec.server = Some(space.to_owned());
            description.clone_into(&mut spec.namespace_description);
            self.add(RequestedTool::Function(spec), &path)?;
        }
        Ok(())
    }
}

fn read_tool(tool: &Fields<'_>) -> Result<Option<RequestedTool>, ClientError> {
    let kind = tool.needed_text("type")?;
    Ok(Some(match kind {
        "function" => RequestedTool::Function(read_function(tool)?),
        "custom" => RequestedTool::Function(read_custom(tool)?),
        "mcp" => RequestedTool::Mcp(read_server(tool)?),
        FILE_SEARCH => read_file_search(tool)?,
        TOOL_SEARCH => {
            // Agents send it together with the tools it would find, and work without it.
            tool.all();
            tool.report("");
            return Ok(None);
        }
        _ if is_web_search(kind) => read_web_search(tool)?,
        _ => return Err(unsupported(tool)?),
    }))
}

/// All versions of the web search are treated alike.
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
    let mut spec = ToolSpec::new(name, description);
    spec.kind = ToolKind::Client;
    spec.strict = tool.flag("strict")?;
    if let Some(parameters) = tool.object("parameters")? {
        spec.parameters = checked_schema(&parameters)?;
    }
    Ok(spec)
}

fn read_custom(tool: &Fields<'_>) -> Result<ToolSpec, ClientError> {
    let name = checked_name(tool, "name")?;
    let description = tool.text("description")?.unwrap_or_default();
    let mut spec = ToolSpec::new(name, description);
    spec.kind = ToolKind::Custom;
    spec.format = tool.object("format")?.map(|format| read_input_format(&format)).transpose()?;
    Ok(spec)
}

fn read_input_format(format: &Fields<'_>) -> Result<InputFormat, ClientError> {
    let kind = format.word("type", &["text", "grammar"])?;
    if kind.ok_or_else(|| ClientError::missing(format.path_of("type")))? == "text" {
        return Ok(InputFormat::Text);
    }
    let syntax = format.word("syntax", &["lark", "regex"])?;
    let syntax = syntax.ok_or_else(|| ClientError::missing(format.path_of("syntax")))?;
    let definition = format.needed_name("definition")?;
    check_length(definition.len(), format, &format.path_of("definition"))?;
    let (syntax, definition) = (syntax.to_owned(), definition.to_owned());
    Ok(InputFormat::Grammar { syntax, definition })
}

/// A name that every provider accepts.
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

/// A JSON schema within the limits.
pub(super) fn checked_schema(schema: &Fields<'_>) -> Result<Value, ClientError> {
    let (value, path) = (Value::Object(schema.all().clone()), schema.path());
    check_length(value.to_string().len(), schema, path)?;
    match check_schema(&value) {
        // The operator has allowed longer ones, which are for the model and the client alone.
        Ok(()) | Err(SchemaTooComplex::Bytes) => Ok(value),
        Err(error) => {
            let message = format!("`{path}` is too complex: {error}.");
            Err(ClientError::new("schema_too_complex", path, message))
        }
    }
}

fn check_length(n_bytes: usize, fields: &Fields<'_>, path: &str) -> Result<(), ClientError> {
    let most = fields.limits().schema_bytes;
    if n_bytes > most {
        let message = format!("`{path}` may have at most {most} bytes, not {n_bytes}.");
        return Err(ClientError::new("schema_too_large", path, message));
    }
    Ok(())
}

fn read_file_search(tool: &Fields<'_>) -> Result<RequestedTool, ClientError> {
    tool.texts("vector_store_ids")?;
    tool.whole("max_num_results", 1..=50)?;
    tool.value("filters");
    if let Some(ranking) = tool.object("ranking_options")? {
        ranking.number("score_threshold", 0.0..=1.0)?;
    }
    Ok(RequestedTool::FileSearch { settings: settings_of(tool), param: tool.path().to_owned() })
}

fn read_web_search(tool: &Fields<'_>) -> Result<RequestedTool, ClientError> {
    tool.word("search_context_size", &["low", "medium", "high"])?;
    tool.flag("external_web_access")?;
    if let Some(filters) = tool.object("filters")? {
        filters.texts("allowed_domains")?;
        filters.texts("blocked_domains")?;
    }
    if let Some(location) = tool.object("user_location")? {
        location.pass_over(&["type"]);
        location.text("country")?;
    }
    Ok(RequestedTool::WebSearch { settings: settings_of(tool), param: tool.path().to_owned() })
}

/// The fields of a search tool, without its type.
fn settings_of(tool: &Fields<'_>) -> Value {
    let mut settings = tool.as_written().clone();
    settings.shift_remove("type");
    Value::Object(settings)
}

fn read_server(tool: &Fields<'_>) -> Result<RequestedServer, ClientError> {
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
    Ok(RequestedServer {
        label: label.to_owned(),
        url: read_address(tool)?,
        allowed: read_allowed(tool)?,
        ask_before: read_ask_before(tool)?,
        secrets: read_secrets(tool)?,
        param: tool.path().to_owned(),
    })
}

/// Reads `headers`, and `authorization` as the header of that name. Errors do not have the values.
fn read_secrets(tool: &Fields<'_>) -> Result<ServerSecrets, ClientError> {
    let mut secrets = ServerSecrets::default();
    let mut n_bytes = 0;
    let mut add = |path: String, name: &str, value: String| {
        let refuse = |why: &str| Err(ClientError::invalid(&*path, format!("`{path}` {why}")));
        n_bytes += name.len() + value.len();
        if n_bytes > MAX_HEADER_BYTES {
            return refuse(&format!("and others have more than {MAX_HEADER_BYTES} bytes."));
        }
        if HeaderName::try_from(name).is_err() || HeaderValue::try_from(&value).is_err() {
            return refuse("is not a valid header of HTTP.");
        }
        if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return refuse("is a header that this server sets.");
        }
        if !secrets.add(name, SecretText::new(value)) {
            return refuse("is there twice.");
        }
        Ok(())
    };
    if let Some(headers) = tool.object("headers")? {
        for name in headers.all().keys() {
            if let Some(value) = headers.text(name)? {
                add(headers.path_of(&shown(name)), name, value.to_owned())?;
            }
        }
    }
    if let Some(token) = tool.text("authorization")? {
        let token = token.trim();
        let token = token.strip_prefix("Bearer ").unwrap_or(token);
        add(tool.path_of("authorization"), "authorization", format!("Bearer {token}"))?;
    }
    Ok(secrets)
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

/// An array of names, or an object with one.
fn read_allowed(tool: &Fields<'_>) -> Result<Option<Vec<String>>, ClientError> {
    let Some(Value::Object(_)) = tool.value("allowed_tools") else {
        return tool.texts("allowed_tools");
    };
    let Some(filter) = tool.object("allowed_tools")? else { return Ok(None) };
    if filter.flag("read_only")? == Some(true) {
        let path = filter.path_of("read_only");
        let message =
            "Tools cannot be selected by the annotations of the server; list them by name.";
        return Err(ClientError::new("unsupported_value", path, message));
    }
    filter.texts("tool_names")
}

/// The tools that one half of an approval filter covers.
enum ToolFilter {
    Nothing,
    These(Vec<String>),
    Everything,
}

/// Reads `"always"`, `"never"`, or an object with both. Tools it does not cover need an approval;
/// so do tools selected as read-only, because only the server says which those are.
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
    let always = read_half(&filter, "always", ToolFilter::Everything)?;
    let never = read_half(&filter, "never", ToolFilter::These(Vec::new()))?;
    Ok(Some(match (always, never) {
        (ToolFilter::Everything, _) | (ToolFilter::Nothing, ToolFilter::Nothing) => {
            AskBefore::Everything
        }
        (ToolFilter::Nothing, ToolFilter::Everything) => AskBefore::Nothing,
        (ToolFilter::These(always), ToolFilter::Nothing | ToolFilter::Everything) => {
            AskBefore::Only(always)
        }
        (ToolFilter::Nothing, ToolFilter::These(never)) => AskBefore::AllBut(never),
        (ToolFilter::These(always), ToolFilter::These(mut never)) => {
            never.retain(|name| !always.contains(name));
            AskBefore::AllBut(never)
        }
    }))
}

fn read_half(
    filter: &Fields<'_>,
    name: &str,
    of_read_only: ToolFilter,
) -> Result<ToolFilter, ClientError> {
    let Some(half) = filter.object(name)? else { return Ok(ToolFilter::Nothing) };
    let names = half.texts("tool_names")?;
    if half.flag("read_only")?.is_some() {
        return Ok(of_read_only);
    }
    Ok(names.map_or(ToolFilter::Everything, ToolFilter::These))
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
