//! How a reader answers: frames of one byte for the kind, four for the length, and the content.
//! So the other side can stop at any count.

use std::io::{self, Write};

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use turnwire_contract::NewChunk;

use super::request::{Answer, PageText, Unread};

/// Text of a chunk; its words follow.
const CHUNK: u8 = b'c';
/// Words of the chunk before.
const WORDS: u8 = b'w';
/// A [`PageText`], as JSON.
const PAGE: u8 = b'p';
/// An [`Unread`], as JSON.
const UNREAD: u8 = b'u';
/// Everything was told.
const END: u8 = b'e';

/// Maximum number of chunks per file. A regular file within the size limit has fewer.
const MAX_CHUNKS: usize = 200_000;
/// Maximum size of a frame.
const MAX_FRAME: usize = 2 * 1024 * 1024;
/// Maximum size of all frames: a text of 64 MiB whose chunks share half with their neighbours, and
/// its words.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

pub(super) fn chunk(output: &mut dyn Write, text: &str, words: &str) -> io::Result<()> {
    frame(output, CHUNK, text.as_bytes())?;
    frame(output, WORDS, words.as_bytes())
}

pub(super) fn page(output: &mut dyn Write, page: &PageText) -> io::Result<()> {
    json(output, PAGE, page)
}

pub(super) fn unread(output: &mut dyn Write, why: &Unread) -> io::Result<()> {
    json(output, UNREAD, why)
}

pub(super) fn end(output: &mut dyn Write) -> io::Result<()> {
    frame(output, END, b"")
}

fn json(output: &mut dyn Write, kind: u8, content: &impl Serialize) -> io::Result<()> {
    frame(output, kind, &serde_json::to_vec(content)?)
}

fn frame(output: &mut dyn Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
    output.write_all(&[kind])?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(content)
}

/// What is wrong with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It ended early, or is no answer.
    Cut,
    /// It is too long.
    TooLong(&'static str),
}

/// Reads an answer to its end, or until it is too long.
pub(super) async fn read(
    input: &mut (impl AsyncRead + Unpin),
) -> Result<Result<Answer, Unread>, Broken> {
    let (mut chunks, mut n_bytes) = (Vec::new(), 0);
    loop {
        let kind = input.read_u8().await.map_err(|_| Broken::Cut)?;
        let length = input.read_u32_le().await.map_err(|_| Broken::Cut)?;
        let length = usize::try_from(length).map_err(|_| Broken::Cut)?;
        n_bytes += length;
        if length > MAX_FRAME || n_bytes > MAX_ANSWER {
            return Err(Broken::TooLong("has too much text"));
        }
        let mut content = vec![0; length];
        input.read_exact(&mut content).await.map_err(|_| Broken::Cut)?;
        match kind {
            CHUNK if chunks.len() == MAX_CHUNKS => {
                return Err(Broken::TooLong("has more than 200000 chunks"));
            }
            CHUNK => chunks.push(NewChunk { text: text(content)?, words: String::new() }),
            WORDS => chunks.last_mut().ok_or(Broken::Cut)?.words = text(content)?,
            PAGE => return Ok(Ok(Answer::Page(parsed(&content)?))),
            UNREAD => return Ok(Err(parsed(&content)?)),
            END => return Ok(Ok(Answer::Chunks(chunks))),
            _ => return Err(Broken::Cut),
        }
    }
}

fn text(content: Vec<u8>) -> Result<String, Broken> {
    String::from_utf8(content).map_err(|_| Broken::Cut)
}

fn parsed<T: serde::de::DeserializeOwned>(content: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(content).map_err(|_| Broken::Cut)
}
