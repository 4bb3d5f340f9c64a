//! What a request says about its file search.

use std::{collections::HashSet, fmt};

use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::{CollectionId, Filter, FoundChunk, ToolError};

/// How many passages a call returns, if the request does not say.
const USUAL_RESULTS: usize = 10;

/// How many it may ask for.
const MAX_RESULTS: usize = 50;

/// The settings of one call, checked.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) collections: Vec<CollectionId>,
    pub(super) most: usize,
    pub(super) filter: Option<Filter>,
    least_score: f64,
}

/// The settings as they are written in a request. What is not known here is left alone.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    vector_store_ids: Vec<CollectionId>,
    max_num_results: Option<usize>,
    filters: Option<Value>,
    ranking_options: Option<WrittenRanking>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenRanking {
    score_threshold: Option<f64>,
}

impl Settings {
    /// Reads the settings of a call. A filter that is not understood is a mistake: without it,
    /// files would be shown that should not be.
    pub(super) fn read(settings: &Value) -> Result<Self, ToolError> {
        let written = match settings {
            Value::Null => Written::default(),
            settings => serde_path_to_error::deserialize(settings.clone()).map_err(no_sense)?,
        };
        if written.vector_store_ids.is_empty() {
            return Err(ToolError::failed("there are no files to search in this conversation"));
        }
        let filter = written.filters.as_ref().map(|filter| Filter::read(filter, "filters"));
        let ranking = written.ranking_options.unwrap_or_default();
        Ok(Self {
            collections: written.vector_store_ids,
            most: written.max_num_results.unwrap_or(USUAL_RESULTS).clamp(1, MAX_RESULTS),
            filter: filter.transpose().map_err(no_sense)?,
            least_score: ranking.score_threshold.unwrap_or(0.0),
        })
    }

    /// The best of what several questions have found, each passage once.
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
    ToolError::failed(format!("the settings of the file search make no sense: {error}"))
}
