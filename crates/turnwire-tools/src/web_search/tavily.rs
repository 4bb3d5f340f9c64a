//! Tavily.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::StatusCode;
use serde_json::json;
use turnwire_contract::ToolError;

use super::{
    WebSearchError,
    engine::{Hit, SearchClient, SearchEngine, SearchQuery, SearchResponse, key_refused},
};
use crate::Secret;

pub(super) const ADDRESS: &str = "https://api.tavily.com";
/// Tavily returns at most 20 results.
const MAX_RESULTS: usize = 20;
/// Status codes of Tavily for an exhausted plan.
const USED_UP: [u16; 2] = [432, 433];

#[derive(Debug)]
pub(super) struct Tavily {
    client: SearchClient,
    key: Secret,
}

impl Tavily {
    pub(super) fn new(
        base_url: &str,
        key: Secret,
        timeout: Duration,
    ) -> Result<Self, WebSearchError> {
        Ok(Self { client: SearchClient::new(base_url, "/search", timeout, explain)?, key })
    }
}

fn explain(status: StatusCode) -> Option<ToolError> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(key_refused(status)),
        status if USED_UP.contains(&status.as_u16()) => Some(ToolError::failed(format!(
            "the search engine's plan is used up ({}): its operator has to wait or to extend it",
            status.as_u16()
        ))),
        _ => None,
    }
}

#[async_trait]
impl SearchEngine for Tavily {
    async fn find(&self, question: &SearchQuery) -> Result<Vec<Hit>, ToolError> {
        let body = json!({
            "query": question.text,
            "max_results": question.most.clamp(1, MAX_RESULTS),
            "include_domains": question.domains,
        });
        let answer: SearchResponse = self
            .client
            .ask(|client, address| client.post(address).bearer_auth(self.key.reveal()).json(&body))
            .await?;
        Ok(answer.hits())
    }
}
