//! A `SearXNG` whose results are generated from the query.

use std::{collections::HashMap, time::Duration};

use axum::{
    Json,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::visitors::Visitors;

/// Delay of a slow search.
const SLOW: Duration = Duration::from_secs(2);

/// Answers `?q=…&format=json` with three pages about the query.
///
/// A query with `boom` fails, one with `forbidden` is rejected, one with `nothing` has no results
/// and one with `slow` takes two seconds. Any other format is rejected, as by a `SearXNG` without
/// JSON enabled.
pub(super) async fn search(
    State(visitors): State<Visitors>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    visitors.note("/search", json!(query));
    let asked = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let question = asked("q");
    if question.is_empty() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    if asked("format") != "json" || question.contains("forbidden") {
        return StatusCode::FORBIDDEN.into_response();
    }
    if question.contains("boom") {
        return (StatusCode::INTERNAL_SERVER_ERROR, "boom").into_response();
    }
    if question.contains("slow") {
        tokio::time::sleep(SLOW).await;
    }
    Json(findings(question)).into_response()
}

fn findings(question: &str) -> Value {
    let n_pages = if question.contains("nothing") { 0 } else { 3 };
    let pages: Vec<Value> = (1..=n_pages).map(|rank| page(question, rank)).collect();
    json!({
        "query": question,
        "number_of_results": n_pages,
        "results": pages,
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [],
    })
}

fn page(question: &str, rank: u32) -> Value {
    let words: Vec<&str> = question.split_whitespace().collect();
    json!({
        "url": format!("https://example.com/{}/{rank}", words.join("-")),
        "title": format!("Page {rank} about {question}"),
        "content": format!("What page {rank} says about {question}."),
        "engine": "stub",
        "engines": ["stub"],
        "category": "general",
        "template": "default.html",
        "positions": [rank],
        "score": 1.0 / f64::from(rank),
        "publishedDate": null,
    })
}
