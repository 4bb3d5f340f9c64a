use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use turnwire_contract::{
    Attachment, Attachments, CallId, CallLink, CollectionId, CollectionNotes, CollectionRecord,
    Collections, EmbeddingError, FileId, FileRecord, Files, Library, RunId, TenantId, TextAnalyzer,
    Timestamp, Tool, ToolContext, ToolError, ToolNote, ToolOutput, ToolRequest,
};
use turnwire_stores::Store;

use super::{DefaultAnalyzer, FileSearch, Indexer};
use crate::documents::{self, DocumentReader};

struct NobodyListens;

impl CallLink for NobodyListens {
    fn tell(&self, _note: ToolNote) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}

fn record(id: &str, name: &str) -> FileRecord {
    FileRecord {
        id: FileId::from(id),
        name: name.to_owned(),
        bytes: 0,
        purpose: "assistants".to_owned(),
        created_at: Timestamp::from_micros(1),
        expires_at: None,
    }
}

/// A library with two files in the collection `vs_sea`.
async fn library(reader: Arc<dyn TextAnalyzer>) -> Arc<dyn Library> {
    let library = Arc::new(Store::in_memory().await.unwrap().library(reader.clone()));
    let tenant = TenantId::default();
    let (id, created_at) = (CollectionId::from("vs_sea"), Timestamp::from_micros(1));
    let notes = CollectionNotes { name: "Sea".into(), ..CollectionNotes::default() };
    let last_active_at = created_at;
    let collection = CollectionRecord { id: id.clone(), created_at, last_active_at, notes };
    library.open_collection(&tenant, collection).await.unwrap();
    let files = [
        ("file-w", "walrus.md", "Walruses have tusks.", json!({ "year": 2024 })),
        ("file-p", "penguin.md", "Penguins have no tusks.", json!({ "year": 1999 })),
    ];
    for (file, name, text, attributes) in files {
        let content = text.as_bytes().into();
        library.add_file(&tenant, record(file, name), content).await.unwrap();
        let attributes = attributes.as_object().unwrap().clone();
        let waiting = Attachment::new(FileId::from(file), created_at);
        let attachment = Attachment { attributes, ..waiting };
        library.attach(&tenant, &id, None, vec![attachment]).await.unwrap();
    }
    let indexer = Indexer::new(library.clone(), reader, DocumentReader::in_process());
    assert_eq!(indexer.work_off().await, Ok(2));
    library
}

async fn ask(arguments: Value, settings: Value) -> Result<ToolOutput, ToolError> {
    ask_in(library(Arc::new(DefaultAnalyzer::default())).await, arguments, settings).await
}

async fn ask_in(
    library: Arc<dyn Library>,
    arguments: Value,
    settings: Value,
) -> Result<ToolOutput, ToolError> {
    let tool = FileSearch::new(library);
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: arguments.as_object().unwrap().clone(),
        idempotency_key: "key".to_owned(),
        settings,
    };
    let context = ToolContext::new(
        RunId::from("run_1"),
        CallId::from("call_1"),
        1,
        Duration::from_secs(5),
        Arc::new(NobodyListens),
    );
    tool.call(request, context).await
}

