//! Search in uploaded files.
//!
//! [`FileSearch`] is the tool. A [`Library`] stores the files and finds chunks. An [`Indexer`]
//! indexes files in the background: [`documents`](crate::documents) reads them, and with
//! `embeddings`, a [`DefaultAnalyzer`] computes the vectors.

mod analyzer;
mod embeddings;
mod indexer;
mod settings;

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use turnwire_contract::{
    Effect, FoundChunk, Library, LibraryError, Query, SearchResults, Tool, ToolContext, ToolError,
    ToolKind, ToolOutput, ToolRequest, ToolSpec, partial_debug,
};

use self::settings::Settings;
pub use self::{
    analyzer::DefaultAnalyzer,
    embeddings::{Embeddings, EmbeddingsError, EmbeddingsOptions},
    indexer::Indexer,
};
use crate::{Result, function::typed};

/// Maximum number of queries per call.
const MAX_QUERIES: usize = 8;

/// Text for the model when the embeddings model is unavailable.
const WORDS_ONLY: &str = "\n\n(Files could be searched by their words only just now: other words \
                          may find more.)";

/// Searches the collections of a run.
///
/// The model calls it with `{"queries": ["…", …]}`. The request, not the model, selects the
/// collections. Its tool entry is in the settings of the call: `vector_store_ids`, and optionally
/// `max_num_results`, `filters` and `ranking_options.score_threshold`.
pub struct FileSearch {
    spec: ToolSpec,
    library: Arc<dyn Library>,
}

impl FileSearch {
    /// Creates a search in `library`.
    pub fn new(library: Arc<dyn Library>) -> Self {
        let description = "Searches the files that were made available, and returns the \
                           passages that answer the queries best.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "queries": {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "maxItems": MAX_QUERIES,
                    "description": "What to look for, in a few words each.",
                },
            },
            "required": ["queries"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            parameters,
            kind: ToolKind::FileSearch,
            effect: Effect::Pure,
            parallel: true,
            telling_arguments: vec!["queries".to_owned()],
            ..ToolSpec::new("file_search", description)
        };
        Self { spec, library }
    }
}

#[derive(Deserialize)]
struct Arguments {
    queries: Vec<String>,
}

#[async_trait]
impl Tool for FileSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: ToolRequest, context: ToolContext) -> Result<ToolOutput> {
        context.phase("searching").await;
        let Arguments { queries } = typed(request.arguments)?;
        let settings = Settings::read(&request.settings)?;
        let (mut found, mut words_only) = (Vec::new(), false);
        for text in queries.iter().take(MAX_QUERIES) {
            let query =
                Query { text: text.clone(), most: settings.most, filter: settings.filter.clone() };
            let search = self.library.search(&request.tenant, &settings.collections, &query);
            let SearchResults { chunks, words_only: without } = search.await.map_err(problem)?;
            found.extend(chunks);
            words_only = words_only || without.is_some();
        }
        let chunks = settings.best_of(found);
        Ok(output(&queries, &chunks, words_only))
    }
}

/// Formats the results for the model and for display. Each chunk has a number and the name of its
/// file, so that the model can cite it.
fn output(queries: &[String], chunks: &[FoundChunk], words_only: bool) -> ToolOutput {
    let results: Vec<Value> = chunks
        .iter()
        .map(|chunk| {
            json!({
                "file_id": chunk.file_id,
                "filename": chunk.file_name,
                "score": chunk.score,
                "text": chunk.text,
                "attributes": chunk.attributes,
            })
        })
        .collect();
    let mut text = match chunks {
        [] => format!("Nothing was found for: {}", queries.join("; ")),
        chunks => chunks.iter().enumerate().map(worded).collect::<Vec<_>>().join("\n\n"),
    };
    let mut structured = json!({ "queries": queries, "results": results });
    if words_only {
        text.push_str(WORDS_ONLY);
        if let Some(fields) = structured.as_object_mut() {
            fields.insert("words_only".to_owned(), Value::Bool(true));
        }
    }
    let mut per_file = HashMap::new();
    for chunk in chunks {
        *per_file.entry(&chunk.file_id).or_insert(0) += 1;
    }
    let (n_passages, n_files) = (chunks.len(), per_file.len());
    ToolOutput {
        structured: Some(structured),
        short: Some(match n_passages {
            0 => "nothing found".to_owned(),
            1 => "1 passage".to_owned(),
            _ if n_files == 1 => format!("{n_passages} passages in 1 file"),
            _ => format!("{n_passages} passages in {n_files} files"),
        }),
        ..ToolOutput::text(text)
    }
}

fn worded((n, chunk): (usize, &FoundChunk)) -> String {
    format!("[{}] {} ({})\n{}", n + 1, chunk.file_name, chunk.file_id, chunk.text)
}

fn problem(error: LibraryError) -> ToolError {
    match error {
        LibraryError::Unavailable(_) => ToolError::Transient(error.to_string()),
        LibraryError::Exists(_)
        | LibraryError::NotFound(_)
        | LibraryError::Refused(_)
        | LibraryError::KeyMissing(_) => ToolError::failed(error),
    }
}

partial_debug!(FileSearch { spec });

#[cfg(test)]
#[path = "file_search_tests.rs"]
mod tests;
