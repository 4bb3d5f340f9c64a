//! Reads HTTP response bodies up to a maximum size.

use reqwest::Response;

/// Why a body was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The connection broke.
    Broken(reqwest::Error),
    /// The body exceeds the maximum size.
    TooLong,
}

/// Reads a body of at most `most` bytes.
pub async fn read_at_most(mut response: Response, most: usize) -> Result<Vec<u8>, ReadError> {
    let mut answer = Vec::new();
    while let Some(more) = response.chunk().await.map_err(ReadError::Broken)? {
        if answer.len() + more.len() > most {
            return Err(ReadError::TooLong);
        }
        answer.extend_from_slice(&more);
    }
    Ok(answer)
}
