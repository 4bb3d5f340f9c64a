//! Several upstreams of a model: what clients notice when they fail, over real sockets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use reqwest::{RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    fake_upstream::{FakeUpstream, Mode},
    serve::Gateway,
    world::{PATIENCE, World},
};

const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];
const N_CLIENTS: usize = 40;
const N_ROUNDS: usize = 20;
/// Number of runs that have to end before an upstream is mended.
const RUNS_PER_ROUND: usize = 100;

fn settings(upstreams: &[&FakeUpstream], of_model: &str, of_each: &str) -> String {
    let model = format!(
        "[models.default]\nkind = \"chat_completions\"\nmodel = \"m\"\n\
         first_content_timeout_sec = 1\n{of_model}\n"
    );
    let upstreams = upstreams.iter().zip(["left", "right"]).map(|(upstream, name)| {
        let url = upstream.url();
        format!(
            "[[models.default.upstreams]]\nname = \"{name}\"\nbase_url = \"{url}\"\n\
             api_key_env = \"POOL_KEY\"\n{of_each}\n"
        )
    });
    [model].into_iter().chain(upstreams).collect()
}

fn world(settings: &str) -> World {
    World::new()
        .with_file("turnwire.toml", settings)
        .with("TURNWIRE_STORE_URL", "memory:")
        .with("POOL_KEY", "sk-canary")
}

fn question(gateway: &Gateway) -> RequestBuilder {
    gateway.post("/v1/responses", &json!({ "model": "default", "input": "Hello." }))
}

async fn ask(gateway: &Gateway) -> Response {
    question(gateway).send().await.unwrap()
}

/// Status, `Retry-After` and own code of a failed run.
async fn failure_of(response: Response) -> (u16, Option<u64>, String) {
    let status = response.status().as_u16();
    let wait = response.headers().get(RETRY_AFTER);
    let wait = wait.map(|wait| wait.to_str().unwrap().parse().unwrap());
    let body: Value = response.json().await.unwrap();
    (status, wait, body["error"]["turnwire"]["code"].as_str().expect("a code").to_owned())
}

/// Fails unless the answer is whole.
async fn answer_of(response: Response) -> Result<(), String> {
    let status = response.status();
    let body: Value = response.json().await.map_err(|error| error.to_string())?;
    let text = &body["output"][0]["content"][0]["text"];
    if status == StatusCode::OK && text == "Good day." {
        return Ok(());
    }
    Err(format!("{status} {body}"))
}

async fn assert_answered(response: Response) {
    answer_of(response).await.unwrap();
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} does not happen"));
}

/// Clients that ask all the time, until they are told to stop or one of them gets no answer.
struct Load {
    is_over: Arc<AtomicBool>,
    n_answered: Arc<AtomicUsize>,
    clients: JoinSet<Result<(), String>>,
}

impl Load {
    fn start(gateway: &Gateway) -> Self {
        let mut load =
            Self { is_over: Arc::default(), n_answered: Arc::default(), clients: JoinSet::new() };
        for _ in 0..N_CLIENTS {
            let (question, is_over) = (question(gateway), load.is_over.clone());
            let n_answered = load.n_answered.clone();
            load.clients.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let response = question.try_clone().unwrap().send().await.unwrap();
                    let answer = answer_of(response).await;
                    is_over.fetch_or(answer.is_err(), Ordering::Relaxed);
                    answer?;
                    n_answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        load
    }

    fn n_answered(&self) -> usize {
        self.n_answered.load(Ordering::Relaxed)
    }

    /// Waits until `is_so`, or until a client got no answer.
    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        until(what, || is_so() || self.is_over.load(Ordering::Relaxed)).await;
    }

    async fn stop(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap().unwrap();
        }
    }
}

