//! `/v1/vector_stores/{vector_store_id}/search`: the passages that answer a question best.

use std::{collections::HashSet, ops::RangeInclusive, slice};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{Filter, Passage, Query};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{attached::Text, find};
use crate::{
    app::App,
    body::{Json, JsonBody, typed},
    door::Caller,
    files::missing,
    path::PathParams,
    refusal::Refusal,
    responses::request::ClientError,
};

/// How many results a client may ask for, and how many it gets if it does not.
const RESULTS: RangeInclusive<usize> = 1..=50;
const USUAL_RESULTS: usize = 10;

/// How many questions can be asked at once, and how many characters each may have.
const MAX_QUESTIONS: usize = 10;
const MAX_QUESTION: usize = 4_096;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(search))
}

/// What is looked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SearchBody {
    /// A question, or up to ten.
    #[schema(value_type = Object)]
    query: Option<Questions>,
    /// Which files are looked at: a comparison of an attribute, or several of them joined with
    /// `and` or `or`.
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// How many results at most, 1 to 50; 10 if not set.
    max_num_results: Option<usize>,
    ranking_options: Option<RankingOptions>,
    /// Not heeded: the library looks for the question as it is.
    rewrite_query: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Questions {
    One(String),
    Several(Vec<String>),
}

/// Which results are good enough.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RankingOptions {
    /// The least score of a result, 0 to 1.
    score_threshold: Option<f64>,
    /// Not heeded: there is one.
    ranker: Option<String>,
    /// Not heeded: words and vectors count alike.
    #[schema(value_type = Option<Object>)]
    hybrid_search: Option<Value>,
}

impl SearchBody {
    /// What is asked for and not heeded.
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

/// What was found, best first.
#[derive(Debug, Serialize, ToSchema)]
struct SearchPage {
    /// Always `vector_store.search_results.page`.
    object: &'static str,
    search_query: Vec<String>,
    data: Vec<SearchResult>,
    /// Always false.
    has_more: bool,
    next_page: Option<String>,
    /// True if passages could be found by their words only just now, because the embeddings model
    /// is away. Not there otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    words_only: bool,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// A passage that was found.
#[derive(Debug, Serialize, ToSchema)]
struct SearchResult {
    file_id: String,
    filename: String,
    /// Between 0 and 1; more is better.
    score: f64,
    #[schema(value_type = Object)]
    attributes: Map<String, Value>,
    content: Vec<Text>,
}

impl From<Passage> for SearchResult {
    fn from(Passage { file_id, file_name, score, text, attributes }: Passage) -> Self {
        let (file_id, content) = (file_id.to_string(), vec![Text::new(text)]);
        Self { file_id, filename: file_name, score, attributes, content }
    }
}

/// A search whose every part has been checked.
#[derive(Debug, PartialEq)]
struct Search {
    questions: Vec<String>,
    filter: Option<Filter>,
    most: usize,
    least_score: f64,
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/search",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    request_body = SearchBody,
    responses((status = 200, description = "What was found, best first", body = SearchPage))
)]
async fn search(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<SearchPage>, Refusal> {
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
        let answer = answer.map_err(|error| missing("Vector store", &id, error))?;
        words_only = words_only || answer.words_only.is_some();
        found.extend(answer.passages);
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

/// The best of what several questions have found, each passage once.
fn best_of(mut found: Vec<Passage>, search: &Search) -> Vec<Passage> {
    found.retain(|passage| passage.score >= search.least_score);
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut seen = HashSet::new();
    found.retain(|passage| seen.insert((passage.file_id.clone(), passage.text.clone())));
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
