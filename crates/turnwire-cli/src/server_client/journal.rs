//! The journal of a run as it is stored, one event per line.

use std::io::{self, ErrorKind, Write};

use futures::StreamExt;
use reqwest::Method;

use super::{ServerClient, ServerError};
use crate::exit::{Problem, Result};

/// Writes every event of a run that is recorded so far, as the server sends it. Fails if the
/// connection is cut, so that an export is complete or reported. A reader that has enough, such as
/// `head`, is no failure.
pub(crate) async fn write_journal(
    client: &ServerClient,
    run_id: &str,
    out: &mut impl Write,
) -> Result<()> {
    let query = [("follow", "false".to_owned()), ("format", "ndjson".to_owned())];
    let request = client.request(Method::GET, &["v1", "runs", run_id, "events"], &query);
    let response = client.send(request).await?;
    let mut pieces = response.bytes_stream();
    let mut rest = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ServerError::unreachable(client.url(), &error))?;
        rest.extend_from_slice(&piece);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let unfinished = rest.split_off(end + 1);
        for line in rest.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() > 1) {
            match out.write_all(line) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(unwritten(&error)),
            }
        }
        rest = unfinished;
    }
    match out.flush() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritten(&error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn unwritten(error: &io::Error) -> Problem {
    Problem::failure(format!("the journal could not be written: {error}"))
}
