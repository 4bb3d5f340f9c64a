//! The default text analyzer: index terms, and vectors if an embeddings model is configured.

use async_trait::async_trait;
use turnwire_contract::{EmbeddingError, TextAnalyzer};

use super::Embeddings;
use crate::documents;

/// The default [`TextAnalyzer`].
#[derive(Debug, Default)]
pub struct DefaultAnalyzer {
    embeddings: Option<Embeddings>,
}

impl DefaultAnalyzer {
    /// Creates an analyzer. Without an embeddings model, texts are found by words only.
    pub fn new(embeddings: Option<Embeddings>) -> Self {
        Self { embeddings }
    }
}

#[async_trait]
impl TextAnalyzer for DefaultAnalyzer {
    fn asked(&self, question: &str) -> Vec<String> {
        documents::asked(question)
    }

    fn model(&self) -> Option<&str> {
        self.embeddings.as_ref().map(Embeddings::model)
    }

    async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        match &self.embeddings {
            Some(embeddings) => embeddings.vectors(texts).await,
            None => Err(EmbeddingError("there is no embeddings model".to_owned())),
        }
    }
}
