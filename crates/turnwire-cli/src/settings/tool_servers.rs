//! `[mcp_servers.*]`: MCP servers, started as programs or reached by URL.
//!
//! Commands come only from the settings and the files that they name. No request, store or variable
//! can set one (A8).

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};
use turnwire_contract::{AskBefore, Effect};
use turnwire_engine::{Access, ServerAccess};
use turnwire_tools::{McpServerOptions, McpToolOptions, McpTransport, Secret};

use super::{
    file::{read_table, table_of},
    schema::words_of,
    tool_server_login::{NamedLogin, RawLogin, named_login},
    words::{
        access_of, check_url, child, did_you_mean, is_told, meaning_of, missing, tenants_of, unset,
        value_of,
    },
};
use crate::environment::Environment;

/// Maximum length of a server name.
const MAX_LABEL: usize = 64;
/// Example URL for error messages.
const EXAMPLE_URL: &str = "https://docs.example.com/mcp";
pub(super) const EFFECTS: [(&str, Effect); 3] =
    [("pure", Effect::Pure), ("idempotent", Effect::Idempotent), ("once", Effect::Once)];

/// The most careful effect class.
pub(super) const USUAL_EFFECT: &str = "once";
pub(super) const NEVER: &str = "never";
/// When a call needs approval.
pub(super) const WHEN: [&str; 2] = [NEVER, "always"];

/// An MCP server: a program (`command`) or an address (`url`). See mcp.md.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawToolServer {
    /// The program to start; only the settings can name it, never a request
    command: Option<String>,
    /// Its arguments
    #[schemars(extend("writeOnly" = true, "default" = []))]
    args: Option<Vec<String>>,
    /// Its environment, in addition to `PATH`, `HOME`, `LANG` and `TMPDIR`
    #[schemars(extend("writeOnly" = true))]
    env: Option<BTreeMap<String, String>>,
    /// Headers sent with every request
    #[schemars(extend("writeOnly" = true))]
    headers: Option<BTreeMap<String, String>>,
    /// Its working directory
    cwd: Option<PathBuf>,
    /// The URL of the server
    url: Option<String>,
    /// The variable with its bearer token
    bearer_token_env_var: Option<String>,
    /// A table: the server uses OAuth
    oauth: Option<RawLogin>,
    /// How long it may take to start and to list its tools
    #[schemars(extend("exclusiveMinimum" = 0, "default" = McpServerOptions::http("").startup_timeout.as_secs()))]
    startup_timeout_sec: Option<f64>,
    /// How long its tools may be silent
    #[schemars(extend("exclusiveMinimum" = 0))]
    tool_timeout_sec: Option<f64>,
    /// The total duration of a call
    #[schemars(extend("exclusiveMinimum" = 0))]
    tool_deadline_sec: Option<f64>,
    /// Maximum number of concurrent calls
    max_parallel_calls: Option<NonZeroU32>,
    /// The tenants that may use the server; for others it does not exist
    tenants: Option<Vec<String>>,
    /// Scopes of which a caller needs one, such as `use:research`; for others it does not exist
    scopes: Option<Vec<String>>,
    /// The tools that are offered to the model
    enabled_tools: Option<Vec<String>>,
    /// `"always"`, `"never"`, a list of tools, `{ always = […] }` or `{ never = […] }`
    #[schemars(with = "Option<RawAskBefore>", extend("default" = NEVER))]
    require_approval: Option<Value>,
    /// Tables: settings of individual tools
    tools: BTreeMap<String, RawTool>,
}

/// Which calls need approval.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum RawAskBefore {
    Word(#[schemars(extend("enum" = WHEN))] String),
    Names(Vec<String>),
    Lists(RawLists),
}

/// Tools that need approval, or tools that need none.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct RawLists {
    /// Calls of these tools need approval
    always: Option<RawNames>,
    /// Calls of all other tools need approval
    never: Option<RawNames>,
}

/// Names of tools, also in the form that requests have.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum RawNames {
    List(Vec<String>),
    Filter(RawFilter),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct RawFilter {
    /// Names of tools
    tool_names: Vec<String>,
}

