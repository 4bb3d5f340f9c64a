//! `SearXNG`, self-hosted.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::StatusCode;
use turnwire_contract::ToolError;

use super::{
    WebSearchError,
    engine::{Hit, SearchClient, SearchEngine, SearchQuery, SearchResponse},
};

/// Advice for a `SearXNG` that refuses JSON, which is its default.
pub(super) const NO_JSON: &str = "the search engine refuses to answer in JSON (403): its operator has to add `json` to \
     `search.formats` in the settings.yml of SearXNG";

#[derive(Debug)]
pub(super) struct Searxng(SearchClient);

impl Searxng {
    pub(super) fn new(base_url: &str, timeout: Duration) -> Result<Self, WebSearchError> {
        SearchClient::new(base_url, "/search", timeout, explain).map(Self)
    }
}

fn explain(status: StatusCode) -> Option<ToolError> {
    (status == StatusCode::FORBIDDEN).then(|| ToolError::failed(NO_JSON))
}

#[async_trait]
impl SearchEngine for Searxng {
    async fn find(&self, question: &SearchQuery) -> Result<Vec<Hit>, ToolError> {
        let answer: SearchResponse = self
            .0
            .ask(|client, mut address| {
                let mut query = address.query_pairs_mut();
                query.append_pair("q", &question.text).append_pair("format", "json");
                drop(query);
                client.get(address)
            })
            .await?;
        Ok(answer.hits())
    }
}
