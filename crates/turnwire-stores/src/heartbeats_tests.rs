use std::time::Duration;

use super::{HeartbeatState, MAX_STUCK};

/// C18: a gap of more than a lease restarts the series of heartbeats.
#[test]
fn heartbeats_are_steady_after_a_lease() {
    let lease = Duration::from_secs(2);
    let (heartbeats, start) = (HeartbeatState::default(), tokio::time::Instant::now());
    let at = |millis| start + Duration::from_millis(millis);
    assert!(!heartbeats.are_steady(at(0), lease), "never heard");
    for heartbeat in [0, 1_900, 3_800] {
        heartbeats.record(at(heartbeat), lease);
    }
    assert!(heartbeats.are_steady(at(3_800), lease));
    assert!(!heartbeats.are_steady(at(5_900), lease), "not heard any more");
    heartbeats.record(at(5_900), lease);
    assert!(!heartbeats.are_steady(at(5_900), lease), "a new series");
    heartbeats.record(at(7_000), lease);
    assert!(!heartbeats.are_steady(at(7_899), lease));
    assert!(heartbeats.are_steady(at(7_900), lease));
}

/// C27: a node whose writer is stuck stops its heartbeats, so that others claim its runs. After a
/// common outage, the writer gets its time first.
#[test]
fn a_node_that_cannot_write_does_not_beat() {
    let (lease, start) = (Duration::from_secs(2), tokio::time::Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let long = MAX_STUCK + Duration::from_secs(1);
    let heartbeats = HeartbeatState::default();
    assert!(heartbeats.may_send(at(0), long), "it has only just begun");
    for second in 0..=10 {
        heartbeats.record(at(second), lease);
    }
    assert!(heartbeats.may_send(at(10), MAX_STUCK), "not for long enough");
    heartbeats.record(at(11), lease);
    assert!(!heartbeats.may_send(at(11), long));
    assert!(!heartbeats.may_send(at(60), long), "however long it lasts");
    assert!(heartbeats.may_send(at(61), Duration::ZERO), "it writes again");
}
