//! `[server]`: address and authentication of the gateway.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;

use super::{file::read_table, words::not_set};
use crate::{
    addresses::{DEFAULT_LISTEN, NOT_AN_ORIGIN, is_host, is_origin, listen_address},
    environment::Environment,
};

/// Variable with the API keys.
const API_KEYS: &str = "TURNWIRE_API_KEYS";
/// Variable with the key for `/metrics` alone.
const METRICS_TOKEN: &str = "TURNWIRE_METRICS_TOKEN";
const LISTEN: &str = "TURNWIRE_LISTEN";

/// Where `turnwire serve` listens and which clients it accepts.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawServer {
    /// The address to listen on; any but loopback requires an API key. Port 0 picks a free port
    #[schemars(extend("default" = DEFAULT_LISTEN.to_string(), "x-turnwire-variable" = LISTEN))]
    listen: Option<String>,
    /// A separate address that serves only `/healthz`, `/readyz` and `/metrics`, even when the main
    /// address is full and during shutdown
    health_listen: Option<String>,
    /// The variable with the API keys, separated by commas; beside those of the store (tenants.md)
    api_keys_env: Option<String>,
    /// The API keys themselves; prefer `api_keys_env`
    #[schemars(extend("writeOnly" = true, "x-turnwire-variable" = API_KEYS))]
    api_keys: Option<Vec<String>>,
    /// The variable with a key that opens `/metrics` and nothing else, for Prometheus. API keys
    /// open it as well
    #[schemars(extend("x-turnwire-variable" = METRICS_TOKEN))]
    metrics_token_env: Option<String>,
    /// Host names of this server, in addition to the loopback ones. Without this setting a server
    /// with a key accepts any name. `/healthz`, `/readyz` and `/metrics` are always reachable by
    /// address
    pub(super) hosts: Vec<String>,
    /// Origins of web pages that may call the server, such as `https://app.example.com`, in
    /// addition to its own; `--origin` adds one
    pub(super) origins: Vec<String>,
    /// Instructions for the model on `/chat` and `/ws/chat`
    pub(super) instructions: Option<String>,
    /// The `[models.NAME]` that answers requests for a model that is not configured; without it
    /// such requests are 404
    pub(super) fallback_model: Option<String>,
}

/// The validated section. It contains keys, so it has no `Debug`.
#[derive(Default)]
pub(super) struct ServerSection {
    pub(super) listen: Option<SocketAddr>,
    /// Additional address for health checks.
    pub(super) health_listen: Option<SocketAddr>,
    pub(super) api_keys: Vec<String>,
    /// What is taken as it is written.
    pub(super) rest: RawServer,
}

impl ServerSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let mut raw: RawServer = read_table("server", table, mistakes);
        let mut tell = |key: &str, why: String| mistakes.push(format!("server.{key}: {why}"));
        let mut address = |key: &str, text: Option<String>| {
            let text = text?;
            listen_address(&text).map_err(|why| tell(key, format!("`{text}`: {why}"))).ok()
        };
        let listen = address("listen", raw.listen.take());
        let health_listen = address("health_listen", raw.health_listen.take());
        for (n, host) in raw.hosts.iter().enumerate().filter(|(_, host)| !is_host(host)) {
            let why = format!("`{host}` is not a name; it should look like chat.example.com");
            tell(&format!("hosts[{n}]"), why);
        }
        for (n, origin) in raw.origins.iter().enumerate().filter(|(_, text)| !is_origin(text)) {
            tell(&format!("origins[{n}]"), format!("`{origin}` {NOT_AN_ORIGIN}"));
        }
        let api_keys = match raw.api_keys.take().map(checked_keys) {
            Some(Ok(keys)) => keys,
            Some(Err(why)) => {
                tell("api_keys", why.to_owned());
                Vec::new()
            }
            None => Vec::new(),
        };
        Self { listen, health_listen, api_keys, rest: raw }
    }

    /// Returns the accepted API keys: those in `TURNWIRE_API_KEYS`, or else all in the file and in
    /// its variable.
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
        let named = self.rest.api_keys_env.as_deref().map(|variable| {
            let text = environment.get(variable).ok_or_else(|| not_set(variable))?;
            keys_of_text(text).map_err(|why| format!("`{variable}`: {why}"))
        });
        let named = named.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|why| {
            in_file.push(format!("server.api_keys_env: {why}"));
            Vec::new()
        });
        self.api_keys.iter().cloned().chain(named).collect()
    }

    /// Returns the key for `/metrics` alone: in `TURNWIRE_METRICS_TOKEN`, or else in the variable
    /// that the file names.
    pub(super) fn metrics_token(
        &self,
        environment: &Environment,
        in_file: &mut Vec<String>,
        in_environment: &mut Vec<String>,
    ) -> Option<String> {
        if let Some(token) = environment.get(METRICS_TOKEN) {
            let token = one_key(token);
            return token
                .map_err(|why| in_environment.push(format!("{METRICS_TOKEN}: {why}")))
                .ok();
        }
        let variable = self.rest.metrics_token_env.as_deref()?;
        let token = environment.get(variable).ok_or_else(|| not_set(variable));
        let token = token
            .and_then(|token| one_key(token).map_err(|why| format!("`{variable}`: {why}")))
            .map_err(|why| in_file.push(format!("server.metrics_token_env: {why}")));
        token.ok()
    }
}

/// Returns the address in `TURNWIRE_LISTEN`.
pub(super) fn listen_of(
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> Option<SocketAddr> {
    let text = environment.get(LISTEN)?;
    listen_address(text).map_err(|why| mistakes.push(format!("{LISTEN}: `{text}`: {why}"))).ok()
}

const NO_KEY: &str = "there is no key in it";
const NOT_A_KEY: &str = "a key must not be empty or have spaces, and must be plain ASCII";

/// Parses keys separated by commas.
fn keys_of_text(text: &str) -> Result<Vec<String>, &'static str> {
    let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
    checked_keys(keys.map(str::to_owned).collect())
}

fn one_key(text: &str) -> Result<String, &'static str> {
    let token = text.trim();
    if is_key(token) { Ok(token.to_owned()) } else { Err(NOT_A_KEY) }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Checks keys. An empty list is an error, because it would disable authentication.
fn checked_keys(keys: Vec<String>) -> Result<Vec<String>, &'static str> {
    match keys.as_slice() {
        [] => Err(NO_KEY),
        keys if !keys.iter().all(|key| is_key(key)) => Err(NOT_A_KEY),
        _ => Ok(keys),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