fn names(output: &ToolOutput) -> Vec<String> {
    let results = output.structured.as_ref().unwrap()["results"].as_array().unwrap();
    results.iter().map(|result| result["filename"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn passages_are_told_to_the_model_and_as_data() {
    let queries = json!({ "queries": ["walruses", "walruses tusks"] });
    let output = ask(queries, json!({ "vector_store_ids": ["vs_sea"] })).await.unwrap();
    assert_eq!(
        output.text,
        "[1] walrus.md (file-w)\nWalruses have tusks.\n\n\
         [2] penguin.md (file-p)\nPenguins have no tusks."
    );
    assert_eq!(output.short.as_deref(), Some("2 passages in 2 files"));
    let structured = output.structured.unwrap();
    assert_eq!(structured["queries"], json!(["walruses", "walruses tusks"]));
    let first = &structured["results"][0];
    assert_eq!(first["file_id"], "file-w");
    assert_eq!(first["filename"], "walrus.md");
    assert_eq!(first["text"], "Walruses have tusks.");
    assert_eq!(first["attributes"], json!({ "year": 2024 }));
    assert!(first["score"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_request_narrows_the_search() {
    let search = async |more: Value| {
        let mut settings = json!({ "type": "file_search", "vector_store_ids": ["vs_sea"] });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        names(&ask(json!({ "queries": ["tusks"] }), settings).await.unwrap())
    };
    let recent = json!({ "type": "gte", "key": "year", "value": 2000 });
    let old = json!({ "type": "eq", "key": "year", "value": 1999 });
    assert_eq!(search(json!({})).await.len(), 2);
    assert_eq!(search(json!({ "max_num_results": 1 })).await.len(), 1);
    assert_eq!(search(json!({ "filters": recent })).await, ["walrus.md"]);
    let both = json!({ "type": "and", "filters": [recent, old] });
    assert_eq!(search(json!({ "filters": both })).await.len(), 0);
    let either = json!({ "type": "or", "filters": [recent, old] });
    assert_eq!(search(json!({ "filters": either })).await.len(), 2);
    assert_eq!(search(json!({ "ranking_options": { "score_threshold": 1.0 } })).await.len(), 0);
}

#[tokio::test]
async fn a_filter_that_is_not_understood_is_no_search_without_one() {
    // A list requires `in`. A condition that no file can meet is also an error.
    let wrong = [
        (json!({ "type": "like" }), "filters.type"),
        (json!({ "type": "eq", "key": "year", "value": [2024] }), "filters.value"),
        (json!({ "type": "and", "filters": [] }), "filters.filters"),
    ];
    for (filters, path) in wrong {
        let settings = json!({ "vector_store_ids": ["vs_sea"], "filters": filters });
        let refused = ask(json!({ "queries": ["tusks"] }), settings).await;
        let words = format!("the settings of the file search are not valid: `{path}` must be ");
        assert!(
            matches!(&refused, Err(ToolError::Failed(message)) if message.starts_with(&words)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn nothing_found_is_said() {
    let output = ask(json!({ "queries": ["zebra"] }), json!({ "vector_store_ids": ["vs_sea"] }));
    let output = output.await.unwrap();
    assert_eq!(output.text, "Nothing was found for: zebra");
    assert_eq!(output.structured, Some(json!({ "queries": ["zebra"], "results": [] })));
}

/// An analyzer whose embeddings model is unavailable.
struct Away;

#[async_trait]
impl TextAnalyzer for Away {
    fn asked(&self, text: &str) -> Vec<String> {
        documents::asked(text)
    }

    fn model(&self) -> Option<&str> {
        Some("away")
    }

    async fn vectors(&self, _texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        Err(EmbeddingError("it is away".to_owned()))
    }
}

#[tokio::test]
async fn a_search_by_words_alone_says_so() {
    let settings = json!({ "vector_store_ids": ["vs_sea"] });
    let library = library(Arc::new(Away)).await;
    let output = ask_in(library, json!({ "queries": ["walruses"] }), settings).await.unwrap();
    assert!(output.text.starts_with("[1] walrus.md (file-w)"), "{}", output.text);
    assert!(output.text.contains("by their words only"), "{}", output.text);
    assert_eq!(output.structured.unwrap()["words_only"], json!(true));
}

#[tokio::test]
async fn a_search_without_a_collection_fails() {
    for settings in [Value::Null, json!({ "vector_store_ids": [] })] {
        let failed = ask(json!({ "queries": ["tusks"] }), settings).await;
        let expected = "there are no files to search in this conversation";
        assert_eq!(failed, Err(ToolError::failed(expected)));
    }
    let unknown = ask(json!({ "queries": ["x"] }), json!({ "vector_store_ids": ["vs_x"] })).await;
    assert_eq!(unknown, Err(ToolError::failed("there is no collection `vs_x`")));
}
