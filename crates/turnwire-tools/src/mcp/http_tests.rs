use bytes::Bytes;
use futures::{StreamExt, stream};
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};

use super::{bounded_events, is_too_large, n_values};

#[test]
fn values_are_counted_without_reading_them() {
    assert_eq!(n_values(b""), 0);
    assert_eq!(n_values(b"7"), 0);
    assert_eq!(n_values(br#"[1, 2, {"a": [], "b": ",,,[[["}]"#), 8);
    assert_eq!(n_values(br#"["\",,", "\\", [",\\\"["], "#), 5);
    assert_eq!(n_values(br#"["unfinished\"#), 1);
}

async fn read(pieces: &[&'static [u8]], limit: usize) -> Vec<Option<String>> {
    let pieces = stream::iter(pieces.to_vec()).map(|piece| Ok(Bytes::from_static(piece)));
    let events = bounded_events(pieces, limit, Some(RequestId::Number(7)));
    events.map(|event| event.ok().and_then(|event| event.data)).collect().await
}

/// A19: an event over the limit becomes the error of its request, and the last event.
#[tokio::test]
async fn an_event_that_is_too_large_ends_its_request() {
    let small = read(&[b"data: 1234\n\nda", b"ta: 5678\n\n", b"data: 9\n\n"], 12).await;
    assert_eq!(small, [Some("1234".into()), Some("5678".into()), Some("9".into())]);
    let large = read(&[b"data: 1\n\n", b"data: 123", b"456789\n\ndata: 2\n\n"], 12).await;
    let [first, Some(last)] = large.as_slice() else { panic!("{large:?}") };
    assert_eq!(first.as_deref(), Some("1"));
    let error: ServerJsonRpcMessage = serde_json::from_str(last).expect("a message");
    let JsonRpcMessage::Error(error) = error else { panic!("{error:?}") };
    assert_eq!(error.id, Some(RequestId::Number(7)));
    assert!(is_too_large(&error.error));
}