/// One of two upstreams is killed, hangs or answers 500, twenty times, while forty clients ask. No
/// run fails, although the engine does not try again.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_fails_is_not_noticed() {
    let (left, right) =
        (FakeUpstream::start(Mode::Answers).await, FakeUpstream::start(Mode::Answers).await);
    let text = settings(&[&left, &right], "", "") + "[limits]\nmodel_attempts = 1\n";
    let gateway = Gateway::start(&world(&text), &SERVE);
    let load = Load::start(&gateway);
    let faults = [Mode::Gone, Mode::Hangs, Mode::Refuses(500, None)];
    for round in 0..N_ROUNDS {
        let victim = if round % 2 == 0 { &left } else { &right };
        let fault = faults[round % faults.len()];
        victim.becomes(fault);
        let enough = load.n_answered() + RUNS_PER_ROUND;
        let what = format!("round {round}: an answer while one upstream is {fault:?}");
        load.until(&what, || load.n_answered() >= enough).await;
        victim.becomes(Mode::Answers);
        let before = victim.n_asked();
        let what = format!("round {round}: a request to the upstream that works again");
        load.until(&what, || victim.n_asked() > before + 20).await;
    }
    let n_answered = load.n_answered();
    load.stop().await;
    assert!(n_answered >= N_ROUNDS * RUNS_PER_ROUND);
}

/// The log says which upstream answered which run, and never its key.
#[tokio::test]
async fn the_log_names_the_upstream_that_answered() {
    let (left, right) = (
        FakeUpstream::start(Mode::Refuses(503, None)).await,
        FakeUpstream::start(Mode::Answers).await,
    );
    let world = world(&settings(&[&left, &right], "", ""));
    let world = world.with("TURNWIRE_LOG", "info,turnwire_models=debug");
    let mut gateway = Gateway::start(&world, &SERVE);
    assert_answered(ask(&gateway).await).await;
    gateway.signal("TERM");
    let log = gateway.finish().stderr;
    let line = |what: &str| log.lines().find(|line| line.contains(what)).expect(&log).to_owned();
    let failed = line("upstream failed");
    assert!(failed.contains("upstream=\"left\"") && failed.contains("run_id="), "{failed}");
    let answered = line("upstream answers");
    assert!(answered.contains("upstream=\"right\"") && answered.contains("run_id="), "{answered}");
    assert!(!log.contains("canary"), "{log}");
}

/// All upstreams are gone for good, or accept and never answer: a client is told within seconds,
/// with the time after which it may ask again.
#[tokio::test]
async fn an_outage_of_all_upstreams_is_told() {
    let modes = [Mode::Gone, Mode::Hangs, Mode::Refuses(500, None), Mode::Refuses(529, None)];
    join_all(modes.map(outage)).await;
}

async fn outage(mode: Mode) {
    let (left, right) = (FakeUpstream::start(mode).await, FakeUpstream::start(mode).await);
    let gateway = Gateway::start(&world(&settings(&[&left, &right], "", "")), &SERVE);
    for _ in 0..2 {
        let start = Instant::now();
        let (status, wait, code) = failure_of(ask(&gateway).await).await;
        assert_eq!((status, code.as_str()), (503, "model_unavailable"), "{mode:?}");
        let wait = wait.expect("Retry-After");
        assert!((1..=5).contains(&wait), "{mode:?}: {wait} s");
        assert!(start.elapsed() < Duration::from_secs(20), "{mode:?}: {:?}", start.elapsed());
    }
    let n_asked = left.n_asked() + right.n_asked();
    assert!(n_asked <= 12, "{mode:?}: {n_asked} requests for two runs of three attempts");
    left.becomes(Mode::Answers);
    assert_answered(ask(&gateway).await).await;
}

/// The wait that a provider asks for is passed on, within an hour.
#[tokio::test]
async fn a_rate_limit_of_all_upstreams_is_passed_on() {
    const YEAR: u64 = 365 * 24 * 3600;
    for (asked, told) in [(YEAR, 3600), (90, 90)] {
        let limited = Mode::Refuses(429, Some(asked));
        let (left, right) =
            (FakeUpstream::start(limited).await, FakeUpstream::start(limited).await);
        let world = world(&settings(&[&left, &right], "", ""));
        let gateway = Gateway::start(&world, &SERVE);
        for _ in 0..3 {
            let (status, wait, code) = failure_of(ask(&gateway).await).await;
            assert_eq!((status, code.as_str()), (429, "model_rate_limited"));
            let wait = wait.expect("Retry-After");
            assert!(wait <= told && wait + 10 > told, "{wait} of {told}");
        }
        assert_eq!((left.n_asked(), right.n_asked()), (1, 1), "they are left alone");
    }
}

