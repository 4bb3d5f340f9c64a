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

/// Takes a chunked answer apart, however its bytes are cut.
#[derive(Debug, Default)]
pub(crate) struct Dechunked {
    raw: Vec<u8>,
    /// Bytes of the chunk that are still to come, with the line break that ends it.
    left: usize,
    is_after_head: bool,
    pub(crate) is_over: bool,
}

impl Dechunked {
    /// Reads more of the answer and appends what its body has to `body`. Returns `false` at the end
    /// of the connection.
    pub(crate) async fn read(
        &mut self,
        stream: &mut TcpStream,
        body: &mut Vec<u8>,
    ) -> anyhow::Result<bool> {
        let is_open = read_more(stream, &mut self.raw).await?;
        self.take_chunks(body)?;
        Ok(is_open)
    }

    fn take_chunks(&mut self, body: &mut Vec<u8>) -> anyhow::Result<()> {
        let mut at = 0;
        if !self.is_after_head {
            let Some(end) = memmem::find(&self.raw, b"\r\n\r\n") else { return Ok(()) };
            let head = String::from_utf8_lossy(self.raw.get(..end).unwrap_or_default());
            if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
                bail!("not a stream: {}", String::from_utf8_lossy(&self.raw));
            }
            self.is_after_head = true;
            at = end + 4;
        }
        while let Some(rest) = self.raw.get(at..).filter(|rest| !rest.is_empty()) {
            if self.left > 0 {
                let n_bytes = self.left.min(rest.len());
                // The last two bytes of a chunk are its line break.
                let n_data = n_bytes.min(self.left.saturating_sub(2));
                body.extend_from_slice(rest.get(..n_data).unwrap_or_default());
                self.left -= n_bytes;
                at += n_bytes;
            } else {
                let Some(end) = memmem::find(rest, b"\r\n") else { break };
                let size = std::str::from_utf8(rest.get(..end).unwrap_or_default())?;
                let size = usize::from_str_radix(size.trim(), 16).context("size of a chunk")?;
                if size == 0 && rest.len() < end + 4 {
                    break;
                }
                self.is_over = size == 0;
                at += end + if self.is_over { 4 } else { 2 };
                self.left = if self.is_over { 0 } else { size + 2 };
            }
        }
        self.raw.drain(..at);
        Ok(())
    }
}

/// The last chunk of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_however_it_is_cut() {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        push_chunk(&mut answer, b"one\r\n0\r\n\r\n");
        push_chunk(&mut answer, b"two");
        answer.extend_from_slice(LAST_CHUNK);
        for step in 1..=answer.len() {
            let (mut reader, mut body) = (Dechunked::default(), Vec::new());
            for part in answer.chunks(step) {
                assert!(!reader.is_over, "nothing follows the last chunk");
                reader.raw.extend_from_slice(part);
                reader.take_chunks(&mut body).expect("chunks");
            }
            assert!(reader.is_over, "with parts of {step} bytes");
            assert_eq!(body, b"one\r\n0\r\n\r\ntwo");
        }
    }
}