/// One tool of a server; omitted settings are inherited from the server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTool {
    /// The effect class: `"pure"`, `"idempotent"` or `"once"`; decides whether the tool is called
    /// again after a crash
    #[schemars(extend("enum" = words_of(&EFFECTS), "default" = USUAL_EFFECT))]
    effect: Option<String>,
    /// `"always"` or `"never"`
    #[schemars(extend("enum" = WHEN))]
    require_approval: Option<String>,
    /// After how long an unanswered approval request is denied
    #[schemars(extend("exclusiveMinimum" = 0))]
    approval_expire_after_sec: Option<f64>,
    /// How long it may be silent
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout_sec: Option<f64>,
    /// The total duration of a call
    #[schemars(extend("exclusiveMinimum" = 0))]
    deadline_sec: Option<f64>,
    /// Maximum number of concurrent calls of this tool
    max_parallel_calls: Option<NonZeroU32>,
    /// The tenants that may use it; for others it does not exist
    tenants: Option<Vec<String>>,
    /// Scopes of which a caller needs one, such as `use:research`; for others it does not exist
    scopes: Option<Vec<String>>,
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
        let path = child("mcp_servers", &label);
        if !is_label(&label) {
            mistakes.push(format!(
                "{path}: a server's name has 1 to {MAX_LABEL} letters, digits, `_` and `-`"
            ));
        }
        let table = table_of(&path, Some(value), mistakes);
        if let Some(table) = table {
            named.insert(label, named_server(&path, table, mistakes));
        }
    }
    named
}

pub(super) fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(fits)
}

pub(super) fn named_server(path: &str, table: Table, mistakes: &mut Vec<String>) -> NamedServer {
    let mut raw: RawToolServer = read_table(path, table, mistakes);
    let startup = seconds(path, "startup_timeout_sec", raw.startup_timeout_sec, mistakes);
    let tool_timeout = seconds(path, "tool_timeout_sec", raw.tool_timeout_sec, mistakes);
    let tool_deadline = seconds(path, "tool_deadline_sec", raw.tool_deadline_sec, mistakes);
    let max_parallel_calls = raw.max_parallel_calls.map(NonZeroU32::get);
    let exempt = raw.require_approval.as_ref().and_then(Value::as_str) == Some(NEVER);
    let require_approval = ask_before(path, raw.require_approval.take(), mistakes);
    let ToolsSection { effects, tools, access } =
        tools(path, std::mem::take(&mut raw.tools), mistakes);
    let server = access_of(path, None, raw.scopes.take(), mistakes);
    let access = ServerAccess { server, tools: access };
    let tenants = raw.tenants.take().map(|names| tenants_of(path, names, mistakes));
    let enabled_tools = raw.enabled_tools.take();
    let bearer_token_env_var = raw.bearer_token_env_var.clone();
    let has_login = raw.oauth.is_some();
    let login = raw.oauth.take().map(|oauth| named_login(path, oauth, mistakes));
    let transport = transport(path, raw, has_login, mistakes);
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
    NamedServer { options, access, bearer_token_env_var, login }
}

/// Returns the transport: a program or a URL, with the settings of that kind only.
fn transport(
    path: &str,
    raw: RawToolServer,
    has_login: bool,
    mistakes: &mut Vec<String>,
) -> McpTransport {
    let is_set = |key: &'static str, is_set: bool| is_set.then_some(key);
    let of_program = [
        is_set("args", raw.args.is_some()),
        is_set("env", raw.env.is_some()),
        is_set("cwd", raw.cwd.is_some()),
    ];
    let of_address = [
        is_set("headers", raw.headers.is_some()),
        is_set("bearer_token_env_var", raw.bearer_token_env_var.is_some()),
        is_set("oauth", has_login),
    ];
    // Where the server is unclear, all of its settings are checked, and none is misplaced.
    let mut misplaced = |keys: &[Option<&str>], wanted: &str| {
        for key in keys.iter().flatten() {
            mistakes.push(format!("{path}.{key}: only a server with `{wanted}` has it"));
        }
    };
    match (&raw.command, &raw.url) {
        (Some(_), Some(_)) => {
            mistakes.push(format!("{path}: has `command` and `url`; keep one of them"));
        }
        (Some(_), None) => misplaced(&of_address, "url"),
        (None, Some(_)) => misplaced(&of_program, "command"),
        (None, None) => {
            // An invalid value is already reported.
            let is_told = |key: &str| is_told(&format!("{path}.{key}"), mistakes);
            if !(is_told("command") || is_told("url")) {
                mistakes.push(format!("{path}: `command` or `url` is missing"));
            }
        }
    }
    if raw.command.as_ref().is_some_and(|command| command.trim().is_empty()) {
        mistakes.push(format!("{path}.command: empty"));
    }
    check_url(&format!("{path}.url"), raw.url.as_deref(), EXAMPLE_URL, mistakes);
    let env = texts(path, "env", raw.env.unwrap_or_default(), is_variable, mistakes);
    let headers = texts(path, "headers", raw.headers.unwrap_or_default(), is_header, mistakes);
    if raw.command.is_none() {
        let has_token = raw.bearer_token_env_var.is_some();
        one_authorization(path, has_token, has_login, &headers, mistakes);
    }
    match (raw.command, raw.url) {
        (Some(command), None) => {
            let args = raw.args.unwrap_or_default();
            McpTransport::Stdio { command, args, env, cwd: raw.cwd }
        }
        (_, url) => {
            let url = url.unwrap_or_default();
            McpTransport::Http { url, bearer_token: None, headers, oauth: None }
        }
    }
}

