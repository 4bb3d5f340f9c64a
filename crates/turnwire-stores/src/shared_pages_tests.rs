//! Sharing and lifetime of pages.

use futures::future::join_all;
use tokio::sync::Notify;
use turnwire_contract::{Event, RunId, Timestamp};

use super::*;

fn recorded(seq: u64) -> Arc<RecordedEvent> {
    let (run_id, at) = (RunId::from("run_1"), Timestamp::from_micros(1));
    Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event: Event::RunStarted })
}

fn page_of(seqs: impl IntoIterator<Item = u64>) -> Page {
    Page { events: seqs.into_iter().map(recorded).collect(), ..Page::default() }
}

/// C13: readers at the same position share one copy, and concurrent readers fetch it once.
#[tokio::test]
async fn readers_of_one_place_share_a_page() {
    let (pages, n_fetched, open) = (SharedPages::default(), Mutex::new(0), Notify::new());
    let read = || {
        pages.page(Seq(0), async {
            *lock(&n_fetched) += 1;
            open.notified().await;
            Ok(page_of(1..=3))
        })
    };
    let reading = join_all((0..50).map(|_| read()));
    open.notify_one();
    let mut readers: Vec<Events> = reading.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(*lock(&n_fetched), 1);
    let first: Vec<Arc<RecordedEvent>> = readers.iter_mut().filter_map(Events::next).collect();
    assert_eq!(first.len(), 50);
    assert!(first.iter().all(|recorded| Arc::ptr_eq(recorded, &first[0])));
}

/// C13: a page is freed with its last reader, and after its last event.
#[tokio::test]
async fn a_page_is_gone_with_its_last_reader() {
    let pages = SharedPages::default();
    let mut reader = pages.page(Seq(0), async { Ok(page_of(1..=2)) }).await.unwrap();
    let first = Arc::downgrade(&reader.next().unwrap());
    assert!(first.upgrade().is_some(), "the page is still being read");
    assert_eq!(reader.next().unwrap().seq, Seq(2));
    assert!(first.upgrade().is_none(), "nothing of it is left to read");
    for after in 0..1_000 {
        pages.page(Seq(after), async { Ok(page_of([1])) }).await.unwrap();
    }
    assert!(lock(&pages.slots).len() < 100, "places are forgotten with their pages");
}

/// C27: a failed fetch is retried.
#[tokio::test]
async fn a_failed_fetch_is_not_kept() {
    let pages = SharedPages::default();
    let away = async { Err(DatabaseError::Unavailable("as the test wants it".to_owned())) };
    assert!(pages.page(Seq(0), away).await.is_err());
    assert!(!pages.page(Seq(0), async { Ok(page_of([1])) }).await.unwrap().is_empty());
}
