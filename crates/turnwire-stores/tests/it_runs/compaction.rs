//! The journals of finished runs are stored in fewer rows, and nobody notices.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, future::join_all};
use tokio::time::timeout;
use turnwire_contract::{
    CallId, Event, Journal, Leases, RecordedEvent, RunEnd, RunId, RunOutcome, RunRecords, Seq,
    Timestamp, ToolOutcome, Usage,
};
use turnwire_stores::{SecretKeys, Store, StoreOptions};

use crate::support::{Backend, run, tenant};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const AT_ONCE: Option<Duration> = Some(Duration::from_millis(5));

fn recorded(run_id: &str, seq: u64, event: Event) -> Arc<RecordedEvent> {
    let at = Timestamp::from_micros(1_000_000 + i64::try_from(seq * seq).unwrap());
    Arc::new(RecordedEvent { run_id: RunId::from(run_id), seq: Seq(seq), at, event })
}

fn word(item: &str, n: usize) -> Event {
    let text = format!("wörd \"{n}\"\n");
    Event::TextAdded { item_id: item.into(), text }
}

/// What a run with two messages and a tool between them says, each in an append of its own.
fn said(n_words: usize) -> Vec<Event> {
    let call_id = CallId::from("call_1");
    let mut events = vec![Event::RunStarted, Event::TurnStarted { turn: 1 }];
    events.extend((0..n_words).map(|n| word("msg_1", n)));
    events.push(Event::ToolStarted { call_id: call_id.clone(), attempt: 1, label: String::new() });
    events.extend((0..n_words).map(|n| {
        let text = format!("line {n}\n");
        Event::ToolOutputAdded { call_id: call_id.clone(), text }
    }));
    let outcome = ToolOutcome::OutcomeUnknown { message: "done".to_owned() };
    events.push(Event::ToolFinished { call_id, outcome, duration_ms: 1 });
    events.extend((0..n_words).map(|n| word("msg_2", n)));
    events.extend((0..n_words).map(|n| word("msg_3", n)));
    events
}

/// A run of this store, from its beginning to its end.
async fn have(store: &Store, id: &str, said: Vec<Event>) {
    store.create(run(id, |_| {})).await.unwrap();
    let mut seq = 0;
    for event in said {
        seq += 1;
        store.append(&tenant(), vec![recorded(id, seq, event)]).await.unwrap();
    }
    end(store, id, seq).await;
}

/// The last words, and the end.
async fn end(store: &Store, id: &str, seq: u64) {
    let outcome = RunOutcome::Completed;
    let over = Event::RunFinished { outcome: outcome.clone(), usage: Usage::default() };
    let last = vec![recorded(id, seq + 1, word("msg_3", 0)), recorded(id, seq + 2, over)];
    let entries = Vec::new();
    assert!(store.append_end(&tenant(), last, RunEnd { outcome, entries }).await.unwrap());
}

async fn journal(store: &Store, id: &str, after: Seq) -> Vec<Arc<RecordedEvent>> {
    let stored = store.stored(&tenant(), &RunId::from(id), after).await.unwrap();
    stored.try_collect().await.unwrap()
}

impl Backend {
    async fn rows_of(&self, id: &str) -> Vec<String> {
        let sql = format!(
            "select cast(first_seq as text) || ' ' || kind from run_events
             where run_id = '{id}' order by first_seq"
        );
        self.ask(&sql).await
    }

