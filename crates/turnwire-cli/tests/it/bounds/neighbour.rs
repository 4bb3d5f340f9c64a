//! Who must not notice an attack, on the gateway that is attacked and on one that is not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use reqwest::StatusCode;
use serde_json::json;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use turnwire_testkit::upstreams::Upstreams;

use crate::{serve::Gateway, world::PATIENCE};

/// Time between two questions.
const PACE: Duration = Duration::from_millis(40);

/// A client of another tenant, with a model of its own, in a thread of its own: what the test does
/// besides does not delay it. It asks at fixed times, whether it is answered or not, so that who is
/// kept waiting is counted as often as it would have asked. It asks a gateway that nobody attacks,
/// too: what the machine has to do besides delays both.
pub(super) struct Neighbour {
    pub(super) model_url: String,
    begin: Option<oneshot::Sender<[Asked; 2]>>,
    asking: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Waited>>,
}

/// A gateway, by its URL, and a key for it.
type Asked = (String, String);

/// When it was due to ask, and how long it waited from then on for both.
pub(super) type Waited = (Instant, [Duration; 2]);

impl Neighbour {
    pub(super) fn start() -> Self {
        let (begin, whom) = oneshot::channel::<[Asked; 2]>();
        let (listening, url) = mpsc::channel();
        let asking = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&asking);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let model = Upstreams::start(0).await.unwrap();
                listening.send(model.model_url()).unwrap();
                let both = whom.await.unwrap();
                ask_until(&both, &goes_on).await
            })
        });
        Self { model_url: url.recv().unwrap(), begin: Some(begin), asking, thread }
    }

    pub(super) fn asks(&mut self, both: [(&Gateway, &str); 2]) {
        let begin = self.begin.take().unwrap();
        let both = both.map(|(gateway, key)| (gateway.url("/v1/responses"), key.to_owned()));
        begin.send(both).unwrap();
    }

    pub(super) fn stop(self) -> Vec<Waited> {
        self.asking.store(false, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn ask_until(both: &[Asked; 2], goes_on: &AtomicBool) -> Vec<Waited> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let mut times = interval(PACE);
    times.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut waiting = JoinSet::new();
    while goes_on.load(Ordering::Relaxed) {
        let due = times.tick().await.into_std();
        let body = json!({ "model": "neighbour", "input": "Good day" });
        let [one, other] = both.each_ref().map(|(url, key)| {
            let request = client.post(url).bearer_auth(key).json(&body);
            async move {
                let response = request.send().await.unwrap();
                let (status, text) = (response.status(), response.text().await.unwrap());
                assert_eq!(status, StatusCode::OK, "{text}");
                assert!(text.contains("You said: Good day"), "{text}");
                due.elapsed()
            }
        });
        waiting.spawn(async move { (due, <[_; 2]>::from(tokio::join!(one, other))) });
    }
    waiting.join_all().await
}
