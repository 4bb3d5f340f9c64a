//! Recorded requests, for assertions.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json,
    extract::{Query, State},
};
use serde_json::{Value, json};

/// Maximum number of recorded requests.
const MAX_KEPT: usize = 2_000;

/// The recorded requests; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Visitors(Arc<Mutex<VecDeque<Value>>>);

impl Visitors {
    /// Records a request to `path`.
    pub(super) fn note(&self, path: &str, body: Value) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(json!({ "path": path, "body": body }));
    }

    pub(super) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Returns all requests, or with `?containing=…` those that contain this text.
pub(super) async fn list(
    State(visitors): State<Visitors>,
    Query(query): Query<HashMap<String, String>>,
) -> Json<Value> {
    let mut requests = visitors.all();
    if let Some(text) = query.get("containing") {
        requests.retain(|request| request.to_string().contains(text.as_str()));
    }
    Json(json!({ "requests": requests }))
}

pub(super) async fn forget(State(visitors): State<Visitors>) -> Json<Value> {
    visitors.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Json(json!({ "requests": [] }))
}
