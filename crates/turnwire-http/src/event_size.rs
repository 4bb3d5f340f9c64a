//! The size of the events of a stream, counted while they arrive.

/// Counts the bytes of each event in a stream of server-sent events, so that a reader can stop
/// before it has stored a large one.
#[derive(Debug, Default)]
pub struct EventSize {
    n_bytes: usize,
    /// The last byte that was not the second one of `\r\n`.
    last: Option<u8>,
}

impl EventSize {
    /// Counts the next bytes of a stream. Returns the size of the largest event in them, with what
    /// came of it before.
    pub fn add(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for &byte in bytes {
            match (byte, self.last) {
                (b'\n', Some(b'\r')) => {
                    self.last = Some(b'\n');
                    continue;
                }
                // An empty line ends the event.
                (b'\n' | b'\r', None | Some(b'\n' | b'\r')) => self.n_bytes = 0,
                _ => {
                    self.n_bytes += 1;
                    largest = largest.max(self.n_bytes);
                }
            }
            self.last = Some(byte);
        }
        largest
    }
}
