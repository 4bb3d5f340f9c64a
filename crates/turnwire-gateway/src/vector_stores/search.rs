//! `/v1/vector_stores/{vector_store_id}/search`: searching for chunks.

use std::{collections::HashSet, ops::RangeInclusive, slice};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{Filter, FoundChunk, Query};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;

use super::{attached::Text, find};
use crate::{
    App, Caller, Json, JsonBody, OrNotFound, PathParams, Result, client_error::ClientError, typed,
};

/// Range of `max_num_results`, and its default.
const RESULTS: RangeInclusive<usize> = 1..=50;
const USUAL_RESULTS: usize = 10;

/// Maximum number of queries, and maximum length of each in characters.
const MAX_QUESTIONS: usize = 10;
const MAX_QUESTION: usize = 4_096;

module_routes! { [search] }

/// Request body of a search.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SearchBody {
    /// A string, or an array of up to 10 strings. Each has at most 4096 characters. Required.
    #[schema(value_type = Object)]
    query: Option<Questions>,
    /// Filter on file attributes: a comparison such as
    /// `{"type": "eq", "key": "year", "value": 2024}`, or several joined with `and` or `or`.
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// Maximum number of results, 1 to 50. Default: 10.
    max_num_results: Option<usize>,
    /// Options for ranking the results.
    ranking_options: Option<RankingOptions>,
    /// Accepted and ignored: the query is used as it is.
    rewrite_query: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Questions {
    One(String),
    Several(Vec<String>),
}

/// Options for ranking the results.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RankingOptions {
    /// Minimum score of a result, 0 to 1. Default: 0.
    score_threshold: Option<f64>,
    /// Accepted and ignored: there is only one ranker.
    ranker: Option<String>,
    /// Accepted and ignored: words and embeddings have equal weight.
    #[schema(value_type = Option<Object>)]
    hybrid_search: Option<Value>,
}

impl SearchBody {
    /// The fields that were ignored.
    fn ignored(&self) -> Vec<String> {
        let ranking = self.ranking_options.as_ref();
        let ranker = ranking.and_then(|ranking| ranking.ranker.as_deref());
        let fields = [
            ("rewrite_query", self.rewrite_query == Some(true)),
            ("ranking_options.ranker", ranker.is_some_and(|ranker| ranker != "auto")),
            (
                "ranking_options.hybrid_search",
                ranking.is_some_and(|ranking| ranking.hybrid_search.is_some()),
            ),
        ];
        let asked = fields.into_iter().filter(|(_, is_asked)| *is_asked);
        asked.map(|(name, _)| name.to_owned()).collect()
    }
}

/// Search results, best first.
#[derive(Debug, Serialize, ToSchema)]
struct SearchPage {
    /// Always `vector_store.search_results.page`.
    object: &'static str,
    /// The queries.
    search_query: Vec<String>,
    /// The matching chunks, best first.
    data: Vec<SearchResult>,
    /// Always false.
    has_more: bool,
    /// Always null.
    next_page: Option<String>,
    /// True if only words were matched because the embeddings model is not available. Missing
    /// otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    words_only: bool,
    /// Present if request fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// A matching chunk.
#[derive(Debug, Serialize, ToSchema)]
struct SearchResult {
    /// ID of the file.
    file_id: String,
    /// Name of the file.
    filename: String,
    /// Relevance, 0 to 1. Higher is better.
    score: f64,
    /// Attributes of the file in this vector store.
    #[schema(value_type = Object)]
    attributes: Map<String, Value>,
    /// Text of the chunk.
    content: Vec<Text>,
}

impl From<FoundChunk> for SearchResult {
    fn from(FoundChunk { file_id, file_name, score, text, attributes }: FoundChunk) -> Self {
        let (file_id, content) = (file_id.to_string(), vec![Text::new(text)]);
        Self { file_id, filename: file_name, score, attributes, content }
    }
}

#[derive(Debug, PartialEq)]
struct Search {
    questions: Vec<String>,
    filter: Option<Filter>,
    most: usize,
    least_score: f64,
}

/// Search a vector store.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/search",
    request_body = SearchBody,
    responses((status = 200, description = "The matching chunks, best first", body = SearchPage))
)]
async fn search(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<SearchPage>> {
    let store = find(&app, &caller, &id).await?;
    let body: SearchBody = typed(body)?;
    let ignored = body.ignored();
    let search = read(body)?;
    let (mut found, mut words_only) = (Vec::new(), false);
    for text in &search.questions {
        let filter = search.filter.clone();
        let query = Query { filter, ..Query::new(text.as_str(), search.most) };
        let answer =
            app.library().search(caller.tenant(), slice::from_ref(&store.id), &query).await;
        let answer = answer.or_not_found("Vector store", &id)?;
        words_only = words_only || answer.words_only.is_some();
        found.extend(answer.chunks);
    }
    let data = best_of(found, &search).into_iter().map(SearchResult::from).collect();
    Ok(Json(SearchPage {
        object: "vector_store.search_results.page",
        search_query: search.questions,
        data,
        has_more: false,
        next_page: None,
        words_only,
        turnwire: (!ignored.is_empty()).then_some(ResponseNote { ignored }),
    }))
}

/// The best results of several queries, without duplicates.
fn best_of(mut found: Vec<FoundChunk>, search: &Search) -> Vec<FoundChunk> {
    found.retain(|chunk| chunk.score >= search.least_score);
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut seen = HashSet::new();
    found.retain(|chunk| seen.insert((chunk.file_id.clone(), chunk.text.clone())));
    found.truncate(search.most);
    found
}

fn read(body: SearchBody) -> Result<Search, ClientError> {
    let questions = match body.query.ok_or_else(|| ClientError::missing("query"))? {
        Questions::One(question) => vec![question],
        Questions::Several(questions) => questions,
    };
    let is_question = |text: &String| (1..=MAX_QUESTION).contains(&text.chars().count());
    if !(1..=MAX_QUESTIONS).contains(&questions.len()) || !questions.iter().all(is_question) {
        let message = format!(
            "`query` must be 1 to {MAX_QUESTIONS} texts of 1 to {MAX_QUESTION} characters."
        );
        return Err(ClientError::invalid("query", message));
    }
    let most = body.max_num_results.unwrap_or(USUAL_RESULTS);
    if !RESULTS.contains(&most) {
        let message = "`max_num_results` must be between 1 and 50.";
        return Err(ClientError::invalid("max_num_results", message));
    }
    let least_score = body.ranking_options.unwrap_or_default().score_threshold.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&least_score) {
        let message = "`ranking_options.score_threshold` must be between 0 and 1.";
        return Err(ClientError::invalid("ranking_options.score_threshold", message));
    }
    let filter = body.filters.as_ref().map(read_filter).transpose()?;
    Ok(Search { questions, filter, most, least_score })
}

fn read_filter(filter: &Value) -> Result<Filter, ClientError> {
    Filter::read(filter, "filters").map_err(|mistake| {
        let message = format!("{mistake}.");
        ClientError::invalid(mistake.path, message)
    })
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
