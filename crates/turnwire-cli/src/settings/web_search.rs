//! `[web_search]`: the search engine.

use std::time::Duration;

use serde::Deserialize;
use toml::Table;
use turnwire_engine::Access;
use turnwire_tools::{SearchProvider, Secret, WebSearchOptions};

use super::{
    file::{RawTable, read_table},
    words::{access_of, did_you_mean, is_http_url, not_a_url, not_set, one_of},
};
use crate::environment::Environment;

const PROVIDERS: [(&str, SearchProvider); 3] = [
    ("searxng", SearchProvider::Searxng),
    ("brave", SearchProvider::Brave),
    ("tavily", SearchProvider::Tavily),
];
const EXAMPLE_URL: &str = "http://localhost:8888";
/// Maximum of `max_results`.
const MAX_RESULTS: i64 = 50;
/// Maximum timeout in seconds.
const LONGEST_SEC: i64 = 120;

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebSearch {
    provider: Option<String>,
    base_url: Option<String>,
    api_key_env: Option<String>,
    max_results: Option<i64>,
    timeout_sec: Option<i64>,
    open_pages: Option<bool>,
    tenants: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
}

impl RawTable for RawWebSearch {
    const KEYS: &'static [&'static str] = &[
        "provider",
        "base_url",
        "api_key_env",
        "max_results",
        "timeout_sec",
        "open_pages",
        "tenants",
        "scopes",
    ];
}

/// The validated section, without values from the environment.
#[derive(Debug)]
pub(super) struct WebSearchSection {
    options: WebSearchOptions,
    /// Who may use it.
    pub(super) access: Access,
    /// Variable with the key, for engines that need one.
    key_variable: Option<String>,
}

impl WebSearchSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Option<Self> {
        let written = |key: &str| table.contains_key(key);
        let (had_provider, had_url) = (written("provider"), written("base_url"));
        let mut raw: RawWebSearch = read_table("web_search.", table, mistakes);
        let (tenants, scopes) = (raw.tenants.take(), raw.scopes.take());
        let access = access_of("web_search", tenants, scopes, mistakes);
        let mut tell = |key: &str, why: String| mistakes.push(format!("web_search.{key}: {why}"));
        let provider = match raw.provider.as_deref() {
            Some(name) => {
                let known = PROVIDERS.iter().find(|(known, _)| *known == name);
                if known.is_none() {
                    let advice = did_you_mean(name, &PROVIDERS.map(|(known, _)| known));
                    tell("provider", format!("there is no provider `{name}`; {advice}"));
                }
                known.map(|(_, provider)| *provider)
            }
            // An invalid value is already reported.
            None if had_provider => None,
            None => {
                tell("provider", format!("missing; {}", one_of(&PROVIDERS.map(|(name, _)| name))));
                None
            }
        };
        match raw.base_url.as_deref() {
            Some(url) if !is_http_url(url) => tell("base_url", not_a_url(url, EXAMPLE_URL)),
            None if !had_url && matches!(provider, None | Some(SearchProvider::Searxng)) => {
                tell("base_url", format!("missing; it should look like {EXAMPLE_URL}"));
            }
            Some(_) | None => {}
        }
        let max_results = between("max_results", raw.max_results, MAX_RESULTS, &mut tell);
        let timeout = between("timeout_sec", raw.timeout_sec, LONGEST_SEC, &mut tell);
        let key_variable = key_variable(provider?, &raw, &mut tell);
        let mut options = usual(provider?);
        if let Some(base_url) = raw.base_url {
            options.base_url = base_url;
        }
        options.max_results =
            max_results.and_then(|most| most.try_into().ok()).unwrap_or(options.max_results);
        options.timeout = timeout.map_or(options.timeout, Duration::from_secs);
        options.open_pages = raw.open_pages.unwrap_or(options.open_pages);
        Some(Self { options, access, key_variable })
    }

    /// Returns the options with the key from the environment.
    pub(super) fn with_environment(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> WebSearchOptions {
        let mut options = self.options.clone();
        options.api_key = self.key_variable.as_deref().and_then(|variable| {
            let key = environment.get(variable);
            if key.is_none() {
                mistakes.push(format!("web_search.api_key_env: {}", not_set(variable)));
            }
            key.map(Secret::from)
        });
        options
    }
}

/// Parses a number from 1 to `most`.
fn between(
    key: &str,
    value: Option<i64>,
    most: i64,
    tell: &mut impl FnMut(&str, String),
) -> Option<u64> {
    let value = value?;
    if !(1..=most).contains(&value) {
        tell(key, format!("give a number from 1 to {most}"));
    }
    value.try_into().ok()
}

fn usual(provider: SearchProvider) -> WebSearchOptions {
    // The key is set later, from the environment.
    let no_key = Secret::new("");
    match provider {
        SearchProvider::Searxng => WebSearchOptions::new(""),
        SearchProvider::Brave => WebSearchOptions::brave(no_key),
        SearchProvider::Tavily => WebSearchOptions::tavily(no_key),
    }
}

/// Returns the variable with the key. The engine's well-known variable is used only for the
/// engine's own URL, so that the key is not sent elsewhere.
fn key_variable(
    provider: SearchProvider,
    raw: &RawWebSearch,
    tell: &mut impl FnMut(&str, String),
) -> Option<String> {
    let usual = match provider {
        SearchProvider::Searxng => return None,
        SearchProvider::Brave => "BRAVE_API_KEY",
        SearchProvider::Tavily => "TAVILY_API_KEY",
    };
    if raw.api_key_env.is_none() && raw.base_url.is_some() {
        tell("api_key_env", "missing; name the variable that has the key for this address".into());
        return None;
    }
    Some(raw.api_key_env.clone().unwrap_or_else(|| usual.to_owned()))
}

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
