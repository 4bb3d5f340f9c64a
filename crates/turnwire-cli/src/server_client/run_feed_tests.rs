//! How long a lost line waits.

use super::*;

/// A line that is back within a quarter of a minute is noticed at once, and a long outage costs the
/// server little.
#[tokio::test(start_paused = true)]
async fn attempts_are_frequent_at_first_and_rare_in_a_long_outage() {
    let mut outage = Outage::begins();
    assert_eq!(outage.wait(), FIRST_WAIT);
    let mut waits = Vec::new();
    while outage.since.elapsed() < Duration::from_mins(2) {
        outage = outage.goes_on();
        waits.push(outage.wait());
        sleep(outage.wait()).await;
    }
    let n_short = waits.iter().take_while(|wait| **wait == SHORT_WAIT).count();
    assert_eq!(n_short, 60, "four times a second for 15 seconds");
    let long: Vec<u64> = waits.iter().skip(n_short).map(Duration::as_secs).collect();
    assert_eq!(long, [1, 2, 4, 8, 15, 15, 15, 15, 15, 15]);
}

#[test]
fn no_two_clients_come_at_the_same_moment() {
    let waits: Vec<Duration> = (0..64).map(|_| with_jitter(SHORT_WAIT)).collect();
    assert!(waits.iter().all(|wait| (SHORT_WAIT..=SHORT_WAIT.mul_f64(1.2)).contains(wait)));
    assert!(waits.iter().any(|wait| *wait != waits[0]));
}
