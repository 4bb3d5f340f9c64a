//! Reads HTTP response bodies up to a maximum size.

use futures::StreamExt;
use reqwest::Response;

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection broke.
    Broken(reqwest::Error),
    /// The body exceeds the maximum size.
    TooLong,
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read_at_most(response: Response, most: usize) -> Result<Vec<u8>, ReadError> {
    let mut answer = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(more) = bytes.next().await {
        answer.extend_from_slice(&more.map_err(ReadError::Broken)?);
        if answer.len() > most {
            return Err(ReadError::TooLong);
        }
    }
    Ok(answer)
}
