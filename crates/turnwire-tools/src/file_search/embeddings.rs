//! Client for `/v1/embeddings`, as offered by OpenAI, vLLM, Ollama and llama.cpp.

use std::time::Duration;

use reqwest::{Client, Response, Url, redirect};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use turnwire_contract::{EmbeddingError, partial_debug};
use turnwire_http::{ReadError, chain, read_at_most};

use crate::Secret;

/// Maximum number of texts per request.
const AT_ONCE: usize = 64;

/// Maximum size of a response. It fits 64 vectors of about eight thousand dimensions.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

const NOT_VALID: &str = "the response of the embeddings server is not valid";

/// Settings of an embeddings model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingsOptions {
    /// URL of the server, including `/v1`.
    pub base_url: String,
    /// Name of the model.
    pub model: String,
    /// API key, if required.
    pub api_key: Option<Secret>,
    /// Timeout of one request.
    pub timeout: Duration,
}

impl EmbeddingsOptions {
    /// Settings for `model` at `base_url`, without a key.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Why the client could not be created. The operator has to fix the settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EmbeddingsError {
    /// The base URL is invalid.
    #[error("`{0}` is not an http or https URL")]
    BaseUrl(String),
    /// The HTTP client could not be created, usually because there are no root certificates.
    #[error("cannot set up the HTTP client: {0}")]
    Client(String),
}

/// Client for an embeddings model.
pub struct Embeddings {
    client: Client,
    url: Url,
    options: EmbeddingsOptions,
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<Numbered>,
}

#[derive(Deserialize)]
struct Numbered {
    index: usize,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// Creates a client. Sends no request.
    pub fn new(options: EmbeddingsOptions) -> Result<Self, EmbeddingsError> {
        let no_url = || EmbeddingsError::BaseUrl(options.base_url.clone());
        let url = format!("{}/embeddings", options.base_url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| no_url())?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(no_url());
        }
        let client = turnwire_http::client()
            .redirect(redirect::Policy::none())
            .timeout(options.timeout)
            .build()
            .map_err(|error| EmbeddingsError::Client(chain(&error)))?;
        Ok(Self { client, url, options })
    }

    pub(super) fn model(&self) -> &str {
        &self.options.model
    }

    /// Returns one vector of length 1 per text.
    pub(super) async fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(AT_ONCE) {
            vectors.extend(self.ask(some).await?);
        }
        Ok(vectors)
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let body = json!({
            "model": self.options.model, "input": texts, "encoding_format": "float",
        });
        let mut request = self.client.post(self.url.clone()).json(&body);
        if let Some(key) = &self.options.api_key {
            request = request.bearer_auth(key.reveal());
        }
        let away = |error: reqwest::Error| {
            EmbeddingError(format!(
                "the embeddings server did not respond: {}",
                error.without_url()
            ))
        };
        let response = request.send().await.map_err(away)?;
        let status = response.status();
        if !status.is_success() {
            return Err(EmbeddingError(format!("the embeddings server returned {status}")));
        }
        let body = read(response).await?;
        let answer: EmbeddingsResponse = serde_json::from_slice(&body)
            .map_err(|error| EmbeddingError(format!("{NOT_VALID}: {error}")))?;
        in_order(answer.data, texts.len())
    }
}

async fn read(response: Response) -> Result<Vec<u8>, EmbeddingError> {
    read_at_most(response, MAX_ANSWER_BYTES).await.map_err(|unread| {
        let what = match unread {
            ReadError::Broken(_) => "is incomplete",
            ReadError::TooLong => "is too large",
        };
        EmbeddingError(format!("the response of the embeddings server {what}"))
    })
}

/// Returns the vectors in the order of their texts, normalized to length 1.
fn in_order(mut data: Vec<Numbered>, n_texts: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    data.sort_by_key(|numbered| numbered.index);
    let length = data.first().map_or(0, |first| first.embedding.len());
    let complete = data.len() == n_texts
        && data.iter().enumerate().all(|(n, numbered)| numbered.index == n)
        && data.iter().all(|numbered| numbered.embedding.len() == length && length > 0);
    if !complete {
        return Err(EmbeddingError(format!("{NOT_VALID}: it must have one vector per text")));
    }
    data.into_iter().map(|numbered| of_length_1(numbered.embedding)).collect()
}

fn of_length_1(mut vector: Vec<f32>) -> Result<Vec<f32>, EmbeddingError> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if !length.is_normal() {
        return Err(EmbeddingError("the embeddings server returned a zero vector".to_owned()));
    }
    for number in &mut vector {
        *number /= length;
    }
    Ok(vector)
}

partial_debug!(Embeddings { options });

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
