//! Settings of the file search in a request.

use std::{collections::HashSet, fmt};

use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::{CollectionId, Filter, FoundChunk, ToolError};

/// Default number of results per call.
const USUAL_RESULTS: usize = 10;

/// Maximum number of results per call.
const MAX_RESULTS: usize = 50;

/// The validated settings of a call.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) collections: Vec<CollectionId>,
    pub(super) most: usize,
    pub(super) filter: Option<Filter>,
    least_score: f64,
}

/// The settings as sent in a request. Unknown fields are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSettings {
    vector_store_ids: Vec<CollectionId>,
    max_num_results: Option<usize>,
    filters: Option<Value>,
    ranking_options: Option<RawRanking>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRanking {
    score_threshold: Option<f64>,
}

impl Settings {
    /// Parses the settings of a call. An invalid filter is an error. Ignoring it would return files
    /// that must be excluded.
    pub(super) fn read(settings: &Value) -> Result<Self, ToolError> {
        let raw = match settings {
            Value::Null => RawSettings::default(),
            settings => serde_path_to_error::deserialize(settings.clone()).map_err(no_sense)?,
        };
        if raw.vector_store_ids.is_empty() {
            return Err(ToolError::failed("there are no files to search in this conversation"));
        }
        let filter = raw.filters.as_ref().map(|filter| Filter::read(filter, "filters"));
        let ranking = raw.ranking_options.unwrap_or_default();
        Ok(Self {
            collections: raw.vector_store_ids,
            most: raw.max_num_results.unwrap_or(USUAL_RESULTS).clamp(1, MAX_RESULTS),
            filter: filter.transpose().map_err(no_sense)?,
            least_score: ranking.score_threshold.unwrap_or(0.0),
        })
    }

    /// Returns the best chunks of several queries, without duplicates.
    pub(super) fn best_of(&self, mut found: Vec<FoundChunk>) -> Vec<FoundChunk> {
        found.retain(|chunk| chunk.score >= self.least_score);
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut seen = HashSet::new();
        found.retain(|chunk| seen.insert((chunk.file_id.clone(), chunk.text.clone())));
        found.truncate(self.most);
        found
    }
}

fn no_sense(error: impl fmt::Display) -> ToolError {
    ToolError::failed(format!("the settings of the file search are not valid: {error}"))
}
