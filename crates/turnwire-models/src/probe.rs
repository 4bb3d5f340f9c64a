//! Requests the model list of a provider, to check whether it can be reached.
//!
//! Not part of the [`Model`](turnwire_contract::Model) port. Used for diagnosis by the operator.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, redirect};
use serde::Deserialize;
use thiserror::Error;
use turnwire_http::read_at_most;

use crate::secret::Secret;

/// Timeout of the request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum size of the model list.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Format of the model list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelListFormat {
    /// OpenAI and compatible servers.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

/// Why the model list could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// The server is unreachable.
    #[error("cannot connect to the server")]
    OutOfReach,
    /// The key is missing or was rejected.
    #[error("the key was rejected (status {0})")]
    KeyRefused(u16),
    /// The server has no model list.
    #[error("the response is not a list of models (status {0})")]
    NoList(u16),
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

/// Returns the names of the models at `base_url`.
pub async fn models_at(
    base_url: &str,
    key: Option<&Secret>,
    format: ModelListFormat,
) -> Result<Vec<String>, ProbeError> {
    let client = turnwire_http::client()
        .timeout(PATIENCE)
        // A redirect would forward the key to another host.
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|_| ProbeError::OutOfReach)?;
    let request = asked(&client, base_url.trim_end_matches('/'), key, format);
    let response = request.send().await.map_err(|_| ProbeError::OutOfReach)?;
    let status = response.status();
    match status.as_u16() {
        refused @ (401 | 403) => return Err(ProbeError::KeyRefused(refused)),
        other if !status.is_success() => return Err(ProbeError::NoList(other)),
        _ => {}
    }
    let no_list = || ProbeError::NoList(status.as_u16());
    let body = read_at_most(response, MAX_LIST_BYTES).await.map_err(|_| no_list())?;
    let listed: ModelList = serde_json::from_slice(&body).map_err(|_| no_list())?;
    Ok(listed.data.into_iter().map(|listing| listing.id).collect())
}

fn asked(
    client: &Client,
    base: &str,
    key: Option<&Secret>,
    format: ModelListFormat,
) -> RequestBuilder {
    match format {
        ModelListFormat::OpenAi => {
            let request = client.get(format!("{base}/models"));
            key.map(Secret::reveal).into_iter().fold(request, RequestBuilder::bearer_auth)
        }
        ModelListFormat::Anthropic => {
            let request = client.get(format!("{base}/v1/models"));
            let request = request.header("anthropic-version", "2023-06-01");
            let key = key.map(Secret::reveal);
            key.into_iter().fold(request, |request, key| request.header("x-api-key", key))
        }
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
