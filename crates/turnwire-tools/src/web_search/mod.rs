//! Web search and reading of pages.
//!
//! [`WebSearch`] is the tool. `searxng`, `brave` and `tavily` are the search engines, behind the
//! trait in `engine`. Pages are fetched through [`egress`](crate::egress), and
//! [`documents`](crate::documents) reads them.

mod brave;
mod engine;
mod page;
mod params;
mod searxng;
mod tavily;

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use futures::{TryStreamExt, stream::FuturesOrdered};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;
use turnwire_contract::{
    Effect, TenantId, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
    partial_debug,
};

use self::{
    brave::Brave,
    engine::{Hit, SearchEngine, SearchQuery},
    page::Page,
    params::SearchParams,
    searxng::Searxng,
    tavily::Tavily,
};
use crate::{
    Result, Secret,
    documents::{DocumentReader, MAX_PATTERN},
    egress::Egress,
    function::typed,
};

/// Maximum number of queries per call.
const MAX_QUERIES: usize = 4;

/// Description of the tool for the model.
const DESCRIPTION: &str = "Searches the web. Say in your answer where things come from: link the page as in \
     [title](address), or put the number of the finding in brackets, as in [1].";
const DESCRIPTION_WITH_PAGES: &str = "Searches the web (`search`), shows the text of a page (`open_page`), and finds a text in a \
     page (`find_in_page`). Say in your answer where things come from: link the page as in \
     [title](address), or put the number of the finding in brackets, as in [1].";

/// A search engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchProvider {
    /// A self-hosted `SearXNG`.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
}

/// Settings of the web search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSearchOptions {
    /// The search engine.
    pub provider: SearchProvider,
    /// Base URL of the search engine.
    pub base_url: String,
    /// API key, if required.
    pub api_key: Option<Secret>,
    /// Maximum number of results for the model.
    pub max_results: usize,
    /// Timeout of a request to the search engine.
    pub timeout: Duration,
    /// Whether the model may open pages.
    pub open_pages: bool,
}

impl WebSearchOptions {
    /// Settings with default limits for `SearXNG` at `base_url`.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            provider: SearchProvider::Searxng,
            base_url: base_url.into(),
            api_key: None,
            max_results: 8,
            timeout: Duration::from_secs(10),
            open_pages: true,
        }
    }

    /// Settings with default limits for Brave Search.
    pub fn brave(api_key: Secret) -> Self {
        let (provider, api_key) = (SearchProvider::Brave, Some(api_key));
        Self { provider, api_key, ..Self::new(brave::ADDRESS) }
    }

    /// Settings with default limits for Tavily.
    pub fn tavily(api_key: Secret) -> Self {
        let (provider, api_key) = (SearchProvider::Tavily, Some(api_key));
        Self { provider, api_key, ..Self::new(tavily::ADDRESS) }
    }
}

/// Why the search could not be set up. The operator has to fix the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebSearchError {
    /// The base URL is invalid.
    #[error("`{0}` is not an http or https URL")]
    BaseUrl(String),
    /// The key is missing or invalid in a header.
    #[error("the search engine needs a key")]
    NoKey,
    /// The HTTP client could not be created, usually because there are no root certificates.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

/// Searches the web and opens pages.
///
/// The model calls it with `{"query": "…"}`, or with an `action`: `search` (with `query` or
/// `queries`), `open_page` (with `url`) or `find_in_page` (with `url` and `pattern`). A request may
/// restrict it in its tool entry: `filters.allowed_domains`, `filters.blocked_domains`,
/// `search_context_size`, `user_location.country`; with `external_web_access: false` no page is
/// opened.
pub struct WebSearch {
    spec: ToolSpec,
    engine: Box<dyn SearchEngine>,
    egress: Egress,
    documents: DocumentReader,
    max_results: usize,
    open_pages: bool,
}

impl WebSearch {
    /// Creates the tool. Pages are opened through `egress`, and read
    /// [in this process](DocumentReader::in_process). Sends no request.
    pub fn new(options: WebSearchOptions, egress: Egress) -> Result<Self, WebSearchError> {
        let WebSearchOptions { provider, base_url, api_key, max_results, timeout, open_pages } =
            options;
        let key = || api_key.clone().ok_or(WebSearchError::NoKey);
        let engine: Box<dyn SearchEngine> = match provider {
            SearchProvider::Searxng => Box::new(Searxng::new(&base_url, timeout)?),
            SearchProvider::Brave => Box::new(Brave::new(&base_url, key()?, timeout)?),
            SearchProvider::Tavily => Box::new(Tavily::new(&base_url, key()?, timeout)?),
        };
        let (spec, documents) = (spec(open_pages), DocumentReader::in_process());
        Ok(Self { spec, engine, egress, documents, max_results, open_pages })
    }

    /// Reads pages with this reader instead.
    #[must_use]
    pub fn documents(self, documents: DocumentReader) -> Self {
        Self { documents, ..self }
    }

    /// Sends one query to test the search engine. Returns the number of results.
    pub async fn try_out(&self, question: &str) -> Result<usize> {
        let question = self.question(question, &SearchParams::default());
        Ok(self.engine.find(&question).await?.len())
    }

