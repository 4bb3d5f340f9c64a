//! `[mcp_servers.*]`: MCP servers, started as programs or reached by URL.
//!
//! Commands come only from the settings and the files that they name. No request, store or variable
//! can set one (A8).

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::Deserialize;
use toml::{Table, Value};
use turnwire_contract::{AskBefore, Effect};
use turnwire_engine::{Access, ServerAccess};
use turnwire_tools::{McpServerOptions, McpToolOptions, McpTransport, Secret};

use super::{
    file::{RawTable, read_table, table_of},
    tool_server_login::{NamedLogin, named_login},
    words::{access_of, did_you_mean, is_http_url, not_a_url, not_set, tenants_of},
};
use crate::environment::Environment;

/// Maximum length of a server name.
const MAX_LABEL: usize = 64;
/// Example URL for error messages.
const EXAMPLE_URL: &str = "https://docs.example.com/mcp";
pub(super) const EFFECTS: [(&str, Effect); 3] =
    [("pure", Effect::Pure), ("idempotent", Effect::Idempotent), ("once", Effect::Once)];

/// A server as written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawToolServer {
    command: Option<String>,
    args: Option<Vec<String>>,
    /// May contain keys, so errors must not quote them.
    env: Option<Value>,
    headers: Option<Value>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    bearer_token_env_var: Option<String>,
    oauth: Option<Value>,
    startup_timeout_sec: Option<f64>,
    tool_timeout_sec: Option<f64>,
    tool_deadline_sec: Option<f64>,
    max_parallel_calls: Option<NonZeroU32>,
    tenants: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    enabled_tools: Option<Vec<String>>,
    require_approval: Option<Value>,
    tools: Option<Value>,
}

impl RawTable for RawToolServer {
    const KEYS: &'static [&'static str] = &[
        "command",
        "args",
        "env",
        "headers",
        "cwd",
        "url",
        "bearer_token_env_var",
        "oauth",
        "startup_timeout_sec",
        "tool_timeout_sec",
        "tool_deadline_sec",
        "max_parallel_calls",
        "tenants",
        "scopes",
        "enabled_tools",
        "require_approval",
        "tools",
    ];
}

/// Settings of one tool of a server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTool {
    effect: Option<String>,
    require_approval: Option<String>,
    approval_expire_after_sec: Option<f64>,
    timeout_sec: Option<f64>,
    deadline_sec: Option<f64>,
    max_parallel_calls: Option<NonZeroU32>,
    tenants: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
}

impl RawTable for RawTool {
    const KEYS: &'static [&'static str] = &[
        "effect",
        "require_approval",
        "approval_expire_after_sec",
        "timeout_sec",
        "deadline_sec",
        "max_parallel_calls",
        "tenants",
        "scopes",
    ];
}

/// A validated server, without values from the environment.
pub(super) struct NamedServer {
    pub(super) options: McpServerOptions,
    /// Who may use the server and its tools, besides the tenants in its options.
    pub(super) access: ServerAccess,
    bearer_token_env_var: Option<String>,
    login: Option<NamedLogin>,
}

pub(super) fn named_servers(
    servers: Table,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, NamedServer> {
    let mut named = BTreeMap::new();
    for (label, value) in servers {
        let path = format!("mcp_servers.{label}");
        if !is_label(&label) {
            mistakes.push(format!(
                "{path}: a server's name has 1 to {MAX_LABEL} letters, digits, `_` and `-`"
            ));
        }
        let table = table_of(&path, Some(value), mistakes);
        if let Some(server) = table.and_then(|table| named_server(&path, table, mistakes)) {
            named.insert(label, server);
        }
    }
    named
}

pub(super) fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(fits)
}

