//! The journal in SQLite and PostgreSQL.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::join_all};
use tokio::time::timeout;
use turnwire_contract::{
    Event, Journal, JournalError, RecordedEvent, RunEnd, RunId, RunOutcome, Seq, TenantId,
    ToolOutcome,
};
use turnwire_stores::Store;
use turnwire_testkit::{conformance, services};

use crate::{
    journals::{
        PATIENCE, at, backends, end, event, in_file, next, pairs, reader, rest, sqlite, stored,
        tenant, text,
    },
    proxy::{MARK, Proxy},
};

/// C1, C2, C3, C16, A1: all promises of a journal, in a file.
#[tokio::test]
async fn sqlite_keeps_all_promises() {
    let (_directory, store) = sqlite().await;
    conformance::journal::check(&store).await;
}

/// C1, C2, C3, C16, A1: all promises of a journal, in PostgreSQL, with and without Redis.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_all_promises() {
    for (store, _) in pairs().await {
        conformance::journal::check(&store).await;
    }
}

/// C11: what was written to the file is there when it is opened again, and can be written on.
#[tokio::test]
async fn a_file_that_is_opened_again_has_everything() {
    let (directory, store) = sqlite().await;
    store.append(&tenant(), vec![text("run_1", 1, "a"), text("run_1", 2, "b")]).await.unwrap();
    drop(store);
    let store = in_file(&directory).await;
    store.append(&tenant(), vec![end("run_1", 3)]).await.unwrap();
    let expected = [text("run_1", 1, "a"), text("run_1", 2, "b"), end("run_1", 3)];
    assert_eq!(rest(reader(&store, "run_1", 0).await).await, expected);
    assert_eq!(stored(&store, "run_1").await, expected);
}

/// C16: a worker that lost its run writes nothing, and its neighbours in the batch do not suffer
/// for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_writes_nothing() {
    for (zombie, other) in pairs().await {
        for run in ["run_1", "run_2", "run_3"] {
            zombie.append(&tenant(), vec![text(run, 1, "mine")]).await.unwrap();
        }
        let taken_over = event("run_2", 2, Event::taken_over(2));
        other.append(&tenant(), vec![Arc::clone(&taken_over)]).await.unwrap();
        let late = |run: &str| vec![text(run, 2, "late"), text(run, 3, "later"), end(run, 4)];
        let tenant = tenant();
        let appended =
            join_all(["run_1", "run_2", "run_3"].map(|run| zombie.append(&tenant, late(run))))
                .await;
        assert!(appended[0].is_ok() && appended[2].is_ok(), "{appended:?}");
        assert!(
            matches!(&appended[1], Err(JournalError::Conflict { seq: Seq(2), .. })),
            "{appended:?}"
        );
        assert_eq!(stored(&other, "run_2").await, [text("run_2", 1, "mine"), taken_over]);
        // It stays refused, wherever it tries: in the past, and where it would leave a gap.
        for backend in [1, 2, 4, 5] {
            let again = zombie.append(&tenant, vec![text("run_2", backend, "again")]).await;
            assert!(matches!(again, Err(JournalError::Conflict { .. })), "{backend}: {again:?}");
        }
        assert_eq!(backends(&stored(&other, "run_2").await), [1, 2]);
    }
}

/// C2: an answer that got lost is asked for again, and nothing is written twice, whether it was
/// one statement or the transaction that ends a run.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_changes_nothing() {
    const N: u64 = 20;
    let url = services::postgres_url();
    let port: u16 = url.split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
    let proxy = Proxy::to(port).await;
    let cut = at(&url.replace(&port.to_string(), &proxy.address.port().to_string()), None).await;
    let straight = at(&url, None).await;
    for n in 0..N {
        proxy.cut_next();
        let batch = vec![text("run_1", 2 * n + 1, MARK), text("run_1", 2 * n + 2, "more")];
        cut.append(&tenant(), batch).await.unwrap();
    }
    let run_end = RunEnd { outcome: RunOutcome::Completed, entries: Vec::new() };
    proxy.cut_next();
    let last = vec![text("run_1", 2 * N + 1, MARK), end("run_1", 2 * N + 2)];
    cut.append_end(&tenant(), last, run_end).await.unwrap();
    assert_eq!(proxy.n_cuts(), 21, "an answer arrived that should not have");
    let expected: Vec<u64> = (1..=2 * N + 2).collect();
    assert_eq!(backends(&stored(&straight, "run_1").await), expected);
    assert_eq!(backends(&rest(reader(&straight, "run_1", 0).await).await), expected);
}