    fn question(&self, text: &str, params: &SearchParams) -> SearchQuery {
        SearchQuery {
            text: text.to_owned(),
            most: params.most(self.max_results),
            domains: params.domains(),
            country: params.country.clone(),
        }
    }

    async fn search(
        &self,
        queries: Vec<String>,
        params: &SearchParams,
        context: &ToolContext,
    ) -> Result<ToolOutput> {
        context.phase("searching").await;
        let n_queries = queries.len();
        let questions: Vec<SearchQuery> =
            queries.iter().map(|query| self.question(query, params)).collect();
        let mut asking: FuturesOrdered<_> =
            questions.iter().map(|question| self.engine.find(question)).collect();
        let mut found = Vec::new();
        while let Some(hits) = asking.try_next().await? {
            found.push(hits);
            if n_queries > 1 {
                let (n_done, total) = (as_f64(found.len()), as_f64(n_queries));
                context.progress_with(n_done, total, counted(found.concat().len())).await;
            }
        }
        let hits = best_of(found, params, params.most(self.max_results));
        Ok(found_output(&queries, &hits))
    }

    async fn open(
        &self,
        tenant: &TenantId,
        url: &str,
        pattern: Option<&str>,
        params: &SearchParams,
        context: &ToolContext,
    ) -> Result<Page> {
        if !self.open_pages {
            return Err(ToolError::failed("pages cannot be opened here, only searched for"));
        }
        if params.is_offline {
            return Err(ToolError::failed("the request does not allow pages to be opened"));
        }
        context.phase("opening").await;
        let fetched = page::fetch(&self.egress, url, params).await?;
        context.phase("reading").await;
        if pattern.is_some() {
            context.phase("finding").await;
        }
        page::read(&self.documents, tenant, fetched, pattern).await
    }

    async fn act(
        &self,
        tenant: &TenantId,
        action: Action,
        params: &SearchParams,
        context: &ToolContext,
    ) -> Result<ToolOutput> {
        match action {
            Action::Search(queries) => self.search(queries, params, context).await,
            Action::OpenPage(url) => {
                let page = self.open(tenant, &url, None, params, context).await?;
                Ok(page_output(&url, &page))
            }
            Action::FindInPage { url, pattern } => {
                let page = self.open(tenant, &url, Some(&pattern), params, context).await?;
                Ok(places_output(&url, &pattern, &page))
            }
        }
    }
}

fn spec(open_pages: bool) -> ToolSpec {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let mut properties = json!({
        "query": text("What to look for, in a few words."),
        "queries": {
            "type": "array",
            "items": { "type": "string" },
            "minItems": 1,
            "maxItems": MAX_QUERIES,
            "description": "Several things to look for at once, instead of `query`.",
        },
    });
    if let Some(properties) = properties.as_object_mut().filter(|_| open_pages) {
        let action = json!({
            "type": "string",
            "enum": ["search", "open_page", "find_in_page"],
            "description": "What to do; `search` if left out.",
        });
        properties.insert("action".to_owned(), action);
        properties.insert("url".to_owned(), text("The page to open, or to find something in."));
        properties.insert("pattern".to_owned(), text("The text to find in the page."));
    }
    ToolSpec {
        parameters: json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        }),
        kind: ToolKind::WebSearch,
        effect: Effect::Pure,
        parallel: true,
        telling_arguments: ["query", "queries", "pattern", "url"].map(str::to_owned).to_vec(),
        ..ToolSpec::new("web_search", if open_pages { DESCRIPTION_WITH_PAGES } else { DESCRIPTION })
    }
}

/// The action requested by the model.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Search(Vec<String>),
    OpenPage(String),
    FindInPage { url: String, pattern: String },
}

/// The arguments of a call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    action: Option<ActionName>,
    query: Option<String>,
    queries: Option<Vec<String>>,
    url: Option<String>,
    pattern: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionName {
    Search,
    OpenPage,
    FindInPage,
}

impl Action {
    fn read(arguments: Map<String, Value>) -> Result<Self> {
        let Arguments { action, query, queries, url, pattern } = typed(arguments)?;
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (url, pattern) = (said(url), said(pattern));
        let queries: Vec<String> = queries
            .unwrap_or_default()
            .into_iter()
            .chain(query)
            .filter_map(|q| said(Some(q)))
            .collect();
        let missing = |what: &str| ToolError::InvalidArguments(format!("{what} is missing"));
        // A missing action follows from the other arguments.
        let action = action.unwrap_or(match (&url, &pattern) {
            (Some(_), Some(_)) => ActionName::FindInPage,
            (Some(_), None) if queries.is_empty() => ActionName::OpenPage,
            _ => ActionName::Search,
        });
        match action {
            ActionName::Search if queries.is_empty() => Err(missing("`query`")),
            ActionName::Search => Ok(Self::Search(distinct(queries))),
            ActionName::OpenPage => url.map(Self::OpenPage).ok_or_else(|| missing("`url`")),
            ActionName::FindInPage if pattern.as_deref().is_some_and(is_too_long) => {
                let message = format!("`pattern` has more than {MAX_PATTERN} characters");
                Err(ToolError::InvalidArguments(message))
            }
            ActionName::FindInPage => Ok(Self::FindInPage {
                url: url.ok_or_else(|| missing("`url`"))?,
                pattern: pattern.ok_or_else(|| missing("`pattern`"))?,
            }),
        }
    }
}

