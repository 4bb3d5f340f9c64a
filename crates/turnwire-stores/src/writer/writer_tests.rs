use tokio_util::task::TaskTracker;
use turnwire_contract::{Event, Timestamp};

use super::*;

/// Panics on the first batch and stores the others.
struct PanicsOnce {
    has_panicked: bool,
}

#[async_trait]
impl BatchWriter for PanicsOnce {
    async fn write(&mut self, jobs: &[Job], _: Duration) -> Result<Vec<bool>, DatabaseError> {
        assert!(std::mem::replace(&mut self.has_panicked, true), "on purpose");
        Ok(vec![true; jobs.len()])
    }

    async fn probe(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }
}

fn first_append_of(run_id: &str) -> Append {
    let (run_id, event) = (run_id.into(), Event::RunStarted);
    let first = RecordedEvent { run_id, seq: Seq(1), at: Timestamp::from_micros(1), event };
    Append {
        tenant: TenantId::default(),
        events: vec![Arc::new(first)],
        catalogues: Vec::new(),
        run_end: None,
        summary: None,
        deliveries: Vec::new(),
        new_run: None,
        key: None,
    }
}

/// C27: a writer that panics fails the appends of its batch, continues with the next, and does not
/// appear stuck.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_batch() {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let (isolated, _jobs) = mpsc::unbounded_channel();
    let notifier = CommitNotifier { tails: Arc::default(), publisher: None };
    let journal = Box::new(PanicsOnce { has_panicked: false });
    let outage = Arc::new(Availability::of("database"));
    let (handle, writer) = Writer::new(journal, isolated, notifier, outage, stop.clone());
    tasks.spawn(writer.run());

    let lost = handle.append(first_append_of("run_1")).await;
    assert!(matches!(lost, Err(JournalError::Unavailable(_))), "{lost:?}");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(handle.stuck_for(), Duration::ZERO);
    handle.append(first_append_of("run_2")).await.unwrap();
    handle.probe().await.unwrap();

    // A stopped writer is not ready.
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    assert!(handle.probe().await.is_err());
}
