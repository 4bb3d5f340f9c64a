use super::MessageStream;
use crate::fixtures::check_all;

/// S2-22: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all("anthropic_messages", 13, MessageStream::default);
}
