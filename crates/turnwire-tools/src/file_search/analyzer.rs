//! How this crate understands texts: words for all, vectors if there is a model for them.

use async_trait::async_trait;
use turnwire_contract::{EmbeddingError, TextAnalyzer};

use super::{Embeddings, words};

/// The usual [`TextAnalyzer`].
#[derive(Debug, Default)]
pub struct DefaultAnalyzer {
    embeddings: Option<Embeddings>,
}

impl DefaultAnalyzer {
    /// One that finds texts by their words, and with a model by their meaning too.
    pub fn new(embeddings: Option<Embeddings>) -> Self {
        Self { embeddings }
    }
}

#[async_trait]
impl TextAnalyzer for DefaultAnalyzer {
    fn words(&self, text: &str) -> Vec<String> {
        words::words_of(text)
    }

    fn asked(&self, question: &str) -> Vec<String> {
        words::asked(question)
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
