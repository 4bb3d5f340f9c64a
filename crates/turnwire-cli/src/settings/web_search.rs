//! `[web_search]`: who searches the web for the model.

use serde::Deserialize;
use toml::Table;
use turnwire_tools::WebSearchOptions;

use super::{
    file::{RawTable, read_table},
    words::{did_you_mean, is_http_url, not_a_url, one_of},
};

/// Who can be asked.
const PROVIDERS: [&str; 1] = ["searxng"];
/// Who is meant to be, one day.
const NOT_YET: [&str; 2] = ["brave", "tavily"];
const EXAMPLE_URL: &str = "http://localhost:8888";
/// More would drown the model.
const MOST_RESULTS: i64 = 50;

/// The section as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebSearch {
    provider: Option<String>,
    base_url: Option<String>,
    max_results: Option<i64>,
}

impl RawTable for RawWebSearch {
    const KEYS: &'static [&'static str] = &["provider", "base_url", "max_results"];
}

pub(super) fn web_search(table: Table, mistakes: &mut Vec<String>) -> Option<WebSearchOptions> {
    let (had_provider, had_url) = (table.contains_key("provider"), table.contains_key("base_url"));
    let raw: RawWebSearch = read_table("web_search.", table, mistakes);
    let mut tell = |key: &str, why: String| mistakes.push(format!("web_search.{key}: {why}"));
    match raw.provider.as_deref() {
        Some(provider) if PROVIDERS.contains(&provider) => {}
        Some(provider) if NOT_YET.contains(&provider) => {
            tell("provider", format!("`{provider}` is not there yet; {}", one_of(&PROVIDERS)));
        }
        Some(provider) => {
            let advice = did_you_mean(provider, &PROVIDERS);
            tell("provider", format!("there is no provider `{provider}`; {advice}"));
        }
        // One that could not be read has been told already.
        None if had_provider => {}
        None => tell("provider", format!("missing; {}", one_of(&PROVIDERS))),
    }
    match raw.base_url.as_deref() {
        Some(url) if !is_http_url(url) => tell("base_url", not_a_url(url, EXAMPLE_URL)),
        None if !had_url => {
            tell("base_url", format!("missing; it should look like {EXAMPLE_URL}"));
        }
        Some(_) | None => {}
    }
    let mut options = WebSearchOptions::new(raw.base_url?);
    match raw.max_results.map(|results| (results, usize::try_from(results))) {
        Some((1..=MOST_RESULTS, Ok(results))) => options.max_results = results,
        Some(_) => tell("max_results", format!("give a number from 1 to {MOST_RESULTS}")),
        None => {}
    }
    Some(options)
}

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