/// C3, C4: a second end of a call is refused by the database itself, and only that append.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_only_the_guilty_one_is_refused() {
    let (_directory, file) = sqlite().await;
    let (postgres, _) = pairs().await.swap_remove(0);
    for store in [file, postgres] {
        let finished = |run: &str, seq| {
            let (call_id, outcome) = ("call_1".into(), ToolOutcome::Cancelled);
            event(run, seq, Event::ToolFinished { call_id, outcome, duration_ms: 0 })
        };
        let names: Vec<String> = (0..20).map(|n| format!("run_{n}")).collect();
        let tenant = tenant();
        let batch = |run: &str| {
            let second = if run == "run_7" { finished(run, 3) } else { text(run, 3, "fine") };
            vec![text(run, 1, "a"), finished(run, 2), second]
        };
        let appended = join_all(names.iter().map(|run| store.append(&tenant, batch(run)))).await;
        for (run, appended) in names.iter().zip(appended) {
            let is_there = store.read_stored(&tenant, &RunId::from(run.as_str()), Seq::START).await;
            if run == "run_7" {
                assert!(matches!(appended, Err(JournalError::Conflict { .. })), "{appended:?}");
                assert!(matches!(is_there, Err(JournalError::NotFound(_))), "{is_there:?}");
            } else {
                appended.unwrap();
                assert_eq!(is_there.unwrap(), batch(run));
            }
        }
    }
}

/// C2, C11: readers on another worker see everything, in order and once, however it is cut into
/// batches, and wherever they begin.
#[tokio::test(flavor = "multi_thread")]
async fn readers_on_another_worker_see_everything_in_order() {
    const N: u64 = 300;
    for (writer, other) in pairs().await {
        let runs: Vec<String> = (0..8).map(|n| format!("run_{n}")).collect();
        for run in &runs {
            writer.append(&tenant(), vec![text(run, 1, "a")]).await.unwrap();
        }
        let reading = runs.iter().flat_map(|run| {
            let other = &other;
            [0, 1, 150].map(|after| async move {
                let read = rest(reader(other, run, after).await).await;
                assert_eq!(backends(&read), (after + 1..=N).collect::<Vec<_>>(), "{run}");
            })
        });
        let writing = runs.iter().enumerate().map(|(n, run)| {
            let writer = &writer;
            async move {
                let mut seq = 2;
                while seq < N {
                    let last = (seq + seq % (n as u64 + 2)).min(N - 1);
                    let batch = (seq..=last).map(|seq| text(run, seq, "b")).collect();
                    writer.append(&tenant(), batch).await.unwrap();
                    seq = last + 1;
                }
                writer.append(&tenant(), vec![end(run, N)]).await.unwrap();
            }
        });
        tokio::join!(join_all(reading), join_all(writing));
    }
}

/// C11: a reader that did not read for long finds everything, also what is no longer at hand.
#[tokio::test]
async fn a_reader_that_fell_behind_catches_up() {
    let (_directory, store) = sqlite().await;
    store.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    let mut slow = reader(&store, "run_1", 0).await;
    assert_eq!(next(&mut slow).await.seq, Seq(1));
    for seq in 2..=700 {
        let turn = event("run_1", seq, Event::TurnStarted { turn: 1 });
        store.append(&tenant(), vec![turn]).await.unwrap();
    }
    store.append(&tenant(), vec![end("run_1", 701)]).await.unwrap();
    assert_eq!(backends(&rest(slow).await), (2..=701).collect::<Vec<_>>());
    // After the end there is nothing, at once.
    assert!(rest(reader(&store, "run_1", 701).await).await.is_empty());
}

/// A run that is forgotten ends its readers, here and elsewhere, also those who wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_forgotten_ends_its_readers() {
    for (store, other) in pairs().await {
        store.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
        let (mut here, mut there) =
            (reader(&store, "run_1", 0).await, reader(&other, "run_1", 0).await);
        assert_eq!((next(&mut here).await.seq, next(&mut there).await.seq), (Seq(1), Seq(1)));
        assert!(here.next().now_or_never().is_none());
        store.delete(&TenantId::from("somebody else"), &RunId::from("run_1")).await.unwrap();
        assert_eq!(backends(&stored(&store, "run_1").await), [1]);
        store.delete(&tenant(), &RunId::from("run_1")).await.unwrap();
        for mut reader in [here, there] {
            let gone = timeout(PATIENCE, reader.next()).await.expect("it waits for ever");
            assert!(matches!(gone, Some(Err(JournalError::NotFound(_)))), "{gone:?}");
            assert!(reader.next().await.is_none());
        }
    }
}

