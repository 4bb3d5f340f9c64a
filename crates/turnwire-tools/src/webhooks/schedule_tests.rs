use super::*;

const DAY: Duration = Duration::from_hours(24);

/// A receiver that is away for three days misses nothing, and one that never comes back is given
/// up.
#[test]
fn pauses_grow_to_three_days_and_end() {
    let pauses: Vec<Duration> = (1..).map_while(|n| pause("evt_1", n, None)).collect();
    assert_eq!(pauses.len(), PAUSES.len());
    assert!(pauses.is_sorted(), "{pauses:?}");
    let total: Duration = pauses.iter().sum();
    assert!((3 * DAY..4 * DAY).contains(&total), "{total:?}");
}

/// Deliveries that failed together are not all tried together again.
#[test]
fn deliveries_spread() {
    let pauses: Vec<Duration> =
        (0..1_000).filter_map(|n| pause(&format!("evt_{n}"), 2, None)).collect();
    let (first, last) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    assert_eq!((*first, *last), (PAUSES[1], PAUSES[1] * 6 / 5));
}

/// A receiver can ask for a longer pause, within bounds, and not for a shorter one.
#[test]
fn a_receiver_can_ask_for_more_time() {
    let asked = |seconds| pause("evt_1", 1, Some(Duration::from_secs(seconds))).unwrap();
    assert_eq!(asked(0), pause("evt_1", 1, None).unwrap());
    assert_eq!(asked(120), Duration::from_mins(2));
    assert_eq!(asked(u64::MAX), MAX_ASKED);
}
