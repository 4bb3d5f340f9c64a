//! Tests of response bodies that the client reads or does not read.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, future::poll_fn, stream};
use tokio::time::advance;

use super::*;

const WRITE_TIME: Duration = Duration::from_secs(30);
const TIMES: Times = Times {
    write: WRITE_TIME,
    unknown: Duration::from_secs(10),
    idle: Duration::from_mins(1),
    total: Duration::from_hours(1),
};

/// A body with these pieces, and a flag that is set when it is dropped.
fn body_of(pieces: Vec<Vec<u8>>) -> (Body, Arc<AtomicBool>) {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_gone = Arc::new(AtomicBool::new(false));
    let guard = Gone(Arc::clone(&is_gone));
    let pieces = stream::iter(pieces).chain(stream::pending()).map(move |piece| {
        let _ = &guard;
        Ok::<_, std::convert::Infallible>(piece)
    });
    (Body::from_stream(pieces), is_gone)
}

async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(frame.map(|frame| frame.into_data().unwrap()))
}

/// C13: a large body is handed over in small pieces, and all of it arrives.
#[tokio::test]
async fn a_big_body_is_handed_over_in_pieces() {
    let connection = Connection::default();
    let whole: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    for body in [Body::from(whole.clone()), body_of(vec![whole.clone()]).0] {
        let (mut body, mut read) =
            (connection.watch(body, HeldPermits::default(), connection.begin()), Vec::new());
        while read.len() < whole.len() {
            let piece = next(&mut body).await.unwrap().unwrap();
            assert!(piece.len() <= MAX_PIECE, "{}", piece.len());
            read.extend_from_slice(&piece);
        }
        assert_eq!(read, whole);
    }
    let sized = connection.watch(Body::from(whole), HeldPermits::default(), connection.begin());
    assert_eq!(sized.size_hint().exact(), Some(200_000));
    assert!(!sized.is_end_stream());
    assert!(
        connection.watch(Body::empty(), HeldPermits::default(), connection.begin()).is_end_stream()
    );
}

/// C13: a body that is not polled in time is dropped, and its connection closed.
#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_is_dropped() {
    let connection = Connection::default();
    let (body, is_gone) = body_of(vec![vec![1; 10], vec![2; 10]]);
    let mut body = connection.watch(body, HeldPermits::default(), connection.begin());
    next(&mut body).await.unwrap().unwrap();
    advance(WRITE_TIME.checked_sub(Duration::from_millis(1)).unwrap()).await;
    assert_eq!(connection.check(&TIMES, true), (Verdict::Keep, 0));
    assert!(!is_gone.load(Ordering::SeqCst));
    advance(Duration::from_millis(1)).await;
    assert_eq!(connection.check(&TIMES, true), (Verdict::Close, 1));
    assert!(is_gone.load(Ordering::SeqCst), "what was behind it is given back");
    assert_eq!(connection.check(&TIMES, true), (Verdict::Close, 0), "it is counted once");
    assert!(next(&mut body).await.unwrap().is_err(), "its end is not taken for a good one");
    drop(body);
    assert_eq!(connection.check(&TIMES, true), (Verdict::Keep, 0));
}

/// C13: a body that waits for its source is never considered stuck.
#[tokio::test(start_paused = true)]
async fn a_body_that_has_nothing_to_say_is_waited_for() {
    let connection = Connection::default();
    let (body, is_gone) = body_of(vec![vec![1; 10]]);
    let mut body = connection.watch(body, HeldPermits::default(), connection.begin());
    next(&mut body).await.unwrap().unwrap();
    assert!(futures::FutureExt::now_or_never(next(&mut body)).is_none(), "it waits for more");
    advance(WRITE_TIME * 10).await;
    assert_eq!(connection.check(&TIMES, true), (Verdict::Keep, 0));
    assert!(!is_gone.load(Ordering::SeqCst));
}

/// C13: of two responses on one connection, only the unread one is dropped.
#[tokio::test(start_paused = true)]
async fn a_stuck_response_harms_no_other() {
    let connection = Connection::default();
    let ((stuck, stuck_is_gone), (read, read_is_gone)) =
        (body_of(vec![vec![1; 10]]), body_of(vec![vec![2; 10], vec![3; 10]]));
    let (mut stuck, mut read) = (
        connection.watch(stuck, HeldPermits::default(), connection.begin()),
        connection.watch(read, HeldPermits::default(), connection.begin()),
    );
    next(&mut stuck).await.unwrap().unwrap();
    advance(WRITE_TIME / 2).await;
    next(&mut read).await.unwrap().unwrap();
    advance(WRITE_TIME / 2).await;
    assert_eq!(connection.check(&TIMES, true), (Verdict::Keep, 1));
    assert!(stuck_is_gone.load(Ordering::SeqCst) && !read_is_gone.load(Ordering::SeqCst));
    next(&mut read).await.unwrap().unwrap();
}

/// A13: an unauthenticated connection may be open for the header timeout, one without requests for
/// a minute, and any for an hour; one with a request is not idle.
#[tokio::test(start_paused = true)]
async fn a_connection_has_its_time() {
    let step = Duration::from_millis(1);
    let connection = Connection::default();
    let after = async |time: Duration| advance(time.checked_sub(step).unwrap()).await;
    after(TIMES.unknown).await;
    assert_eq!(connection.check(&TIMES, false).0, Verdict::Keep);
    advance(step).await;
    assert_eq!(connection.check(&TIMES, false).0, Verdict::Leave("limits.header_timeout_sec"));
    assert_eq!(connection.check(&TIMES, true).0, Verdict::Keep);

    let request = connection.begin();
    advance(TIMES.idle * 2).await;
    assert_eq!(connection.check(&TIMES, true).0, Verdict::Keep, "it is being answered");
    assert!(!connection.is_idle());
    drop(request);
    after(TIMES.idle).await;
    assert_eq!(connection.check(&TIMES, true).0, Verdict::Keep);
    advance(step).await;
    assert_eq!(connection.check(&TIMES, true).0, Verdict::Leave("limits.idle_timeout_sec"));

    let _request = connection.begin();
    advance(TIMES.total).await;
    assert_eq!(connection.check(&TIMES, true).0, Verdict::Leave("limits.connection_timeout_sec"));
}
