use super::ResponseStream;
use crate::fixtures::check_all;

/// S2-22: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all("openai_responses", 15, ResponseStream::default);
}