fn is_too_long(pattern: &str) -> bool {
    pattern.chars().nth(MAX_PATTERN).is_some()
}

fn distinct(queries: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    queries.into_iter().filter(|query| seen.insert(query.clone())).take(MAX_QUERIES).collect()
}

#[async_trait]
impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: ToolRequest, context: ToolContext) -> Result<ToolOutput> {
        let action = Action::read(request.arguments)?;
        let params = SearchParams::read(&request.settings);
        tokio::select! {
            biased;
            () = context.cancelled() => Err(ToolError::failed("the search was cancelled")),
            output = self.act(&request.tenant, action, &params, &context) => output,
        }
    }
}

/// Interleaves the results of all queries by rank, without duplicates.
fn best_of(found: Vec<Vec<Hit>>, params: &SearchParams, most: usize) -> Vec<Hit> {
    let longest = found.iter().map(Vec::len).max().unwrap_or_default();
    let in_turn = (0..longest).flat_map(|rank| found.iter().filter_map(move |hits| hits.get(rank)));
    let mut seen = HashSet::new();
    let hits = in_turn.filter(|hit| params.takes(&hit.url) && seen.insert(hit.url.clone()));
    hits.take(most).cloned().collect()
}

/// Formats search results for the model and for display.
fn found_output(queries: &[String], hits: &[Hit]) -> ToolOutput {
    let text = match hits {
        [] => format!("Nothing was found for: {}", queries.join("; ")),
        hits => hits.iter().enumerate().map(worded).collect::<Vec<_>>().join("\n"),
    };
    let source = |hit: &Hit| json!({ "url": hit.url.as_str(), "title": hit.title });
    let sources: Vec<Value> = hits.iter().map(source).collect();
    ToolOutput {
        structured: Some(json!({ "action": "search", "queries": queries, "sources": sources })),
        short: Some(counted(hits.len())),
        ..ToolOutput::text(text)
    }
}

fn counted(n_hits: usize) -> String {
    match n_hits {
        0 => "nothing found".to_owned(),
        1 => "1 result".to_owned(),
        more => format!("{more} results"),
    }
}

fn worded((n, hit): (usize, &Hit)) -> String {
    let (title, url) = (&hit.title, &hit.url);
    match hit.snippet.as_str() {
        "" => format!("[{}] {title}\n    {url}", n + 1),
        snippet => format!("[{}] {title}\n    {url}\n    {snippet}", n + 1),
    }
}

/// Formats a page for the model and for display.
fn page_output(asked: &str, page: &Page) -> ToolOutput {
    let (shown, n_characters) = (&page.text, page.n_characters);
    let n_shown = shown.chars().count();
    let cut = if n_characters > n_shown {
        format!(
            "\n[cut here: {n_shown} of {n_characters} characters shown; find_in_page \
             looks through all of them]"
        )
    } else {
        String::new()
    };
    ToolOutput {
        structured: Some(json!({
            "action": "open_page",
            "url": asked,
            "sources": sources_of(asked, page),
        })),
        short: Some(page.title.clone()),
        ..ToolOutput::text(format!("{}\n{}\n\n{shown}{cut}", page.title, page.url))
    }
}

/// Formats matches in a page for the model and for display.
fn places_output(asked: &str, pattern: &str, page: &Page) -> ToolOutput {
    let places = &page.matches;
    let (count, n_shown) = (places.total, places.shown.len());
    let short = match count {
        0 => "not found".to_owned(),
        1 => "1 place".to_owned(),
        more => format!("{more} places"),
    };
    let head = match count {
        0 => format!("`{pattern}` is not on the page."),
        _ if n_shown < count => format!("{count} places, the first {n_shown}:"),
        _ => format!("{short}:"),
    };
    let shown: Vec<String> = places.shown.iter().map(|place| format!("- {place}")).collect();
    let text = [format!("{}\n{}\n\n{head}", page.title, page.url)].into_iter().chain(shown);
    ToolOutput {
        structured: Some(json!({
            "action": "find_in_page",
            "url": asked,
            "pattern": pattern,
            "sources": sources_of(asked, page),
        })),
        short: Some(short),
        ..ToolOutput::text(text.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns the page under its final URL, and under the requested one if that differs: the model may
/// cite either.
fn sources_of(asked: &str, page: &Page) -> Vec<Value> {
    let source = |url: &str| json!({ "url": url, "title": page.title });
    let found = page.url.as_str();
    let asked = Some(asked.trim()).filter(|asked| *asked != found);
    [found].into_iter().chain(asked).map(source).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a handful of questions")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

partial_debug!(WebSearch { spec });

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "wire_tests.rs"]
mod wire_tests;
