//! As much of HTTP/1.1 as the two ends need.

use anyhow::{Context, bail};
use memchr::memmem;
use tokio::{io::AsyncReadExt, net::TcpStream};

/// What is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Reads more bytes into `buffer`. Returns `false` at the end of the connection.
pub(crate) async fn read_more(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<bool> {
    buffer.reserve(READ_BYTES);
    Ok(stream.read_buf(buffer).await? > 0)
}

/// Reads one request. Returns its head and its body, or `None` if the client has gone.
pub(crate) async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> anyhow::Result<Option<(String, Vec<u8>)>> {
    let head_bytes = loop {
        if let Some(end) = memmem::find(buffer, b"\r\n\r\n") {
            break end + 4;
        }
        if !read_more(stream, buffer).await? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(buffer.get(..head_bytes).unwrap_or_default()).into_owned();
    let end = head_bytes + content_length(&head);
    while buffer.len() < end {
        if !read_more(stream, buffer).await? {
            bail!("the request is cut");
        }
    }
    let body = buffer.get(head_bytes..end).context("the body is there")?.to_vec();
    buffer.drain(..end);
    Ok(Some((head, body)))
}

/// The value of `Content-Length`, or zero.
fn content_length(head: &str) -> usize {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    length.unwrap_or(0)
}

/// One chunk of a chunked body.
pub(crate) fn push_chunk(bytes: &mut Vec<u8>, data: &[u8]) {
    bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
}

/// The last chunk of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