    /// Waits until the run has fewer than `n_rows`.
    async fn has_fewer(&self, id: &str, n_rows: usize) {
        let merged = async {
            while self.rows_of(id).await.len() >= n_rows {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(1), merged).await.unwrap();
    }
}

/// All databases, and both with encryption.
fn all() -> Vec<(Backend, Option<SecretKeys>)> {
    let keys = SecretKeys::read(KEY).unwrap();
    let mut all: Vec<_> = Backend::all().into_iter().map(|backend| (backend, None)).collect();
    all.extend(Backend::both().into_iter().map(|backend| (backend, Some(keys.clone()))));
    all
}

/// C2: the events of a run are the same before and after, from wherever they are read, and its
/// deltas have a few rows.
#[tokio::test]
async fn words_of_a_finished_run_share_rows() {
    for (backend, keys) in all() {
        let store = backend
            .store_with(|options| {
                options.compact_after = None;
                options.encryption.clone_from(&keys);
            })
            .await;
        have(&store, "run_1", said(300)).await;
        let before = journal(&store, "run_1", Seq::START).await;
        assert_eq!((before.len(), backend.rows_of("run_1").await.len()), (1_206, 1_206));
        let open = |options: &mut StoreOptions| {
            options.compact_after = AT_ONCE;
            options.encryption.clone_from(&keys);
        };
        let compacting = backend.store_with(open).await;
        backend.has_fewer("run_1", 20).await;
        let rows = backend.rows_of("run_1").await;
        for kept in ["1 event", "2 event", "303 start", "604 end", "1205 delta", "1206 over"] {
            assert!(rows.iter().any(|row| row == kept), "{kept}: {rows:?}");
        }
        for store in [&store, &compacting, &backend.store_with(open).await] {
            assert!(journal(store, "run_1", Seq::START).await == before);
            for after in [1, 2, 3, 150, 301, 302, 303, 304, 500, 513, 700, 904, 905, 1_204, 1_205] {
                let rest = journal(store, "run_1", Seq(after as u64)).await;
                assert!(rest == before[after..], "after {after}");
            }
        }
        if keys.is_some() {
            let readable = "select body from run_events where body like '%wörd%'";
            assert!(backend.ask(readable).await.is_empty(), "A17: it stays encrypted");
        }
    }
}

/// C2, C3: nobody may write to a run that has changed hands but its last owner, and the fence is
/// the row that is there. So these runs stay as they are.
#[tokio::test]
async fn runs_that_changed_hands_stay() {
    for backend in Backend::all() {
        let store = backend.store_with(|options| options.compact_after = None).await;
        for id in ["run_1", "run_2", "run_3", "run_4"] {
            have(&store, id, said(5)).await;
        }
        backend.ask("update runs set n_deaths = 1 where id = 'run_1'").await;
        // As if another process had taken it over.
        let foreign = "update run_events set tag = tag / 2 where run_id = 'run_2'
                       and first_seq = 2";
        backend.ask(foreign).await;
        let unreadable = "update run_events set body = '[[' where run_id = 'run_3'
                          and first_seq = 12";
        backend.ask(unreadable).await;
        // What a later version may write must not be lost.
        let unknown = "update run_events set body = replace(body, '\"text\":', '\"x\":1,\"text\":')
                       where run_id = 'run_4' and first_seq = 6";
        backend.ask(unknown).await;
        let before = journal(&store, "run_3", Seq::START).await;
        let n_rows = backend.rows_of("run_1").await.len();
        let _compacting = backend.store_with(|options| options.compact_after = AT_ONCE).await;
        backend.has_fewer("run_4", n_rows).await;
        // The next run has its turn when all of the others have had theirs.
        have(&store, "run_5", said(5)).await;
        backend.has_fewer("run_5", n_rows).await;
        let rows = backend.rows_of("run_4").await;
        assert!(rows.contains(&"6 delta".to_owned()), "{rows:?}");
        assert_eq!(backend.rows_of("run_1").await.len(), n_rows);
        assert_eq!(backend.rows_of("run_2").await.len(), n_rows);
        let rows = backend.rows_of("run_3").await;
        assert!(rows.len() < n_rows && rows.contains(&"12 delta".to_owned()), "{rows:?}");
        assert!(journal(&store, "run_3", Seq::START).await == before, "what is damaged stays so");
    }
}

/// A run whose key is not here stays as it is, and does not keep others from their turn.
#[tokio::test]
async fn a_run_without_its_key_stays() {
    for backend in Backend::both() {
        let keys = SecretKeys::read(KEY).unwrap();
        let off = |options: &mut StoreOptions| options.compact_after = None;
        let encrypting = backend
            .store_with(|options| {
                off(options);
                options.encryption = Some(keys.clone());
            })
            .await;
        have(&encrypting, "run_1", said(5)).await;
        let n_rows = backend.rows_of("run_1").await.len();
        let plain = backend.store_with(off).await;
        have(&plain, "run_2", said(5)).await;
        let _compacting = backend.store_with(|options| options.compact_after = AT_ONCE).await;
        backend.has_fewer("run_2", n_rows).await;
        have(&plain, "run_3", said(5)).await;
        backend.has_fewer("run_3", n_rows).await;
        assert_eq!(backend.rows_of("run_1").await.len(), n_rows);
    }
}

/// Runs that have just finished stay as they are for a while.
#[tokio::test]
async fn a_journal_is_compacted_when_its_time_has_come() {
    for backend in Backend::both() {
        let hour = Some(Duration::from_hours(1));
        let store = backend.store_with(|options| options.compact_after = None).await;
        have(&store, "run_1", said(5)).await;
        have(&store, "run_2", said(5)).await;
        let n_rows = backend.rows_of("run_1").await.len();
        let long_ago = if backend.is_postgres() { "'-infinity'" } else { "0" };
        let old = format!("update runs set finished_at = {long_ago} where id = 'run_2'");
        backend.ask(&old).await;
        let _compacting = backend.store_with(|options| options.compact_after = hour).await;
        backend.has_fewer("run_2", n_rows).await;
        assert_eq!(backend.rows_of("run_1").await.len(), n_rows);
        // The mark is set after the rows of the run are merged.
        let marked = async {
            while backend.ask("select run_id from compaction").await != ["run_2"] {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(1), marked).await.unwrap();
    }
}

/// C24: a worker of a version that cannot read what compaction writes keeps everybody from it,
/// until it is gone.
#[tokio::test]
async fn a_version_before_can_read_everything() {
    for backend in Backend::both() {
        let store = backend.store_with(|options| options.compact_after = None).await;
        have(&store, "run_1", said(5)).await;
        let n_rows = backend.rows_of("run_1").await.len();
        let soon = if backend.is_postgres() { "now()" } else { "0" };
        let before = format!(
            "insert into workers (id, lease_until, reads_lists) values ('before', {soon}, 1)"
        );
        backend.ask(&before).await;
        let compacting = backend.store_with(|options| options.compact_after = AT_ONCE).await;
        for _ in 0..10 {
            compacting.heartbeat().await.unwrap();
            tokio::time::sleep(AT_ONCE.unwrap()).await;
        }
        assert_eq!(backend.rows_of("run_1").await.len(), n_rows);
        backend.ask("delete from workers where id = 'before'").await;
        compacting.heartbeat().await.unwrap();
        backend.has_fewer("run_1", n_rows).await;
    }
}

/// C25: runs that are deleted while several nodes merge their rows leave nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_deleted_meanwhile_leaves_nothing() {
    for backend in Backend::both() {
        let mut stores = Vec::new();
        for _ in 0..3 {
            stores.push(backend.store_with(|options| options.compact_after = AT_ONCE).await);
        }
        let runs = (0..60_u64).zip(stores.iter().cycle()).map(|(n, store)| async move {
            let id = format!("run_{n}");
            have(store, &id, said(20)).await;
            tokio::time::sleep(Duration::from_millis(n % 12)).await;
            RunRecords::delete(store, &tenant(), &RunId::new(id)).await.unwrap();
        });
        join_all(runs).await;
        assert!(backend.ask("select run_id from run_events").await.is_empty());
        have(&stores[0], "run_last", said(20)).await;
        backend.has_fewer("run_last", 20).await;
    }
}

/// C2: a node that was away while a run went on, ended and was compacted shows all of it to whoever
/// has waited there.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_away_misses_nothing() {
    for backend in Backend::both() {
        let one = backend.store_with(|options| options.compact_after = None).await;
        one.create(run("run_1", |_| {})).await.unwrap();
        for (seq, event) in (1..=10).zip(said(40)) {
            one.append(&tenant(), vec![recorded("run_1", seq, event)]).await.unwrap();
        }
        let other = backend.store_with(|options| options.compact_after = None).await;
        let mut events = other.read(&tenant(), &"run_1".into(), Seq::START).await.unwrap();
        for _ in 0..10 {
            events.next().await.unwrap().unwrap();
        }
        // Merged and over, as a node finds it that could not look for a while.
        let over = Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() };
        let words: Vec<_> = (6..=60).map(|seq| recorded("run_1", seq, word("msg_1", 1))).collect();
        let body = |events: &[Arc<RecordedEvent>]| {
            let body: Vec<_> = events.iter().map(|it| (it.at.as_micros(), &it.event)).collect();
            serde_json::to_string(&body).unwrap()
        };
        let merged = "delete from run_events where run_id = 'run_1' and first_seq > 6";
        backend.ask(merged).await;
        let merged = format!(
            "update run_events set last_seq = 60, body = '{}'
             where run_id = 'run_1' and first_seq = 6",
            body(&words)
        );
        backend.ask(&merged).await;
        let over = [recorded("run_1", 61, over)];
        let ended = format!(
            "insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body)
             values ('t', 'run_1', 61, 61, 1, 'over', '{}')",
            body(&over)
        );
        backend.ask(&ended).await;
        let rest = timeout(Duration::from_secs(20), events.try_collect::<Vec<_>>());
        let rest = rest.await.unwrap().unwrap();
        assert!(rest == [&words[5..], &over].concat(), "{} events", rest.len());
    }
}
