//! `[web_search]`: the search engine.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_engine::Access;
use turnwire_tools::{SearchProvider, Secret, WebSearchOptions};

use super::{
    file::read_table,
    schema::words_of,
    words::{access_of, check_needed_url, check_url, meaning_of, missing, one_of, value_of},
};
use crate::environment::Environment;

const PROVIDERS: [(&str, SearchProvider); 3] = [
    ("searxng", SearchProvider::Searxng),
    ("brave", SearchProvider::Brave),
    ("tavily", SearchProvider::Tavily),
];
const EXAMPLE_URL: &str = "http://localhost:8888";
/// Maximum of `max_results`.
const MAX_RESULTS: usize = 50;
/// Maximum timeout in seconds.
const LONGEST_SEC: u64 = 120;

/// See web-search.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebSearch {
    /// `"searxng"`, `"brave"` or `"tavily"`
    #[schemars(extend("enum" = words_of(&PROVIDERS), "x-required" = true))]
    provider: Option<String>,
    /// The base URL
    base_url: Option<String>,
    /// The variable with the API key
    api_key_env: Option<String>,
    /// How many results the model receives, 1 to 50
    #[schemars(range(min = 1, max = MAX_RESULTS), extend("default" = WebSearchOptions::new("").max_results))]
    max_results: Option<usize>,
    /// How long a search may take, 1 to 120
    #[schemars(range(min = 1, max = LONGEST_SEC), extend("default" = WebSearchOptions::new("").timeout.as_secs()))]
    timeout_sec: Option<u64>,
    /// Whether the model may also open pages
    #[schemars(extend("default" = WebSearchOptions::new("").open_pages))]
    open_pages: Option<bool>,
    /// The tenants that may use it; for others it does not exist
    tenants: Option<Vec<String>>,
    /// Scopes of which a caller needs one, such as `use:research`; for others it does not exist
    scopes: Option<Vec<String>>,
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
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let mut raw: RawWebSearch = read_table("web_search", table, mistakes);
        let (tenants, scopes) = (raw.tenants.take(), raw.scopes.take());
        let access = access_of("web_search", tenants, scopes, mistakes);
        let provider = provider_of(raw.provider.as_deref(), mistakes);
        // With an unknown engine it is unknown whether an address is needed.
        let is_needed = provider == Some(SearchProvider::Searxng);
        let check = if is_needed { check_needed_url } else { check_url };
        check("web_search.base_url", raw.base_url.as_deref(), EXAMPLE_URL, mistakes);
        let key_variable = match provider {
            Some(provider) => key_variable(provider, &raw, mistakes),
            None => raw.api_key_env.clone(),
        };
        let mut options = usual(provider.unwrap_or(SearchProvider::Searxng));
        if let Some(base_url) = raw.base_url {
            options.base_url = base_url;
        }
        options.max_results = raw.max_results.unwrap_or(options.max_results);
        options.timeout = raw.timeout_sec.map_or(options.timeout, Duration::from_secs);
        options.open_pages = raw.open_pages.unwrap_or(options.open_pages);
        Self { options, access, key_variable }
    }

    /// Returns the options with the key from the environment.
    pub(super) fn with_environment(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> WebSearchOptions {
        let mut options = self.options.clone();
        let key = self.key_variable.as_deref().and_then(|variable| {
            value_of("web_search.api_key_env", variable, environment, mistakes)
        });
        options.api_key = key.map(Secret::from);
        options
    }
}

fn provider_of(word: Option<&str>, mistakes: &mut Vec<String>) -> Option<SearchProvider> {
    let Some(word) = word else {
        let why = format!("missing; {}", one_of(&PROVIDERS.map(|(name, _)| name)));
        missing("web_search.provider", &why, mistakes);
        return None;
    };
    meaning_of("web_search.provider", "there is no provider", word, &PROVIDERS, mistakes)
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
    mistakes: &mut Vec<String>,
) -> Option<String> {
    let usual = match provider {
        SearchProvider::Searxng => return None,
        SearchProvider::Brave => "BRAVE_API_KEY",
        SearchProvider::Tavily => "TAVILY_API_KEY",
    };
    if raw.api_key_env.is_none() && raw.base_url.is_some() {
        let why = "missing; name the variable that has the key for this address";
        missing("web_search.api_key_env", why, mistakes);
        return None;
    }
    Some(raw.api_key_env.clone().unwrap_or_else(|| usual.to_owned()))
}

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