pub(super) fn named_server(
    path: &str,
    table: Table,
    mistakes: &mut Vec<String>,
) -> Option<NamedServer> {
    let had = |key: &str| table.contains_key(key);
    let has_transport = had("command") || had("url");
    let mut raw: RawToolServer = read_table(&format!("{path}."), table, mistakes);
    let startup = seconds(path, "startup_timeout_sec", raw.startup_timeout_sec, mistakes);
    let tool_timeout = seconds(path, "tool_timeout_sec", raw.tool_timeout_sec, mistakes);
    let tool_deadline = seconds(path, "tool_deadline_sec", raw.tool_deadline_sec, mistakes);
    let max_parallel_calls = raw.max_parallel_calls.map(NonZeroU32::get);
    let exempt = raw.require_approval.as_ref().and_then(Value::as_str) == Some("never");
    let require_approval = ask_before(path, raw.require_approval.take(), mistakes);
    let ToolsSection { effects, tools, access } = tools(path, raw.tools.take(), mistakes);
    let server = access_of(path, None, raw.scopes.take(), mistakes);
    let access = ServerAccess { server, tools: access };
    let tenants = raw.tenants.take().map(|names| tenants_of(path, names, mistakes));
    let enabled_tools = raw.enabled_tools.take();
    let bearer_token_env_var = raw.bearer_token_env_var.clone();
    let login = raw.oauth.clone().and_then(|oauth| named_login(path, oauth, mistakes));
    let transport = transport(path, raw, has_transport, mistakes)?;
    let mut options = McpServerOptions::new(transport);
    options.startup_timeout = startup.unwrap_or(options.startup_timeout);
    let options = McpServerOptions {
        tool_timeout,
        tool_deadline,
        max_parallel_calls,
        tenants,
        enabled_tools,
        effects,
        tools,
        require_approval,
        exempt,
        ..options
    };
    Some(NamedServer { options, access, bearer_token_env_var, login })
}

/// Returns the transport: a program or a URL, with the settings of that kind only.
fn transport(
    path: &str,
    raw: RawToolServer,
    was_written: bool,
    mistakes: &mut Vec<String>,
) -> Option<McpTransport> {
    let is_set = |key: &'static str, is_set: bool| is_set.then_some(key);
    let of_program = [
        is_set("args", raw.args.is_some()),
        is_set("env", raw.env.is_some()),
        is_set("cwd", raw.cwd.is_some()),
    ];
    let of_address = [
        is_set("headers", raw.headers.is_some()),
        is_set("bearer_token_env_var", raw.bearer_token_env_var.is_some()),
        is_set("oauth", raw.oauth.is_some()),
    ];
    let mut misplaced = |keys: &[Option<&str>], wanted: &str| {
        for key in keys.iter().flatten() {
            mistakes.push(format!("{path}.{key}: only a server with `{wanted}` has it"));
        }
    };
    match (raw.command, raw.url) {
        (Some(_), Some(_)) => {
            mistakes.push(format!("{path}: has `command` and `url`; keep one of them"));
            None
        }
        (Some(command), None) => {
            misplaced(&of_address, "url");
            if command.trim().is_empty() {
                mistakes.push(format!("{path}.command: empty"));
            }
            let env = texts(path, "env", raw.env, is_variable, mistakes);
            Some(McpTransport::Stdio {
                command,
                args: raw.args.unwrap_or_default(),
                env,
                cwd: raw.cwd,
            })
        }
        (None, Some(url)) => {
            misplaced(&of_program, "command");
            if !is_http_url(&url) {
                mistakes.push(format!("{path}.url: {}", not_a_url(&url, EXAMPLE_URL)));
            }
            let headers = texts(path, "headers", raw.headers, is_header, mistakes);
            let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
            let ways = [
                raw.bearer_token_env_var.as_ref().map(|_| "`bearer_token_env_var`"),
                raw.oauth.as_ref().map(|_| "`oauth`"),
                headers.keys().any(is_authorization).then_some("a header `Authorization`"),
            ];
            let ways: Vec<&str> = ways.into_iter().flatten().collect();
            if ways.len() > 1 {
                let ways = ways.join(" and ");
                mistakes.push(format!("{path}: has {ways}; keep one of them"));
            }
            Some(McpTransport::Http { url, bearer_token: None, headers, oauth: None })
        }
        // An invalid value is already reported.
        (None, None) if was_written => None,
        (None, None) => {
            mistakes.push(format!("{path}: `command` or `url` is missing"));
            None
        }
    }
}

