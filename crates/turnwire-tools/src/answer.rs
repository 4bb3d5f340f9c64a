//! Reading what a server answers, which may have no end.

use futures::StreamExt;
use reqwest::Response;

/// Why an answer was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It broke off.
    Broken(reqwest::Error),
    /// There is more of it than is read.
    TooLong,
}

/// The whole of an answer that has at most `most` bytes.
pub(crate) async fn read_at_most(response: Response, most: usize) -> Result<Vec<u8>, Unread> {
    let mut answer = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(more) = bytes.next().await {
        answer.extend_from_slice(&more.map_err(Unread::Broken)?);
        if answer.len() > most {
            return Err(Unread::TooLong);
        }
    }
    Ok(answer)
}
