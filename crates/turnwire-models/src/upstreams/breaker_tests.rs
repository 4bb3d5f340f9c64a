use super::*;

/// A breaker and a clock that a test moves.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        Self { breaker: Breaker::new(now), now }
    }

    fn fail(&mut self) -> Option<Duration> {
        self.fail_with(&down())
    }

    fn fail_with(&mut self, error: &ModelError) -> Option<Duration> {
        let admission = self.breaker.admit();
        self.breaker.failed(admission, error, self.now)
    }

    fn open(&mut self) {
        assert!((0..MAX_CONSECUTIVE_FAILURES).any(|_| self.fail().is_some()));
    }

    fn answer(&mut self) -> bool {
        let admission = self.breaker.admit();
        self.breaker.succeeded(admission, self.now)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn availability(&self) -> Availability {
        self.breaker.availability(self.now)
    }
}

fn down() -> ModelError {
    ModelError::Unavailable { message: "down".to_owned(), retry_after: None }
}

fn limited(wait: Option<Duration>) -> ModelError {
    ModelError::RateLimited { message: "slow down".to_owned(), retry_after: wait }
}

#[test]
fn five_failures_in_a_row_open_it() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        assert_eq!(bench.fail(), None);
    }
    assert!(!bench.answer(), "it is closed already");
    for _ in 0..4 {
        assert_eq!(bench.fail(), None, "an answer starts the count again");
    }
    assert_eq!(bench.fail(), Some(FIRST_PAUSE));
    assert_eq!(bench.availability(), Availability::Open(bench.now + FIRST_PAUSE));
}

#[test]
fn half_of_the_recent_requests_open_it() {
    let mut bench = Bench::new();
    let opened = (0..MIN_RECENT_OUTCOMES).find(|n| {
        bench.pass(Duration::from_millis(100));
        if n % 2 == 0 {
            bench.answer();
            return false;
        }
        bench.fail().is_some()
    });
    assert_eq!(opened, Some(MIN_RECENT_OUTCOMES - 1));
    let mut bench = Bench::new();
    for _ in 0..MIN_RECENT_OUTCOMES {
        bench.pass(Duration::from_secs(2));
        bench.answer();
        assert_eq!(bench.fail(), None, "never twenty within ten seconds");
    }
}

/// One request tries the upstream after a pause; the next pause is twice as long, up to a minute.
#[test]
fn the_pauses_grow_until_an_answer() {
    let mut bench = Bench::new();
    (0..4).for_each(|_| assert_eq!(bench.fail(), None));
    let mut pause = bench.fail().unwrap();
    let mut pauses = vec![pause.as_secs()];
    for _ in 0..7 {
        bench.pass(pause);
        assert_eq!(bench.availability(), Availability::HalfOpen);
        let trial = bench.breaker.admit();
        assert_eq!(bench.availability(), Availability::OnTrial);
        pause = bench.breaker.failed(trial, &down(), bench.now).unwrap();
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    bench.pass(pause);
    assert!(bench.answer(), "it closes");
    assert_eq!(bench.availability(), Availability::Closed);
    (0..4).for_each(|_| assert_eq!(bench.fail(), None));
    assert_eq!(bench.fail(), Some(FIRST_PAUSE));
}

/// Many requests fail together when an upstream dies: they are one opening, not many.
#[test]
fn outcomes_from_before_an_opening_do_not_count() {
    let mut bench = Bench::new();
    let before: Vec<_> = (0..50).map(|_| bench.breaker.admit()).collect();
    let opened = before.iter().filter_map(|old| bench.breaker.failed(*old, &down(), bench.now));
    assert_eq!(opened.collect::<Vec<_>>(), [FIRST_PAUSE]);
    assert!(!bench.breaker.succeeded(before[7], bench.now));
    assert_eq!(bench.availability(), Availability::Open(bench.now + FIRST_PAUSE));
}

#[test]
fn a_trial_that_is_given_up_is_left_to_the_next_request() {
    let mut bench = Bench::new();
    bench.open();
    bench.pass(FIRST_PAUSE);
    let trial = bench.breaker.admit();
    bench.breaker.abandoned(trial, bench.now);
    assert_eq!(bench.availability(), Availability::HalfOpen);
    assert!(bench.answer());
}

/// An upstream that asks for a year is tried again after a minute. Clients are told what it asked.
#[test]
fn an_asked_wait_is_kept_within_bounds() {
    let day = Duration::from_hours(24);
    for (asked, pause) in
        [(day * 365, LONGEST_PAUSE), (Duration::from_secs(7), Duration::from_secs(7))]
    {
        let mut bench = Bench::new();
        assert_eq!(bench.fail_with(&limited(Some(asked))), Some(pause));
        assert_eq!(bench.breaker.cause(bench.now), Some(limited(Some(asked))));
        bench.pass(pause);
        assert_eq!(bench.availability(), Availability::HalfOpen);
    }
    let mut bench = Bench::new();
    assert_eq!(bench.fail_with(&limited(Some(Duration::ZERO))), Some(FIRST_PAUSE));
    assert_eq!(Bench::new().fail_with(&limited(None)), None);
    let mut bench = Bench::new();
    assert_eq!(bench.fail_with(&limited(Some(Duration::MAX))), Some(LONGEST_PAUSE));
}

#[test]
fn a_mistake_in_the_settings_pauses_it_for_long() {
    let wrong = ModelError::Misconfigured { message: "no such key".to_owned() };
    let mut bench = Bench::new();
    assert_eq!(bench.fail_with(&wrong), Some(LONGEST_PAUSE));
    assert_eq!(bench.breaker.cause(bench.now), Some(wrong));
}

#[test]
fn a_pause_tells_a_short_wait() {
    let mut bench = Bench::new();
    bench.open();
    let told =
        |wait| ModelError::Unavailable { message: "down".to_owned(), retry_after: Some(wait) };
    assert_eq!(bench.breaker.cause(bench.now), Some(told(FIRST_PAUSE)));
    for _ in 0..6 {
        bench.pass(LONGEST_PAUSE);
        bench.fail();
    }
    assert_eq!(bench.breaker.cause(bench.now), Some(told(TOLD_WAIT)));
}
