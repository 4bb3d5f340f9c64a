//! `[server]`: where the gateway listens and whom it lets in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Deserialize;
use toml::{Table, Value};

use super::{
    file::{RawTable, read_table},
    words::not_set,
};
use crate::environment::Environment;

/// Where the gateway listens when nothing else is said: where only this machine reaches it.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7878);
/// The variable that has the keys.
const API_KEYS: &str = "TURNWIRE_API_KEYS";
const LISTEN: &str = "TURNWIRE_LISTEN";

/// The section as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawServer {
    listen: Option<String>,
    health_listen: Option<String>,
    api_keys_env: Option<String>,
    /// Not read as what it should be: a complaint would quote the key.
    api_keys: Option<Value>,
    hosts: Vec<String>,
    origins: Vec<String>,
    instructions: Option<String>,
    fallback_model: Option<String>,
}

impl RawTable for RawServer {
    const KEYS: &'static [&'static str] = &[
        "listen",
        "health_listen",
        "api_keys_env",
        "api_keys",
        "hosts",
        "origins",
        "instructions",
        "fallback_model",
    ];
}

/// The section, checked. It holds keys, so it cannot be printed.
#[derive(Default)]
pub(super) struct ServerSection {
    pub(super) listen: Option<SocketAddr>,
    /// Where probes are answered, too.
    pub(super) health_listen: Option<SocketAddr>,
    pub(super) api_keys_env: Option<String>,
    pub(super) api_keys: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) instructions: Option<String>,
    /// The model that answers for names that no model goes by.
    pub(super) fallback_model: Option<String>,
}

impl ServerSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let raw: RawServer = read_table("server.", table, mistakes);
        let mut tell = |key: &str, why: String| mistakes.push(format!("server.{key}: {why}"));
        let mut address = |key: &str, text: Option<String>| {
            let text = text?;
            listen_address(&text).map_err(|why| tell(key, format!("`{text}`: {why}"))).ok()
        };
        let listen = address("listen", raw.listen);
        let health_listen = address("health_listen", raw.health_listen);
        for host in raw.hosts.iter().filter(|host| !is_host(host)) {
            tell("hosts", format!("`{host}` is not a name; it should look like chat.example.com"));
        }
        for origin in raw.origins.iter().filter(|origin| !is_origin(origin)) {
            tell("origins", format!("`{origin}` {NOT_AN_ORIGIN}"));
        }
        let api_keys = match raw.api_keys.map(keys_of_list) {
            Some(Ok(keys)) => keys,
            Some(Err(why)) => {
                tell("api_keys", why.to_owned());
                Vec::new()
            }
            None => Vec::new(),
        };
        Self {
            listen,
            health_listen,
            api_keys_env: raw.api_keys_env,
            api_keys,
            hosts: raw.hosts,
            origins: raw.origins,
            instructions: raw.instructions,
            fallback_model: raw.fallback_model,
        }
    }

    /// The keys that open the door: those of `TURNWIRE_API_KEYS`, or else all that the file
    /// has or names.
    pub(super) fn keys(
        &self,
        environment: &Environment,
        in_file: &mut Vec<String>,
        in_environment: &mut Vec<String>,
    ) -> Vec<String> {
        if let Some(text) = environment.get(API_KEYS) {
            return keys_of_text(text).unwrap_or_else(|why| {
                in_environment.push(format!("{API_KEYS}: {why}"));
                Vec::new()
            });
        }
        let named = self.api_keys_env.as_deref().map(|variable| {
            let text = environment.get(variable).ok_or_else(|| not_set(variable))?;
            keys_of_text(text).map_err(|why| format!("`{variable}`: {why}"))
        });
        let named = named.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|why| {
            in_file.push(format!("server.api_keys_env: {why}"));
            Vec::new()
        });
        self.api_keys.iter().cloned().chain(named).collect()
    }
}

/// The address that `TURNWIRE_LISTEN` has.
pub(super) fn listen_of(
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> Option<SocketAddr> {
    let text = environment.get(LISTEN)?;
    listen_address(text).map_err(|why| mistakes.push(format!("{LISTEN}: `{text}`: {why}"))).ok()
}

/// Reads an address to listen on, for the file, the environment and the command line.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let local =
        text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    let address = local.as_deref().unwrap_or(text).parse();
    address
        .map_err(|_| format!("not an address to listen on; it should look like {DEFAULT_LISTEN}"))
}

const NOT_AN_ORIGIN: &str = "is not the origin of a web page; it should look like \
                             https://chat.example.com";
const NO_KEY: &str = "there is no key in it";
const NOT_A_LIST: &str = "not a list of texts; better, name a variable with api_keys_env";
const NOT_A_KEY: &str = "a key must not be empty or have spaces, and must be plain ASCII";

fn keys_of_list(list: Value) -> Result<Vec<String>, &'static str> {
    let keys: Vec<String> = list.try_into().map_err(|_| NOT_A_LIST)?;
    checked_keys(keys)
}

/// Several keys stand with commas between them.
fn keys_of_text(text: &str) -> Result<Vec<String>, &'static str> {
    let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
    checked_keys(keys.map(str::to_owned).collect())
}

/// No keys at all would leave the door open where somebody wanted it locked.
fn checked_keys(keys: Vec<String>) -> Result<Vec<String>, &'static str> {
    let is_key = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    match keys.as_slice() {
        [] => Err(NO_KEY),
        keys if !keys.iter().all(is_key) => Err(NOT_A_KEY),
        _ => Ok(keys),
    }
}

fn is_host(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    !text.is_empty() && text.chars().all(fits)
}

/// Reads the origin of a web page, for the command line.
pub(crate) fn page_origin(text: &str) -> Result<String, String> {
    if is_origin(text) { Ok(text.to_owned()) } else { Err(NOT_AN_ORIGIN.to_owned()) }
}

/// A scheme and a name, and nothing after it: that is what browsers send.
fn is_origin(text: &str) -> bool {
    let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    place.is_some_and(is_host)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
