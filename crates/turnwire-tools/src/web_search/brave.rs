//! Brave Search.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{StatusCode, header::ACCEPT};
use serde::Deserialize;
use turnwire_contract::ToolError;

use super::{
    WebSearchError,
    engine::{Hit, SearchClient, SearchEngine, SearchQuery, key_refused},
};
use crate::Secret;

pub(super) const ADDRESS: &str = "https://api.search.brave.com/res/v1";
/// Brave rejects longer queries and returns at most 20 results.
const MAX_CHARACTERS: usize = 400;
const MAX_WORDS: usize = 50;
const MAX_RESULTS: usize = 20;

#[derive(Debug)]
pub(super) struct Brave {
    client: SearchClient,
    key: Secret,
}

impl Brave {
    pub(super) fn new(
        base_url: &str,
        key: Secret,
        timeout: Duration,
    ) -> Result<Self, WebSearchError> {
        Ok(Self { client: SearchClient::new(base_url, "/web/search", timeout, explain)?, key })
    }
}

/// Brave answers 422 to an unknown key.
fn explain(status: StatusCode) -> Option<ToolError> {
    let is_about_the_key = matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY
    );
    is_about_the_key.then(|| key_refused(status))
}

#[derive(Deserialize)]
struct SearchResponse {
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<SearchResult>,
}

#[derive(Deserialize)]
struct SearchResult {
    url: String,
    title: Option<String>,
    description: Option<String>,
}

#[async_trait]
impl SearchEngine for Brave {
    async fn find(&self, question: &SearchQuery) -> Result<Vec<Hit>, ToolError> {
        let count = question.most.clamp(1, MAX_RESULTS).to_string();
        let answer: SearchResponse = self
            .client
            .ask(|client, mut address| {
                let mut query = address.query_pairs_mut();
                query.append_pair("q", &shortened(&question.text));
                query.append_pair("count", &count);
                query.append_pair("text_decorations", "false");
                if let Some(country) = &question.country {
                    query.append_pair("country", country);
                }
                drop(query);
                let request = client.get(address).header(ACCEPT, "application/json");
                request.header("x-subscription-token", self.key.reveal())
            })
            .await?;
        let hit = |found: SearchResult| {
            let plain = |text: Option<String>| text.map(|text| plain(&text));
            let (title, description) = (plain(found.title), plain(found.description));
            Hit::new(&found.url, title.as_deref(), description.as_deref())
        };
        Ok(answer.web.into_iter().flat_map(|web| web.results).filter_map(hit).collect())
    }
}

fn shortened(question: &str) -> String {
    let words = question.split_whitespace().take(MAX_WORDS).collect::<Vec<_>>().join(" ");
    words.chars().take(MAX_CHARACTERS).collect()
}

/// Brave returns texts with HTML entities and sometimes tags.
fn plain(text: &str) -> String {
    let mut outside = String::new();
    let mut is_tag = false;
    for c in text.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            c if !is_tag => outside.push(c),
            _ => {}
        }
    }
    html_escape::decode_html_entities(&outside).into_owned()
}
