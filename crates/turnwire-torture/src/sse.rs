//! Stream parsers: bytes in, frames out.

/// One piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Frame {
        /// Its `id`, if it has one.
        id: Option<String>,
        /// Its data; lines are joined.
        data: String,
    },
    /// A comment, or an empty line in JSON lines.
    Comment,
}

/// A parser of server-sent events, with the incomplete frame.
#[derive(Debug, Default)]
pub struct SseReader {
    rest: Vec<u8>,
    id: Option<String>,
    data: Option<String>,
}

impl SseReader {
    /// Returns the pieces that `bytes` complete.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.rest.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while let Some(line) = take_line(&mut self.rest) {
            pieces.extend(self.read_line(&line));
        }
        pieces
    }

    fn read_line(&mut self, line: &str) -> Option<Piece> {
        if line.is_empty() {
            let data = self.data.take()?;
            return Some(Piece::Frame { id: self.id.take(), data });
        }
        if line.starts_with(':') {
            return Some(Piece::Comment);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

/// A parser of JSON lines.
#[derive(Debug, Default)]
pub struct LineReader {
    rest: Vec<u8>,
}

impl LineReader {
    /// Returns the pieces that `bytes` complete.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.rest.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while let Some(line) = take_line(&mut self.rest) {
            let is_empty = line.trim().is_empty();
            let frame = Piece::Frame { id: None, data: line };
            pieces.push(if is_empty { Piece::Comment } else { frame });
        }
        pieces
    }
}

fn take_line(rest: &mut Vec<u8>) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = rest.drain(..=end).collect();
    let line = String::from_utf8_lossy(&line);
    Some(line.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{LineReader, Piece, SseReader};

    #[test]
    fn frames_come_whole_wherever_the_bytes_are_cut() {
        let text = "event: x\nid: run_1:2.0\ndata: {\"a\":1}\n\n: ping\ndata: [DONE]\n\ndata: cut";
        let frame = |id: Option<&str>, data: &str| Piece::Frame {
            id: id.map(ToOwned::to_owned),
            data: data.to_owned(),
        };
        let expected =
            vec![frame(Some("run_1:2.0"), "{\"a\":1}"), Piece::Comment, frame(None, "[DONE]")];
        for size in 1..text.len() {
            let mut reader = SseReader::default();
            let pieces: Vec<Piece> =
                text.as_bytes().chunks(size).flat_map(|bytes| reader.read(bytes)).collect();
            assert_eq!(pieces, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn empty_lines_between_lines_of_json_are_comments() {
        let mut reader = LineReader::default();
        let pieces = reader.read(b"{\"seq\":1}\n\n{\"se");
        let line = Piece::Frame { id: None, data: "{\"seq\":1}".to_owned() };
        assert_eq!(pieces, [line, Piece::Comment]);
        let line = Piece::Frame { id: None, data: "{\"seq\":2}".to_owned() };
        assert_eq!(reader.read(b"q\":2}\n"), [line]);
    }
}
