use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{SseFrame, with_heartbeat};

#[test]
fn a_frame_is_one_piece_with_a_blank_line() {
    let frame = SseFrame { event: Some("done"), id: Some("3.0".to_owned()), data: "{}".to_owned() };
    assert_eq!(frame.bytes(), "event: done\nid: 3.0\ndata: {}\n\n");
    assert_eq!(SseFrame::data("[DONE]".to_owned()).bytes(), "data: [DONE]\n\n");
}

/// A11: data can neither end its frame nor start another.
#[test]
fn line_breaks_stay_inside_the_frame() {
    let frame = SseFrame::data("a\nid: 9\r\n\ndata: b".to_owned());
    assert_eq!(frame.bytes(), "data: a\ndata: id: 9\ndata: \ndata: \ndata: data: b\n\n");
}

/// S3-18: a stream is never silent for longer than the heartbeat interval, and the heartbeat is a
/// single line, because the official Python client reads an event from a comment with a blank line.
#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_comments() {
    let frames = stream::once(async {
        tokio::time::sleep(Duration::from_secs(35)).await;
        Bytes::from_static(b"data: late\n\n")
    });
    let sent: Vec<Bytes> = with_heartbeat(frames, Duration::from_secs(15)).collect().await;
    assert_eq!(sent, [": ping\n", ": ping\n", "data: late\n\n"]);
}

/// Frames that are ready share a chunk, and no frame waits for one that is not.
#[tokio::test(start_paused = true)]
async fn frames_that_are_ready_are_one_chunk() {
    let ready = stream::iter(["data: 1\n\n", "data: 2\n\n"].map(Bytes::from));
    let late = stream::once(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Bytes::from_static(b"data: 3\n\n")
    });
    let sent: Vec<Bytes> =
        with_heartbeat(ready.chain(late), Duration::from_secs(15)).collect().await;
    assert_eq!(sent, ["data: 1\n\ndata: 2\n\n", "data: 3\n\n"]);
}
