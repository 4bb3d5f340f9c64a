//! Searching the web, with a `SearXNG` that the operator runs.
//!
//! The tool ([`WebSearch`]) knows what a search is; `Searxng` knows how that one search engine
//! is asked. Another engine is another type with the same method.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use reqwest::{Client, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use tracing::warn;
use turnwire_contract::{
    Effect, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
};

/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// How much of a title and of a snippet the model is shown.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 500;

/// How often a search engine may point elsewhere on its own host.
const MAX_REDIRECTS: usize = 3;

/// How the web is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSearchOptions {
    /// Where the `SearXNG` is.
    pub base_url: String,
    /// How many results the model is shown.
    pub max_results: usize,
    /// How long the search engine may take.
    pub timeout: Duration,
}

impl WebSearchOptions {
    /// The `SearXNG` at `base_url`, with the usual limits.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), max_results: 8, timeout: Duration::from_secs(10) }
    }
}

/// Why the search could not be set up. All of it is the operator's to repair.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebSearchError {
    /// The base URL is none.
    #[error("`{0}` is not an http or https URL")]
    BaseUrl(String),
    /// The HTTP client does not start, usually for want of root certificates.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

/// Searches the web.
///
/// The model calls it with `{"query": "…"}`. A request may narrow it with
/// `filters.allowed_domains` in its tool entry.
pub struct WebSearch {
    spec: ToolSpec,
    engine: Searxng,
    max_results: usize,
}

impl WebSearch {
    /// A search with these options. Nothing is asked before the first call.
    pub fn new(options: WebSearchOptions) -> Result<Self, WebSearchError> {
        let parameters = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What to look for, in a few words." },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            parameters,
            kind: ToolKind::WebSearch,
            effect: Effect::Pure,
            parallel: true,
            telling_arguments: vec!["query".to_owned()],
            ..ToolSpec::new(
                "web_search",
                "Searches the web and returns what it found, with addresses.",
            )
        };
        let engine = Searxng::new(&options.base_url, options.timeout)?;
        Ok(Self { spec, engine, max_results: options.max_results })
    }
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
}

#[async_trait]
impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        context.phase("searching").await;
        let Arguments { query } =
            serde_path_to_error::deserialize(Value::Object(request.arguments))
                .map_err(|error| ToolError::InvalidArguments(error.to_string()))?;
        let hits = tokio::select! {
            biased;
            () = context.cancelled() => return Err(ToolError::failed("the search was cancelled")),
            hits = self.engine.find(&query) => hits?,
        };
        let domains = allowed_domains(&request.settings);
        let allowed = |hit: &Hit| domains.as_ref().is_none_or(|domains| hit.is_on(domains));
        let hits: Vec<Hit> = hits.into_iter().filter(allowed).take(self.max_results).collect();
        Ok(output(&query, &hits))
    }
}

/// The domains that a request wants to hear of; all of them if it does not say.
fn allowed_domains(settings: &Value) -> Option<Vec<String>> {
    let domains = settings.pointer("/filters/allowed_domains")?.as_array()?;
    let domain = |domain: &Value| Some(domain.as_str()?.trim().to_ascii_lowercase());
    Some(domains.iter().filter_map(domain).collect())
}

/// What the model and people are told.
fn output(query: &str, hits: &[Hit]) -> ToolOutput {
    let text = match hits {
        [] => format!("Nothing was found for: {query}"),
        hits => hits.iter().enumerate().map(worded).collect::<Vec<_>>().join("\n"),
    };
    let source = |hit: &Hit| json!({ "url": hit.url.as_str(), "title": hit.title });
    let sources: Vec<Value> = hits.iter().map(source).collect();
    ToolOutput {
        structured: Some(json!({ "query": query, "sources": sources })),
        short: Some(match hits.len() {
            0 => "nothing found".to_owned(),
            1 => "1 result".to_owned(),
            more => format!("{more} results"),
        }),
        ..ToolOutput::text(text)
    }
}