/// What was handed over before the store is closed is written, and nothing after.
#[tokio::test]
async fn closing_writes_what_was_handed_over() {
    let (directory, store) = sqlite().await;
    let appends = (0..50).map(|n| {
        let store = store.clone();
        async move { store.append(&tenant(), vec![text(&format!("run_{n}"), 1, "a")]).await }
    });
    let mut appends = Box::pin(join_all(appends));
    assert!(futures::poll!(&mut appends).is_pending(), "they are handed over");
    timeout(PATIENCE, store.close()).await.expect("it is closed");
    assert!(appends.await.iter().all(Result::is_ok));
    let late = store.append(&tenant(), vec![text("run_late", 1, "a")]).await;
    assert!(matches!(late, Err(JournalError::Unavailable(_))), "{late:?}");
    drop(store);
    let store = in_file(&directory).await;
    for n in 0..50 {
        assert_eq!(backends(&stored(&store, &format!("run_{n}")).await), [1]);
    }
}

/// Appends one event after the other until told to stop, and counts those that are acknowledged.
async fn write_until(
    store: &Store,
    run: &str,
    stop: &AtomicBool,
    n_acknowledged: &AtomicU64,
) -> u64 {
    for seq in 1.. {
        let is_last = stop.load(Ordering::SeqCst);
        let event = if is_last { end(run, seq) } else { text(run, seq, "a") };
        store.append(&tenant(), vec![event]).await.unwrap();
        n_acknowledged.fetch_add(1, Ordering::SeqCst);
        if is_last {
            return seq;
        }
    }
    unreachable!("there are more numbers")
}

async fn until(is_so: impl Fn() -> bool) {
    let reached = timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    reached.await.expect("it never comes to that");
}

/// C1, C2, C18: PostgreSQL is killed and started again under load. No acknowledged event is
/// missing, nobody has seen an event that is not in the journal, and no stream breaks.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_visible_is_lost_when_postgres_is_killed() {
    const RUNS: [&str; 4] = ["run_a", "run_b", "run_c", "run_d"];
    let mut server = services::Postgres::start();
    let (writer, other) = (at(&server.url(), None).await, at(&server.url(), None).await);
    let (stop, n_acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let n_seen = AtomicU64::new(0);
    let writing = join_all(RUNS.map(|run| write_until(&writer, run, &stop, &n_acknowledged)));
    let reading = join_all([&writer, &other].into_iter().flat_map(|store| {
        let n_seen = &n_seen;
        RUNS.map(|run| async move {
            let run_id = RunId::from(run);
            let mut reader = loop {
                match store.read(&tenant(), &run_id, Seq::START).await {
                    Ok(reader) => break reader,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            let mut seen: Vec<Arc<RecordedEvent>> = Vec::new();
            while let Some(event) = timeout(PATIENCE, reader.next()).await.expect("it hangs") {
                seen.push(event.expect("C18: the stream broke"));
                n_seen.fetch_add(1, Ordering::SeqCst);
            }
            (run, seen)
        })
    }));
    let nemesis = async {
        for _ in 0..3 {
            let (acknowledged, seen) =
                (n_acknowledged.load(Ordering::SeqCst), n_seen.load(Ordering::SeqCst));
            until(|| {
                n_acknowledged.load(Ordering::SeqCst) >= acknowledged + 100
                    && n_seen.load(Ordering::SeqCst) >= seen + 200
            })
            .await;
            tokio::task::block_in_place(|| {
                server.kill();
                server.restart();
            });
        }
        let acknowledged = n_acknowledged.load(Ordering::SeqCst);
        until(|| n_acknowledged.load(Ordering::SeqCst) > acknowledged + 100).await;
        stop.store(true, Ordering::SeqCst);
    };
    let (lengths, all_seen, ()) = tokio::join!(writing, reading, nemesis);
    for (run, length) in RUNS.into_iter().zip(lengths) {
        assert_eq!(backends(&stored(&other, run).await), (1..=length).collect::<Vec<_>>(), "{run}");
    }
    for (run, seen) in all_seen {
        assert_eq!(seen, stored(&other, run).await, "{run}");
    }
}

/// C18: a PostgreSQL that does not answer at all is waited for, by writers and by readers.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_postgres_is_waited_for() {
    let server = services::Postgres::start();
    let (writer, other) = (at(&server.url(), None).await, at(&server.url(), None).await);
    writer.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    let mut waiting = reader(&other, "run_1", 0).await;
    assert_eq!(next(&mut waiting).await.seq, Seq(1));
    tokio::task::block_in_place(|| server.freeze());
    let tenant = tenant();
    let appending = writer.append(&tenant, vec![text("run_1", 2, "b"), end("run_1", 3)]);
    let thawing = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        tokio::task::block_in_place(|| server.thaw());
    };
    let (appended, (), read) = tokio::join!(appending, thawing, rest(waiting));
    appended.unwrap();
    assert_eq!(backends(&read), [2, 3]);
    assert_eq!(backends(&stored(&other, "run_1").await), [1, 2, 3]);
}