/// An upstream that lacks the model (404), or whose key is refused, is passed over.
#[tokio::test]
async fn an_upstream_that_lacks_the_model_is_passed_over() {
    for status in [404, 401] {
        let bad = FakeUpstream::start(Mode::Refuses(status, None)).await;
        let good = FakeUpstream::start(Mode::Answers).await;
        let gateway = Gateway::start(&world(&settings(&[&bad, &good], "", "")), &SERVE);
        for _ in 0..10 {
            assert_answered(ask(&gateway).await).await;
        }
        assert_eq!((bad.n_asked(), good.n_asked()), (1, 10), "{status}");
    }
}

/// With all upstreams at their limit a request waits for a while, and is then refused.
#[tokio::test]
async fn more_requests_than_the_upstreams_take_are_refused() {
    let (left, right) =
        (FakeUpstream::start(Mode::Dawdles).await, FakeUpstream::start(Mode::Dawdles).await);
    let text = settings(&[&left, &right], "max_wait_ms = 200", "max_concurrency = 1");
    let gateway = Gateway::start(&world(&text), &SERVE);
    let mut two = JoinSet::new();
    for question in [question(&gateway), question(&gateway)] {
        two.spawn(async { question.send().await.unwrap() });
    }
    until("two requests", || left.n_asked() + right.n_asked() == 2).await;
    let failure = failure_of(ask(&gateway).await).await;
    assert_eq!(failure, (503, Some(2), "model_overloaded".to_owned()));
    assert_eq!((left.n_asked(), right.n_asked()), (1, 1));
    left.becomes(Mode::Answers);
    right.becomes(Mode::Answers);
    while let Some(response) = two.join_next().await {
        assert_answered(response.unwrap()).await;
    }
    assert_answered(ask(&gateway).await).await;
}

/// An answer that breaks off after its first content fails the run, as with one upstream.
#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error() {
    let (left, right) =
        (FakeUpstream::start(Mode::Dawdles).await, FakeUpstream::start(Mode::Dawdles).await);
    let gateway = Gateway::start(&world(&settings(&[&left, &right], "", "")), &SERVE);
    let body = json!({ "model": "default", "input": "Hello.", "stream": true });
    let mut response = gateway.post("/v1/responses", &body).send().await.unwrap();
    let mut stream = String::new();
    let mut is_cut = false;
    while let Some(piece) = response.chunk().await.unwrap() {
        stream += &String::from_utf8_lossy(&piece);
        if !is_cut && stream.contains("Good ") {
            is_cut = true;
            left.becomes(Mode::Gone);
            right.becomes(Mode::Gone);
        }
    }
    assert!(stream.contains("event: response.failed"), "{stream}");
    assert!(stream.contains("model_broke_off"), "{stream}");
    assert_eq!(left.n_asked() + right.n_asked(), 1);
}

/// With several models and no default one, the gateway starts, and a request names its model.
#[tokio::test]
async fn no_model_has_to_be_the_default() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let model = |name: &str| {
        let url = upstream.url();
        format!(
            "[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\nmodel = \"m\"\n"
        )
    };
    let gateway = Gateway::start(&world(&(model("big") + &model("small"))), &SERVE);
    let named = json!({ "model": "small", "input": "Hello." });
    assert_answered(gateway.post("/v1/responses", &named).send().await.unwrap()).await;
    let hello = json!([{ "role": "user", "content": "Hello." }]);
    for (path, body) in [
        ("/v1/responses", json!({ "input": "Hello." })),
        ("/chat", json!({ "message": "Hello." })),
        ("/chat/stream", json!({ "message": "Hello." })),
        ("/v1/chat/completions", json!({ "messages": hello })),
    ] {
        let response = gateway.post(path, &body).send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert_eq!(body["error"]["param"], "model", "{path}: {body}");
    }
    let models: Value = gateway.get("/v1/models").send().await.unwrap().json().await.unwrap();
    let listed: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(listed, ["big", "small"]);
}