fn worded((n, hit): (usize, &Hit)) -> String {
    let (title, url) = (&hit.title, &hit.url);
    match hit.snippet.as_str() {
        "" => format!("{}. {title}\n   {url}", n + 1),
        snippet => format!("{}. {title}\n   {url}\n   {snippet}", n + 1),
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hit {
    url: Url,
    title: String,
    snippet: String,
}

impl Hit {
    fn is_on(&self, domains: &[String]) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let below = |domain: &String| host.strip_suffix(domain.as_str());
        domains.iter().filter_map(below).any(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

/// A `SearXNG` server.
struct Searxng {
    client: Client,
    address: Url,
    timeout: Duration,
}

/// Its answer, as far as we read it.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

impl Searxng {
    fn new(base_url: &str, timeout: Duration) -> Result<Self, WebSearchError> {
        let address = Url::parse(&format!("{}/search", base_url.trim_end_matches('/'))).ok();
        let address = address
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| WebSearchError::BaseUrl(base_url.to_owned()))?;
        let client = Client::builder()
            .user_agent(concat!("turnwire/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::custom(stay_on_the_host))
            // The operator named an address; the environment has no say in it.
            .no_proxy()
            .build()
            .map_err(|error| WebSearchError::Client(error.to_string()))?;
        Ok(Self { client, address, timeout })
    }

    /// Asks for `query`, and reads the answer.
    async fn find(&self, query: &str) -> Result<Vec<Hit>, ToolError> {
        let late = || {
            let seconds = self.timeout.as_secs_f64();
            ToolError::Transient(format!("the search engine has not answered within {seconds} s"))
        };
        tokio::time::timeout(self.timeout, self.ask(query)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn ask(&self, query: &str) -> Result<Vec<Hit>, ToolError> {
        let mut address = self.address.clone();
        address.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        let response = self.client.get(address).send().await.map_err(out_of_reach)?;
        if !response.status().is_success() {
            return Err(refused(response.status()));
        }
        let answer = read(response).await?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| {
            warn!(%error, "The search engine's answer is no list of results.");
            ToolError::failed("the search engine's answer makes no sense")
        })?;
        Ok(answer.results.into_iter().filter_map(hit).collect())
    }
}

/// A search engine that points to another host, or to another port of it, is not followed.
fn stay_on_the_host(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let (from, to) = (attempt.previous().first(), attempt.url());
    let place = |url: &Url| (url.host_str().map(str::to_owned), url.port_or_known_default());
    let same = from.is_some_and(|from| place(from) == place(to));
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

async fn read(response: Response) -> Result<Vec<u8>, ToolError> {
    let mut answer = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(more) = bytes.next().await {
        answer.extend_from_slice(&more.map_err(out_of_reach)?);
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(ToolError::failed("the search engine's answer is too long"));
        }
    }
    Ok(answer)
}

fn out_of_reach(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    warn!(?error, "The search engine is out of reach.");
    ToolError::Transient("the search engine is out of reach".to_owned())
}

fn refused(status: StatusCode) -> ToolError {
    warn!(%status, "The search engine refused.");
    if status == StatusCode::FORBIDDEN {
        return ToolError::failed(
            "the search engine refuses to answer in JSON (403): its operator has to add `json` to \
             `search.formats` in the settings.yml of SearXNG",
        );
    }
    let message = format!("the search engine answered with status {}", status.as_u16());
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        ToolError::Transient(message)
    } else {
        ToolError::Failed(message)
    }
}

fn hit(found: Found) -> Option<Hit> {
    let url = Url::parse(&found.url).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let title = on_one_line(found.title.as_deref().unwrap_or_default(), MAX_TITLE);
    let title = if title.is_empty() { url.to_string() } else { title };
    let snippet = on_one_line(found.content.as_deref().unwrap_or_default(), MAX_SNIPPET);
    Some(Hit { url, title, snippet })
}

fn on_one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most).chain(['…']).collect()
}

impl fmt::Debug for WebSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSearch").field("spec", &self.spec).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
