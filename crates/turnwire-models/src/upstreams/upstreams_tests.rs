//! Weights, fail-over, budget and concurrency, with models that fail as told and with paused time.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, future, stream};
use turnwire_contract::{Finish, ModelPart, Usage};

use super::*;
use crate::sample_prompt::sample_prompt;

/// What a fake upstream does with a request.
#[derive(Debug, Clone)]
enum Behaviour {
    Answers,
    Fails(ModelError),
    /// Sends its usage, as Anthropic does first, and then fails.
    FailsAfterUsage,
    FailsAfterContent,
    NeverAnswers,
    /// Accepts, and sends nothing.
    NeverSpeaks,
    /// Answers until the stream is dropped.
    NeverEnds,
}

struct Fake {
    behaviour: Mutex<Behaviour>,
    n_asked: AtomicUsize,
}

impl Fake {
    fn new(behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self { behaviour: Mutex::new(behaviour), n_asked: AtomicUsize::new(0) })
    }

    fn becomes(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    fn n_asked(&self) -> usize {
        self.n_asked.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Model for Fake {
    async fn stream(&self, _: Prompt) -> Result<ModelStream, ModelError> {
        self.n_asked.fetch_add(1, Ordering::Relaxed);
        let text = || Ok(ModelPart::Text("hello".to_owned()));
        let end = Ok(ModelPart::Finished(Finish::Answered));
        let usage = Ok(ModelPart::Usage(Usage::default()));
        let behaviour = self.behaviour.lock().unwrap().clone();
        let (parts, is_open) = match behaviour {
            Behaviour::Fails(error) => return Err(error),
            Behaviour::NeverAnswers => return future::pending().await,
            Behaviour::Answers => (vec![usage, text(), end], false),
            Behaviour::FailsAfterUsage => (vec![usage, Err(cut())], false),
            Behaviour::FailsAfterContent => (vec![text(), Err(cut())], false),
            Behaviour::NeverSpeaks => (vec![usage], true),
            Behaviour::NeverEnds => (vec![text()], true),
        };
        let parts = stream::iter(parts);
        Ok(if is_open { parts.chain(stream::pending()).boxed() } else { parts.boxed() })
    }
}

fn cut() -> ModelError {
    ModelError::Broken { message: "cut".to_owned() }
}

fn down() -> ModelError {
    ModelError::Unavailable { message: "down".to_owned(), retry_after: None }
}

fn upstreams(fakes: &[&Arc<Fake>]) -> Upstreams {
    weighted(&fakes.iter().map(|fake| (*fake, 1, None)).collect::<Vec<_>>())
}

fn weighted(fakes: &[(&Arc<Fake>, u32, Option<usize>)]) -> Upstreams {
    let upstream = |(n, (fake, weight, max_concurrency)): (usize, &(&Arc<Fake>, u32, _))| {
        let model: Arc<dyn Model> = Arc::clone(fake) as _;
        Upstream {
            weight: *weight,
            max_concurrency: *max_concurrency,
            ..Upstream::new(format!("u{n}"), model)
        }
    };
    let options = UpstreamsOptions {
        first_content_timeout: Some(Duration::from_secs(30)),
        ..UpstreamsOptions::default()
    };
    Upstreams::new(fakes.iter().enumerate().map(upstream).collect(), options)
}

async fn ask(model: &Upstreams) -> Result<Vec<ModelPart>, ModelError> {
    let parts = model.stream(sample_prompt("")).await?;
    parts.collect::<Vec<_>>().await.into_iter().collect()
}

async fn ask_times(model: &Upstreams, n_times: usize) {
    for _ in 0..n_times {
        assert!(ask(model).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn weights_share_the_requests_evenly_in_time() {
    let (a, b, spare) = (
        Fake::new(Behaviour::Answers),
        Fake::new(Behaviour::Answers),
        Fake::new(Behaviour::Answers),
    );
    let model = weighted(&[(&a, 3, None), (&b, 1, None), (&spare, 0, None)]);
    for _ in 0..5 {
        ask_times(&model, 4).await;
        assert_eq!((a.n_asked(), b.n_asked(), spare.n_asked()), (3, 1, 0));
    }
    a.becomes(Behaviour::Fails(down()));
    b.becomes(Behaviour::Fails(down()));
    ask_times(&model, 4).await;
    assert_eq!(spare.n_asked(), 4, "without a weight it is a spare");
}

/// The answer is whole, also what came before its first content.
#[tokio::test(start_paused = true)]
async fn a_request_goes_on_to_another_upstream_before_the_first_content() {
    let whole = ask(&upstreams(&[&Fake::new(Behaviour::Answers)])).await.unwrap();
    assert_eq!(whole.len(), 3);
    let waits = ModelError::RateLimited { message: "no".to_owned(), retry_after: None };
    let unknown = ModelError::UnknownModel { message: "404".to_owned() };
    let wrong = ModelError::Misconfigured { message: "401".to_owned() };
    let failures = [down(), waits, unknown, wrong].map(Behaviour::Fails);
    let silent = [Behaviour::FailsAfterUsage, Behaviour::NeverAnswers, Behaviour::NeverSpeaks];
    for behaviour in failures.into_iter().chain(silent) {
        let (bad, good) = (Fake::new(behaviour.clone()), Fake::new(Behaviour::Answers));
        let model = upstreams(&[&bad, &good]);
        assert_eq!(ask(&model).await.as_ref(), Ok(&whole), "{behaviour:?}");
        assert_eq!((bad.n_asked(), good.n_asked()), (1, 1), "{behaviour:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_after_the_first_content_is_passed_on() {
    let (a, b) = (Fake::new(Behaviour::FailsAfterContent), Fake::new(Behaviour::Answers));
    assert_eq!(ask(&upstreams(&[&a, &b])).await, Err(cut()));
    assert_eq!(b.n_asked(), 0);
}

/// What is wrong with the request is wrong everywhere.
#[tokio::test(start_paused = true)]
async fn a_rejected_request_is_not_sent_again() {
    for error in [
        ModelError::Rejected { message: "400".to_owned() },
        ModelError::ContextTooLong { message: "413".to_owned() },
        ModelError::ContentFiltered { message: "no".to_owned() },
    ] {
        let (a, b) = (Fake::new(Behaviour::Fails(error.clone())), Fake::new(Behaviour::Answers));
        let model = upstreams(&[&a, &b]);
        for _ in 0..20 {
            let answer = ask(&model).await;
            assert!(answer.is_ok() || answer == Err(error.clone()), "{answer:?}");
        }
        assert_eq!((a.n_asked(), b.n_asked()), (10, 10), "it is not passed over either");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_fails_is_passed_over_and_tried_again() {
    let (bad, good) = (Fake::new(Behaviour::Fails(down())), Fake::new(Behaviour::Answers));
    let model = upstreams(&[&bad, &good]);
    ask_times(&model, 100).await;
    assert_eq!(bad.n_asked(), 5, "then the breaker is open");
    tokio::time::advance(breaker::FIRST_PAUSE).await;
    ask_times(&model, 100).await;
    assert_eq!(bad.n_asked(), 1, "one request tries it");
    bad.becomes(Behaviour::Answers);
    tokio::time::advance(2 * breaker::FIRST_PAUSE).await;
    good.n_asked();
    ask_times(&model, 100).await;
    assert!((49..=51).contains(&bad.n_asked()), "it has its share again");
}

/// While one request tries an upstream, the others do not wait for it.
#[tokio::test(start_paused = true)]
async fn only_one_request_waits_for_an_upstream_on_trial() {
    let (bad, good) = (Fake::new(Behaviour::Fails(down())), Fake::new(Behaviour::Answers));
    let model = upstreams(&[&bad, &good]);
    ask_times(&model, 20).await;
    bad.n_asked();
    bad.becomes(Behaviour::NeverAnswers);
    tokio::time::advance(breaker::FIRST_PAUSE).await;
    let start = Instant::now();
    let asking = (0..20).map(|_| async { (ask(&model).await.is_ok(), start.elapsed()) });
    let times = future::join_all(asking).await;
    assert!(times.iter().all(|(is_ok, _)| *is_ok));
    assert_eq!(times.iter().filter(|(_, time)| *time >= Duration::from_secs(30)).count(), 1);
    assert_eq!(bad.n_asked(), 1);
}

/// A cancelled request says nothing about its upstream, and gives its place back.
#[tokio::test(start_paused = true)]
async fn a_cancelled_trial_is_made_by_the_next_request() {
    let (bad, good) = (Fake::new(Behaviour::Fails(down())), Fake::new(Behaviour::Answers));
    let model = weighted(&[(&bad, 1, Some(1)), (&good, 1, None)]);
    ask_times(&model, 20).await;
    bad.becomes(Behaviour::NeverAnswers);
    tokio::time::advance(breaker::FIRST_PAUSE).await;
    bad.n_asked();
    while bad.n_asked() == 0 {
        let _ = timeout(Duration::from_secs(1), ask(&model)).await;
    }
    bad.becomes(Behaviour::Answers);
    ask_times(&model, 10).await;
    assert!(bad.n_asked() >= 4);
}

#[tokio::test(start_paused = true)]
async fn an_only_upstream_is_never_passed_over() {
    let only = Fake::new(Behaviour::Fails(down()));
    let model = upstreams(&[&only]);
    for _ in 0..50 {
        assert_eq!(ask(&model).await, Err(down()));
    }
    assert_eq!(only.n_asked(), 50);
}

/// If all upstreams are gone for good, requests end at once, and few reach an upstream.
#[tokio::test(start_paused = true)]
async fn an_outage_of_all_is_not_multiplied() {
    let (a, b) = (Fake::new(Behaviour::Fails(down())), Fake::new(Behaviour::Fails(down())));
    let model = upstreams(&[&a, &b]);
    let start = Instant::now();
    for _ in 0..1_000 {
        let error = ask(&model).await.unwrap_err();
        assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let n_asked = a.n_asked() + b.n_asked();
    assert!(n_asked < 30, "{n_asked} requests in {:?}", start.elapsed());
}

/// Breakers cannot help when failures are spread among answers. The budget does.
#[tokio::test(start_paused = true)]
async fn retries_have_a_budget() {
    let bad = Fake::new(Behaviour::Fails(ModelError::UnknownModel { message: "404".to_owned() }));
    let model = upstreams(&[&bad, &bad]);
    for _ in 0..500 {
        ask(&model).await.unwrap_err();
    }
    let retries = bad.n_asked() - 500;
    assert_eq!(retries, 100 + 30, "a fifth of the requests, and three per second");
    tokio::time::advance(Duration::from_secs(20)).await;
    ask(&model).await.unwrap_err();
    assert_eq!(bad.n_asked(), 2, "the window has moved on");
}

#[tokio::test(start_paused = true)]
async fn a_full_upstream_leaves_requests_to_another() {
    let (small, big) = (Fake::new(Behaviour::NeverEnds), Fake::new(Behaviour::NeverEnds));
    let model = weighted(&[(&small, 9, Some(2)), (&big, 1, Some(3))]);
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(model.stream(sample_prompt("")).await.unwrap());
    }
    assert_eq!((small.n_asked(), big.n_asked()), (2, 3));
    let start = Instant::now();
    let error = model.stream(sample_prompt("")).await.err();
    assert_eq!(error, Some(busy()));
    assert_eq!(start.elapsed(), DEFAULT_MAX_WAIT);
    assert_eq!((small.n_asked(), big.n_asked()), (0, 0));
    let waiting = model.stream(sample_prompt(""));
    let ending = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        open.pop();
    };
    let (answer, ()) = tokio::join!(waiting, ending);
    assert!(answer.is_ok(), "a place became free in time");
}

#[tokio::test(start_paused = true)]
async fn a_finished_answer_gives_its_place_back() {
    let only = Fake::new(Behaviour::Answers);
    let model = weighted(&[(&only, 1, Some(1))]);
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut parts = model.stream(sample_prompt("")).await.unwrap();
        let end = Ok(ModelPart::Finished(Finish::Answered));
        while parts.next().await.unwrap() != end {}
        held.push(parts);
    }
}

/// A rate limit of a year on one upstream leaves the other one. On both it is passed on at once.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_of_a_year_is_told_when_nobody_else_answers() {
    let year = Some(Duration::from_hours(24 * 365));
    let limited = ModelError::RateLimited { message: "429".to_owned(), retry_after: year };
    let (a, b) = (Fake::new(Behaviour::Fails(limited.clone())), Fake::new(Behaviour::Answers));
    let model = upstreams(&[&a, &b]);
    ask_times(&model, 50).await;
    assert_eq!(a.n_asked(), 1);
    b.becomes(Behaviour::Fails(limited.clone()));
    let start = Instant::now();
    assert_eq!(ask(&model).await, Err(limited));
    assert_eq!(start.elapsed(), Duration::ZERO);
    a.becomes(Behaviour::Answers);
    tokio::time::advance(breaker::LONGEST_PAUSE).await;
    ask_times(&model, 1).await;
}

/// The error that passes soonest is told, and what only the operator can fix last.
#[test]
fn the_most_useful_error_is_told() {
    let wrong = ModelError::Misconfigured { message: "401".to_owned() };
    let unknown = ModelError::UnknownModel { message: "404".to_owned() };
    let wait = |seconds| ModelError::RateLimited {
        message: "429".to_owned(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let told = |errors: &[&ModelError]| most_useful(errors.iter().copied().cloned().collect());
    assert_eq!(told(&[&wrong, &unknown]), unknown);
    assert_eq!(told(&[&unknown, &wait(9), &wait(3), &wrong]), wait(3));
    assert_eq!(told(&[&wait(3), &down()]), down());
    assert!(matches!(told(&[]), ModelError::Misconfigured { .. }));
}

/// After a reload, an upstream that stays is still passed over if it was, and has the requests that
/// it is at work on. A new one begins healthy.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_stays_is_as_healthy_and_as_busy_as_before() {
    let (bad, good) = (Fake::new(Behaviour::Fails(down())), Fake::new(Behaviour::NeverEnds));
    let before = weighted(&[(&bad, 9, None), (&good, 1, Some(1))]);
    let open = loop {
        // Five failures in a row open the breaker.
        let answer = before.stream(sample_prompt("")).await.unwrap();
        if bad.n_asked() == 0 {
            break answer;
        }
    };
    let new = Fake::new(Behaviour::Answers);
    let after = weighted(&[(&bad, 9, None), (&good, 1, Some(1)), (&new, 1, None)]);
    let after = after.succeeding(&before);
    good.n_asked();
    ask_times(&after, 5).await;
    assert_eq!((bad.n_asked(), good.n_asked(), new.n_asked()), (0, 0, 5));
    drop(open);
    good.becomes(Behaviour::Answers);
    ask_times(&after, 4).await;
    assert_eq!((bad.n_asked(), good.n_asked() > 0), (0, true), "its place is free");
    let fresh = weighted(&[(&bad, 9, None), (&good, 1, None)]);
    ask_times(&fresh, 1).await;
    assert_eq!(bad.n_asked(), 1, "without what was known it is asked");
}
