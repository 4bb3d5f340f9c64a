use super::*;

/// The window grows with the number of answers, up to its bound, and shrinks again.
#[test]
fn the_window_follows_the_number_of_answers() {
    let gathering = Arc::new(Gathering::up_to(Duration::from_millis(40)));
    let few: Vec<CountedAnswer> = (0..9).map(|_| gathering.begin()).collect();
    assert_eq!(gathering.window(), Duration::ZERO);
    let more: Vec<CountedAnswer> = (0..191).map(|_| gathering.begin()).collect();
    assert_eq!(gathering.window(), Duration::from_millis(20));
    let many: Vec<CountedAnswer> = (0..10_000).map(|_| gathering.begin()).collect();
    assert_eq!(gathering.window(), Duration::from_millis(40));
    drop((few, more, many));
    assert_eq!(gathering.window(), Duration::ZERO);
}

#[test]
fn a_bound_of_zero_gathers_nothing() {
    let gathering = Arc::new(Gathering::up_to(Duration::ZERO));
    let _many: Vec<CountedAnswer> = (0..10_000).map(|_| gathering.begin()).collect();
    assert_eq!(gathering.window(), Duration::ZERO);
}