/// Reads a table of texts that may be secret.
pub(super) fn texts(
    path: &str,
    key: &str,
    value: Option<Value>,
    is_name: fn(&str) -> bool,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let path = format!("{path}.{key}");
    let mut texts = BTreeMap::new();
    for (name, value) in table_of(&path, value, mistakes).unwrap_or_default() {
        match value {
            Value::String(_) if !is_name(&name) => {
                mistakes.push(format!("{path}.{name}: this cannot be a name here"));
            }
            Value::String(text) => {
                texts.insert(name, text);
            }
            _ => mistakes.push(format!("{path}.{name}: not a text; put it in quotes")),
        }
    }
    texts
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

pub(super) fn is_header(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(fits)
}

pub(super) fn seconds(
    path: &str,
    key: &str,
    seconds: Option<f64>,
    mistakes: &mut Vec<String>,
) -> Option<Duration> {
    let seconds = seconds?;
    let duration = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    if duration.is_none() {
        mistakes.push(format!("{path}.{key}: `{seconds}` is not a time; give some seconds"));
    }
    duration
}

fn ask_before(path: &str, value: Option<Value>, mistakes: &mut Vec<String>) -> AskBefore {
    let path = format!("{path}.require_approval");
    match value {
        Some(Value::String(word)) if always_or_never(&path, &word, mistakes) => {
            AskBefore::Everything
        }
        None | Some(Value::String(_)) => AskBefore::Nothing,
        Some(Value::Table(table)) => always_and_never(&path, table, mistakes),
        Some(value) => {
            let names = value.try_into().map(AskBefore::Only);
            names.unwrap_or_else(|_: toml::de::Error| {
                let words = "neither \"never\" nor \"always\" nor a list of names of tools";
                mistakes.push(format!("{path}: {words}"));
                AskBefore::Everything
            })
        }
    }
}

/// Parses `always` or `never`. Any other word is an error and counts as `always`.
pub(super) fn always_or_never(path: &str, word: &str, mistakes: &mut Vec<String>) -> bool {
    const WORDS: [&str; 2] = ["never", "always"];
    if !WORDS.contains(&word) {
        let advice = did_you_mean(word, &WORDS);
        mistakes.push(format!("{path}: there is no `{word}`; {advice}"));
    }
    word != "never"
}

/// Parses `{ always = ["publish"] }`, which requires approval for those tools, or `{ never =
/// ["search"] }`, which requires it for all others. With both, tools in neither list need approval.
fn always_and_never(path: &str, table: Table, mistakes: &mut Vec<String>) -> AskBefore {
    let mut lists = BTreeMap::new();
    for (key, value) in table {
        if !["always", "never"].contains(&key.as_str()) {
            let advice = did_you_mean(&key, &["always", "never"]);
            mistakes.push(format!("{path}.{key}: there is no such setting; {advice}"));
            continue;
        }
        let names = match value {
            Value::Table(mut filter) => {
                filter.remove("tool_names").unwrap_or(Value::Boolean(false))
            }
            other => other,
        };
        match names.try_into::<Vec<String>>() {
            Ok(names) => {
                lists.insert(key, names);
            }
            Err(_) => mistakes.push(format!("{path}.{key}: not a list of names of tools")),
        }
    }
    match (lists.remove("always"), lists.remove("never")) {
        (Some(always), None) => AskBefore::Only(always),
        (None, Some(never)) => AskBefore::AllBut(never),
        (Some(always), Some(mut never)) => {
            never.retain(|name| !always.contains(name));
            AskBefore::AllBut(never)
        }
        (None, None) => AskBefore::Everything,
    }
}

/// Settings of individual tools of a server.
#[derive(Default)]
struct ToolsSection {
    effects: BTreeMap<String, Effect>,
    /// Settings besides the effect class.
    tools: BTreeMap<String, McpToolOptions>,
    /// Who may use those that not everybody may use.
    access: BTreeMap<String, Access>,
}

fn tools(path: &str, value: Option<Value>, mistakes: &mut Vec<String>) -> ToolsSection {
    let path = format!("{path}.tools");
    let ToolsSection { mut effects, mut tools, access: mut rules } = ToolsSection::default();
    for (tool, value) in table_of(&path, value, mistakes).unwrap_or_default() {
        let path = format!("{path}.{tool}");
        let Some(table) = table_of(&path, Some(value), mistakes) else { continue };
        let raw: RawTool = read_table(&format!("{path}."), table, mistakes);
        let options = tool_options(&path, &raw, mistakes);
        if options != McpToolOptions::default() {
            tools.insert(tool.clone(), options);
        }
        let access = access_of(&path, raw.tenants, raw.scopes, mistakes);
        if !access.is_open() {
            rules.insert(tool.clone(), access);
        }
        let Some(word) = raw.effect else { continue };
        if let Some((_, effect)) = EFFECTS.iter().find(|(name, _)| *name == word) {
            effects.insert(tool, *effect);
        } else {
            let advice = did_you_mean(&word, &EFFECTS.map(|(name, _)| name));
            mistakes.push(format!("{path}.effect: there is no effect `{word}`; {advice}"));
        }
    }
    ToolsSection { effects, tools, access: rules }
}

fn tool_options(path: &str, raw: &RawTool, mistakes: &mut Vec<String>) -> McpToolOptions {
    let mut time = |key: &str, value: Option<f64>| seconds(path, key, value, mistakes);
    let approval_expiry = time("approval_expire_after_sec", raw.approval_expire_after_sec);
    let (timeout, deadline) =
        (time("timeout_sec", raw.timeout_sec), time("deadline_sec", raw.deadline_sec));
    let ask = raw.require_approval.as_ref();
    let path = format!("{path}.require_approval");
    McpToolOptions {
        ask: ask.map(|word| always_or_never(&path, word, mistakes)),
        approval_expiry,
        timeout,
        deadline,
        max_parallel_calls: raw.max_parallel_calls.map(NonZeroU32::get),
    }
}

/// Returns the servers with values from the environment.
pub(super) fn with_environment(
    servers: &BTreeMap<String, NamedServer>,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, McpServerOptions> {
    let mut ready = BTreeMap::new();
    for (label, server) in servers {
        let path = format!("mcp_servers.{label}");
        let mut options = server.options.clone();
        let (key, texts) = match &mut options.transport {
            McpTransport::Stdio { env, .. } => ("env", env),
            McpTransport::Http { headers, .. } => ("headers", headers),
        };
        for (name, text) in texts {
            match filled(text, environment) {
                Ok(whole) => *text = whole,
                Err(why) => mistakes.push(format!("{path}.{key}.{name}: {why}")),
            }
        }
        if let (Some(variable), McpTransport::Http { bearer_token, .. }) =
            (&server.bearer_token_env_var, &mut options.transport)
        {
            *bearer_token = environment.get(variable).map(Secret::from);
            if bearer_token.is_none() {
                mistakes.push(format!("{path}.bearer_token_env_var: {}", not_set(variable)));
            }
        }
        if let Some(login) = &server.login {
            options = options.with_oauth(login.with_environment(label, environment, mistakes));
        }
        ready.insert(label.clone(), options);
    }
    ready
}

/// Replaces each `${NAME}` in `text` by the value of the variable.
pub(crate) fn filled(text: &str, environment: &Environment) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err("there is a `${` without its `}`".to_owned());
        };
        whole.push_str(before);
        whole.push_str(environment.get(name).ok_or_else(|| not_set(name))?);
        rest = after;
    }
    whole.push_str(rest);
    if whole.contains(['\n', '\r', '\0']) {
        return Err("the value must be on one line".to_owned());
    }
    Ok(whole)
}

#[cfg(test)]
#[path = "tool_servers_tests.rs"]
mod tests;