/// Reports more than one way to authorize.
fn one_authorization(
    path: &str,
    has_token: bool,
    has_login: bool,
    headers: &BTreeMap<String, String>,
    mistakes: &mut Vec<String>,
) {
    let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
    let ways = [
        has_token.then_some("`bearer_token_env_var`"),
        has_login.then_some("`oauth`"),
        headers.keys().any(is_authorization).then_some("a header `Authorization`"),
    ];
    let ways: Vec<&str> = ways.into_iter().flatten().collect();
    if ways.len() > 1 {
        mistakes.push(format!("{path}: has {}; keep one of them", ways.join(" and ")));
    }
}

/// Checks the names in a table of texts, which may be secret.
pub(super) fn texts(
    path: &str,
    key: &str,
    mut texts: BTreeMap<String, String>,
    is_name: fn(&str) -> bool,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let path = format!("{path}.{key}");
    texts.retain(|name, _| {
        let is_name = is_name(name);
        if !is_name {
            mistakes.push(format!("{}: this cannot be a name here", child(&path, name)));
        }
        is_name
    });
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
        // Anything but a list is already reported.
        Some(value) => value.try_into().map_or(AskBefore::Everything, AskBefore::Only),
    }
}

/// Parses `always` or `never`. Any other word is an error and counts as `always`.
pub(super) fn always_or_never(path: &str, word: &str, mistakes: &mut Vec<String>) -> bool {
    if !WHEN.contains(&word) {
        let advice = did_you_mean(word, &WHEN);
        mistakes.push(format!("{path}: there is no `{word}`; {advice}"));
    }
    word != NEVER
}

/// Parses `{ always = ["publish"] }`, which requires approval for those tools, or `{ never =
/// ["search"] }`, which requires it for all others. With both, tools in neither list need approval.
fn always_and_never(path: &str, table: Table, mistakes: &mut Vec<String>) -> AskBefore {
    let mut lists = BTreeMap::new();
    for (key, value) in table {
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
            Err(_) => {
                missing(&format!("{path}.{key}"), "not a list of names of tools", mistakes);
            }
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

fn tools(
    path: &str,
    written: BTreeMap<String, RawTool>,
    mistakes: &mut Vec<String>,
) -> ToolsSection {
    let path = format!("{path}.tools");
    let ToolsSection { mut effects, mut tools, access: mut rules } = ToolsSection::default();
    for (tool, raw) in written {
        let path = child(&path, &tool);
        let options = tool_options(&path, &raw, mistakes);
        if options != McpToolOptions::default() {
            tools.insert(tool.clone(), options);
        }
        let access = access_of(&path, raw.tenants, raw.scopes, mistakes);
        if !access.is_open() {
            rules.insert(tool.clone(), access);
        }
        let effect = raw.effect.and_then(|word| effect_of(&path, &word, mistakes));
        effects.extend(effect.map(|effect| (tool, effect)));
    }
    ToolsSection { effects, tools, access: rules }
}

/// Reads the effect class of the tool or function at `path`.
pub(super) fn effect_of(path: &str, word: &str, mistakes: &mut Vec<String>) -> Option<Effect> {
    meaning_of(&format!("{path}.effect"), "there is no effect", word, &EFFECTS, mistakes)
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
        let path = child("mcp_servers", label);
        let mut options = server.options.clone();
        let (key, texts) = match &mut options.transport {
            McpTransport::Stdio { env, .. } => ("env", env),
            McpTransport::Http { headers, .. } => ("headers", headers),
        };
        for (name, text) in texts {
            match filled(text, environment) {
                Ok(whole) => *text = whole,
                Err(why) => {
                    let path = child(&format!("{path}.{key}"), name);
                    mistakes.push(format!("{path}: {why}"));
                }
            }
        }
        if let (Some(variable), McpTransport::Http { bearer_token, .. }) =
            (&server.bearer_token_env_var, &mut options.transport)
        {
            let path = format!("{path}.bearer_token_env_var");
            *bearer_token = value_of(&path, variable, environment, mistakes).map(Secret::from);
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
    filled_by(text, |name| environment.get(name).ok_or_else(|| unset(name)))
}

/// Replaces each `${NAME}` in `text` by what `value` returns. Errors do not quote the text, because
/// it may be a key.
pub(super) fn filled_by<'a>(
    text: &'a str,
    value: impl Fn(&'a str) -> Result<&'a str, String>,
) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err("there is a `${` without its `}`".to_owned());
        };
        whole.push_str(before);
        whole.push_str(value(name)?);
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
