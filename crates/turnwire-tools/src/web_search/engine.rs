//! Common parts of all search engines: query, results and errors.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::{Deserialize, de::DeserializeOwned};
use tracing::warn;
use turnwire_contract::ToolError;
use turnwire_http::{ReadError, chain, read_at_most};

use super::WebSearchError;

/// Maximum size of a response in bytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Maximum length of a title and of a snippet for the model.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 500;
/// Maximum number of redirects on the same host.
const MAX_REDIRECTS: usize = 3;

#[async_trait]
pub(super) trait SearchEngine: Send + Sync {
    /// Returns the results, best first.
    async fn find(&self, question: &SearchQuery) -> Result<Vec<Hit>, ToolError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchQuery {
    pub(super) text: String,
    /// Number of results to return.
    pub(super) most: usize,
    /// Restricts the results to these domains; no restriction if empty.
    pub(super) domains: Vec<String>,
    /// Country of the user, as two letters.
    pub(super) country: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) url: Url,
    pub(super) title: String,
    pub(super) snippet: String,
}

/// Results as `SearXNG` and Tavily send them.
#[derive(Deserialize)]
pub(super) struct SearchResponse {
    #[serde(default)]
    results: Vec<SearchResult>,
}

#[derive(Deserialize)]
struct SearchResult {
    url: String,
    title: Option<String>,
    content: Option<String>,
}

impl SearchResponse {
    pub(super) fn hits(self) -> Vec<Hit> {
        let hit = |found: SearchResult| {
            Hit::new(&found.url, found.title.as_deref(), found.content.as_deref())
        };
        self.results.into_iter().filter_map(hit).collect()
    }
}

impl Hit {
    /// Creates a result; `None` if the URL is not http or https.
    pub(super) fn new(url: &str, title: Option<&str>, snippet: Option<&str>) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        let title = on_one_line(title.unwrap_or_default(), MAX_TITLE);
        let title = if title.is_empty() { url.to_string() } else { title };
        let snippet = on_one_line(snippet.unwrap_or_default(), MAX_SNIPPET);
        Some(Self { url, title, snippet })
    }
}

pub(super) fn on_one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most).chain(['…']).collect()
}

/// Converts statuses with an engine-specific meaning.
pub(super) type ExplainStatus = fn(StatusCode) -> Option<ToolError>;

/// HTTP client for a search engine. The URL comes from the operator, so it may be private.
#[derive(Debug)]
pub(super) struct SearchClient {
    client: Client,
    address: Url,
    timeout: Duration,
    explain: ExplainStatus,
}

impl SearchClient {
    pub(super) fn new(
        base_url: &str,
        path: &str,
        timeout: Duration,
        explain: ExplainStatus,
    ) -> Result<Self, WebSearchError> {
        let address = Url::parse(&format!("{}{path}", base_url.trim_end_matches('/'))).ok();
        let address = address
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| WebSearchError::BaseUrl(base_url.to_owned()))?;
        let client = turnwire_http::client()
            .redirect(redirect::Policy::custom(stay_on_the_host))
            // A proxy from the environment must not redirect the operator's URL.
            .no_proxy()
            .build()
            .map_err(|error| WebSearchError::Client(chain(&error)))?;
        Ok(Self { client, address, timeout, explain })
    }

    /// Sends the request built by `write`, and parses the response.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        write: impl FnOnce(&Client, Url) -> RequestBuilder + Send,
    ) -> Result<T, ToolError> {
        let asking = self.send(write(&self.client, self.address.clone()));
        tokio::time::timeout(self.timeout, asking).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            let late = format!("the search engine did not respond within {seconds} s");
            Err(ToolError::Transient(late))
        })
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ToolError> {
        let response = request.send().await.map_err(out_of_reach)?;
        let status = response.status();
        if !status.is_success() {
            warn!(%status, "search engine returned an error");
            return Err((self.explain)(status).unwrap_or_else(|| refused(status)));
        }
        let answer = read(response).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            warn!(%error, "unreadable search results");
            ToolError::failed("the response of the search engine is not valid")
        })
    }
}

/// Follows redirects only on the same host and port, because the request contains the key.
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
    read_at_most(response, MAX_ANSWER_BYTES).await.map_err(|unread| match unread {
        ReadError::Broken(error) => out_of_reach(error),
        ReadError::TooLong => ToolError::failed("the response of the search engine is too large"),
    })
}

fn out_of_reach(error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    warn!(?error, "search engine unreachable");
    ToolError::Transient("cannot connect to the search engine".to_owned())
}

fn refused(status: StatusCode) -> ToolError {
    let message = format!("the search engine answered with status {}", status.as_u16());
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        ToolError::Transient(message)
    } else {
        ToolError::Failed(message)
    }
}

/// Error for a key that was refused.
pub(super) fn key_refused(status: StatusCode) -> ToolError {
    ToolError::failed(format!(
        "the search engine rejected the key ({}): its operator has to check the variable \
         that `api_key_env` names",
        status.as_u16()
    ))
}
