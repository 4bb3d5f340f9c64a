use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::json;

use super::*;

fn written(write: impl FnOnce(SseFrame<'_>)) -> String {
    let mut out = Vec::new();
    write(SseFrame::begin(&mut out));
    String::from_utf8(out).unwrap()
}

#[test]
fn a_frame_is_one_piece_with_a_blank_line() {
    let frame = written(|frame| frame.event("done").id("3.0").data("{}"));
    assert_eq!(frame, "event: done\nid: 3.0\ndata: {}\n\n");
    let frame = written(|frame| frame.json(&json!({ "a": "b\nc\u{2028}" })));
    assert_eq!(frame, "data: {\"a\":\"b\\nc\\u2028\"}\n\n");
    let mut out = Vec::new();
    write_done(&mut out);
    assert_eq!(out, b"data: [DONE]\n\n");
}

/// A11: data can neither end its frame nor start another.
#[test]
fn line_breaks_stay_inside_the_frame() {
    let frame = written(|frame| frame.data("a\nid: 9\r\n\ndata: b"));
    assert_eq!(frame, "data: a\ndata: id: 9\ndata: \ndata: \ndata: data: b\n\n");
}

/// The chunks of a stream of bytes.
async fn chunks_of(items: impl Stream<Item = &'static str>) -> Vec<Bytes> {
    let write = |out: &mut Vec<u8>, item: &str| out.extend_from_slice(item.as_bytes());
    let chunks = Chunks::new(items.map(Ok), write, Duration::from_secs(15), PING);
    chunks.map(Result::unwrap).collect().await
}

/// S3-18: a stream is never silent for longer than the keep-alive interval, and the keep-alive is a
/// single line, because the official Python client reads an event from a comment with a blank line.
#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_comments() {
    let frames = stream::once(async {
        tokio::time::sleep(Duration::from_secs(35)).await;
        "data: late\n\n"
    });
    assert_eq!(chunks_of(frames).await, [": ping\n", ": ping\n", "data: late\n\n"]);
}

/// Frames that are ready share a chunk, and no frame waits for one that is not.
#[tokio::test(start_paused = true)]
async fn frames_that_are_ready_are_one_chunk() {
    let ready = stream::iter(["data: 1\n\n", "data: 2\n\n"]);
    let late = stream::once(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "data: 3\n\n"
    });
    let sent = chunks_of(ready.chain(late)).await;
    assert_eq!(sent, ["data: 1\n\ndata: 2\n\n", "data: 3\n\n"]);
}
