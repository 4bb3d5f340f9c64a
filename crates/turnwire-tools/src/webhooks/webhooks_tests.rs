//! The sender against receivers of every kind, on a real outbox.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicI64, AtomicU16, AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::any,
};
use futures::stream;
use serde_json::Value;
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::task::TaskTracker;
use turnwire_contract::{
    DeliveryQuery, DeliveryStatus, Event, Item, Journal, NewRun, RecordedEvent, RunEnd, RunOutcome,
    RunRecords, RunRequest, Seq, Usage, WebhookEvent, WebhookRoute,
};
use turnwire_stores::{Store, StoreOptions};

use super::*;
use crate::egress::EgressOptions;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const RECEIVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CANARY: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// 2026-01-01.
const START: i64 = 1_767_225_600_000_000;
const SECOND: i64 = 1_000_000;

/// A clock that moves only when it is told to.
#[derive(Clone)]
struct TestClock(Arc<AtomicI64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START)))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * SECOND, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// A message that arrived.
#[derive(Debug, Clone)]
struct Message {
    headers: HeaderMap,
    body: String,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver that keeps what it gets.
#[derive(Clone)]
struct Receiver {
    port: u16,
    messages: Arc<Mutex<Vec<Message>>>,
    arrived: Arc<Notify>,
    status: Arc<AtomicU16>,
}

impl Receiver {
    async fn start() -> Self {
        Self::at(RECEIVER, 0, StatusCode::into_response).await
    }

    async fn at(address: Ipv4Addr, port: u16, answer: fn(StatusCode) -> Response) -> Self {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let status = Arc::new(AtomicU16::new(200));
        let receiver = Self { port, messages: Arc::default(), arrived: Arc::default(), status };
        let (messages, status) = (Arc::clone(&receiver.messages), Arc::clone(&receiver.status));
        let arrived = Arc::clone(&receiver.arrived);
        let handler = move |headers: HeaderMap, body: String| {
            messages.lock().unwrap().push(Message { headers, body });
            arrived.notify_one();
            let status = StatusCode::from_u16(status.load(Ordering::SeqCst)).unwrap();
            std::future::ready(answer(status))
        };
        let router = Router::new().fallback(any(handler));
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    fn url(&self) -> String {
        format!("http://{RECEIVER}:{}/hook", self.port)
    }

    fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Waits until this many messages have arrived.
    async fn wait_for(&self, n_messages: usize) {
        while self.messages().len() < n_messages {
            self.arrived.notified().await;
        }
    }

    fn messages(&self) -> Vec<Message> {
        self.messages.lock().unwrap().clone()
    }

    fn ids(&self) -> Vec<String> {
        self.messages().iter().map(|message| message.header("webhook-id").to_owned()).collect()
    }
}

/// An outbox with receivers of the tenant `t`.
struct Outbox {
    store: Store,
    clock: TestClock,
    receivers: Vec<WebhookReceiver>,
    counts: Arc<WebhookCounts>,
    directory: tempfile::TempDir,
}

fn routes_of(urls: &[String]) -> Vec<WebhookRoute> {
    let events: std::collections::BTreeSet<WebhookEvent> = WebhookEvent::ALL.into();
    let route = |url: &String| WebhookRoute {
        tenant: "t".into(),
        url: url.clone(),
        events: events.clone(),
    };
    urls.iter().map(route).collect()
}

impl Outbox {
    async fn with(urls: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("runs.db").display());
        let options = StoreOptions { webhooks: routes_of(urls), ..StoreOptions::at(url) };
        let store = Store::open(options).await.unwrap();
        let receiver = |url: &String| WebhookReceiver {
            tenant: "t".into(),
            url: url.clone(),
            secrets: vec![SigningSecret::parse(SECRET).unwrap()],
            timeout: Duration::from_secs(5),
        };
        let receivers = urls.iter().map(receiver).collect();
        let (clock, counts) = (TestClock::new(), Arc::default());
        Self { store, clock, receivers, counts, directory }
    }

    /// A store of another process on the same database.
    async fn reopened(&self) -> Store {
        let path = self.directory.path().join("runs.db");
        Store::open(StoreOptions::at(format!("sqlite://{}", path.display()))).await.unwrap()
    }

    fn sender(&self) -> WebhookSender {
        self.sender_on(self.store.clone())
    }

    fn sender_on(&self, store: Store) -> WebhookSender {
        // Of the corpus, no port is opened.
        let here = format!("http://{RECEIVER}:");
        let ports = self.receivers.iter().filter_map(|receiver| {
            let rest = receiver.url.strip_prefix(&here)?;
            rest.split('/').next()?.parse().ok()
        });
        let options = EgressOptions {
            open_networks: vec![IpAddr::V4(RECEIVER).into()],
            ports: ports.chain([80, 443]).collect(),
            ..EgressOptions::default()
        };
        let egress = Egress::new(&options).unwrap();
        let (receivers, counts) = (self.receivers.clone(), Arc::clone(&self.counts));
        WebhookSender::new(Arc::new(store), egress, receivers, counts, self.clock.clock())
    }

    /// A run that ends now.
    async fn finished_run(&self, name: &str) {
        let mut request = RunRequest::new("any", vec![Item::user("hi")]);
        request.tenant = "t".into();
        let run_id = turnwire_contract::RunId::new(format!("run_{name}"));
        let now = self.clock.now();
        let mut run = NewRun::new(run_id.clone(), now, Arc::new(request));
        let recorded = |seq, event| {
            Arc::new(RecordedEvent { run_id: run_id.clone(), seq: Seq(seq), at: now, event })
        };
        run.first_events = vec![recorded(1, Event::RunStarted)];
        self.store.create(run).await.unwrap();
        let (outcome, usage) = (RunOutcome::Completed, Usage::default());
        let end = recorded(2, Event::RunFinished { outcome: outcome.clone(), usage });
        let run_end = RunEnd { outcome, entries: Vec::new() };
        self.store.append_end(&"t".into(), vec![end], run_end).await.unwrap();
    }

    async fn deliveries(&self) -> Vec<WebhookDelivery> {
        let query = DeliveryQuery { most: 10_000, oldest_first: true, ..DeliveryQuery::default() };
        self.store.deliveries(&"t".into(), &query).await.unwrap()
    }

    async fn n_pending(&self) -> u64 {
        self.store.n_pending().await.unwrap()
    }
}

/// The end of a run arrives once, signed, with the response's ID and nothing of its content.
#[tokio::test]
async fn the_end_of_a_run_is_sent() {
    let receiver = Receiver::start().await;
    let outbox = Outbox::with(&[receiver.url()]).await;
    outbox.finished_run("1").await;
    assert_eq!(outbox.sender().send_due().await.unwrap(), 1);
    let [message] = receiver.messages().try_into().unwrap();
    let id = message.header("webhook-id").to_owned();
    let seconds = START / SECOND;
    assert_eq!(message.header("webhook-timestamp"), seconds.to_string());
    assert_eq!(message.header("content-type"), "application/json");
    let secrets = &outbox.receivers[0].secrets;
    let expected = signatures(secrets, &id, seconds, &message.body);
    assert_eq!(message.header("webhook-signature"), expected);
    let expected = json!({
        "id": id,
        "object": "event",
        "created_at": seconds,
        "type": "response.completed",
        "data": { "id": "resp_1" },
    });
    assert_eq!(message.json(), expected);
    let [delivery] = outbox.deliveries().await.try_into().unwrap();
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    assert_eq!((delivery.n_attempts, delivery.http_status), (1, Some(200)));
    assert_eq!(outbox.sender().send_due().await.unwrap(), 0, "it is not sent twice");
    assert_eq!(outbox.counts.n_delivered(), 1);
}

/// A receiver that is away for ten minutes, while the server is killed fifty times, gets
/// everything, and drops repeats by their ID. A killed server leaves its claims behind.
#[tokio::test]
async fn nothing_is_lost_while_a_receiver_is_away_and_servers_are_killed() {
    let receiver = Receiver::start().await;
    receiver.answer_with(503);
    let outbox = Outbox::with(&[receiver.url()]).await;
    let free = [FreeReceiver {
        tenant: "t".into(),
        url: receiver.url(),
        most: 3,
        lease: Duration::from_secs(20),
    }];
    for n in 0..50 {
        outbox.finished_run(&n.to_string()).await;
        // Another server, which dies with some of what it has claimed.
        let store = outbox.reopened().await;
        store.claim_deliveries(&free, outbox.clock.now()).await.unwrap();
        outbox.sender_on(store).send_due().await.unwrap();
        outbox.clock.advance(12);
    }
    assert_eq!(outbox.n_pending().await, 50, "nothing was accepted");
    receiver.answer_with(204);
    let failed = receiver.messages().len();
    let mut n_waits = 0;
    while outbox.n_pending().await > 0 {
        outbox.clock.advance(60);
        outbox.sender().send_due().await.unwrap();
        n_waits += 1;
        assert!(n_waits < 60, "not delivered an hour after the receiver came back");
    }
    let accepted: Vec<String> = receiver.ids().split_off(failed);
    let distinct: HashSet<&String> = accepted.iter().collect();
    let expected: HashSet<String> =
        outbox.deliveries().await.into_iter().map(|delivery| delivery.delivery_id).collect();
    assert_eq!(expected.len(), 50);
    assert_eq!(distinct, expected.iter().collect::<HashSet<&String>>());
}

/// A receiver that never comes back is given up after the last attempt, and one that says it is
/// gone at once. What was given up can be sent again.
#[tokio::test]
async fn a_receiver_that_is_gone_is_given_up() {
    let receiver = Receiver::start().await;
    let outbox = Outbox::with(&[receiver.url()]).await;
    receiver.answer_with(410);
    outbox.finished_run("1").await;
    outbox.sender().send_due().await.unwrap();
    let [gone] = outbox.deliveries().await.try_into().unwrap();
    assert_eq!((gone.status, gone.n_attempts), (DeliveryStatus::Failed, 1));
    assert_eq!(gone.error.as_deref(), Some("the receiver answered with status 410"));
    receiver.answer_with(500);
    let asked = outbox.store.redeliver(&"t".into(), &gone.delivery_id, outbox.clock.now()).await;
    assert_eq!(asked.unwrap().unwrap().status, DeliveryStatus::Pending);
    let mut n_attempts = 0;
    while outbox.n_pending().await > 0 {
        n_attempts += outbox.sender().send_due().await.unwrap();
        assert_eq!(outbox.sender().send_due().await.unwrap(), 0, "it pauses");
        outbox.clock.advance(29 * 60 * 60);
    }
    assert_eq!(n_attempts, 10);
    assert_eq!((outbox.counts.n_failed_attempts(), outbox.counts.n_given_up()), (11, 2));
    let other = outbox.store.redeliver(&"u".into(), &gone.delivery_id, outbox.clock.now()).await;
    assert_eq!(other.unwrap(), None, "another tenant cannot ask for it");
}

/// `Retry-After` moves the next attempt.
#[tokio::test]
async fn a_receiver_is_left_alone_for_as_long_as_it_asks() {
    let busy = Receiver::at(RECEIVER, 0, |_| {
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3600")]).into_response()
    });
    let outbox = Outbox::with(&[busy.await.url()]).await;
    outbox.finished_run("1").await;
    outbox.sender().send_due().await.unwrap();
    let [delivery] = outbox.deliveries().await.try_into().unwrap();
    let wait = delivery.next_attempt_at.unwrap().since(outbox.clock.now());
    assert_eq!((wait, delivery.http_status), (Duration::from_hours(1), Some(429)));
}

/// A13: a receiver that never answers, or that answers without end, costs its time limit and no
/// more; its body is not read.
#[tokio::test]
async fn a_receiver_without_an_end_is_left() {
    let listener = TcpListener::bind((RECEIVER, 0)).await.unwrap();
    let silent = format!("http://{RECEIVER}:{}/", listener.local_addr().unwrap().port());
    let endless = Receiver::at(RECEIVER, 0, |_| {
        let more = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 64 * 1024]));
        Response::new(Body::from_stream(more))
    })
    .await;
    let mut outbox = Outbox::with(&[silent.clone(), endless.url()]).await;
    outbox.receivers[0].timeout = Duration::from_millis(300);
    outbox.finished_run("1").await;
    assert_eq!(outbox.sender().send_due().await.unwrap(), 2);
    let deliveries = outbox.deliveries().await;
    let of = |url: &str| deliveries.iter().find(|it| it.url == url).unwrap();
    assert_eq!(of(&endless.url()).status, DeliveryStatus::Delivered);
    assert_eq!(of(&silent).error.as_deref(), Some("the receiver did not answer in time"));
    drop(listener);
}

/// A thousand deliveries to a receiver that does not answer do not delay another one.
#[tokio::test]
async fn a_dead_receiver_delays_no_other() {
    let listener = TcpListener::bind((RECEIVER, 0)).await.unwrap();
    let dead = format!("http://{RECEIVER}:{}/", listener.local_addr().unwrap().port());
    let alive = Receiver::start().await;
    let outbox = Outbox::with(std::slice::from_ref(&dead)).await;
    let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    join_all(names.iter().map(|name| outbox.finished_run(name))).await;
    let path = outbox.directory.path().join("runs.db");
    let urls = [dead, alive.url()];
    let options = StoreOptions {
        webhooks: routes_of(&urls),
        ..StoreOptions::at(format!("sqlite://{}", path.display()))
    };
    let mut both = Outbox::with(&urls).await;
    both.store = Store::open(options).await.unwrap();
    // A dead receiver holds its attempts for as long as the test takes.
    both.receivers[0].timeout = Duration::from_mins(10);
    let stop = CancellationToken::new();
    let sending = TaskTracker::new().spawn(both.sender().run(stop.clone()));
    for n in 0..20 {
        both.finished_run(&format!("late_{n}")).await;
    }
    timeout(Duration::from_secs(30), alive.wait_for(20)).await.expect("it is delayed");
    stop.cancel();
    timeout(Duration::from_mins(1), sending).await.expect("it stops").unwrap();
    assert_eq!(both.counts.n_delivered(), 20);
    assert_eq!(both.n_pending().await, 1_020, "the dead one has accepted nothing");
    drop(listener);
}

/// Sending does not hold up the store: runs end while hundreds of deliveries are sent.
#[tokio::test]
async fn runs_end_while_webhooks_are_sent() {
    let receiver = Receiver::start().await;
    let outbox = Outbox::with(&[receiver.url()]).await;
    let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    join_all(names.iter().map(|name| outbox.finished_run(name))).await;
    let stop = CancellationToken::new();
    let sending = TaskTracker::new().spawn(outbox.sender().run(stop.clone()));
    // A connection that nobody gives back is waited for during five seconds.
    for n in 0..50 {
        let name = format!("late_{n}");
        let run_end = outbox.finished_run(&name);
        timeout(Duration::from_secs(4), run_end).await.expect("the store is held up");
    }
    timeout(Duration::from_mins(5), receiver.wait_for(350)).await.expect("it is held up");
    stop.cancel();
    timeout(Duration::from_mins(1), sending).await.expect("it stops").unwrap();
    assert_eq!((outbox.counts.n_delivered(), outbox.n_pending().await), (350, 0));
}

/// A4: an address of the corpus is never connected to, and neither is one that a receiver redirects
/// to.
#[tokio::test]
async fn no_webhook_leads_inside() {
    let here = Receiver::at(RECEIVER, 0, |_| {
        (StatusCode::FOUND, [(LOCATION, format!("http://{CANARY}/"))]).into_response()
    })
    .await;
    let hits = Arc::new(AtomicUsize::new(0));
    let canary = TcpListener::bind((CANARY, here.port)).await.unwrap();
    let seen = Arc::clone(&hits);
    TaskTracker::new().spawn(async move {
        while canary.accept().await.is_ok() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let corpus = include_str!("../egress/corpus.tsv").lines().filter(|it| !it.starts_with('#'));
    let corpus = corpus.map(|line| {
        let address = line.split('\t').next().unwrap();
        serde_json::from_str::<String>(&format!("\"{address}\"")).unwrap()
    });
    let corpus: Vec<String> = corpus.filter(|it| !it.contains('\0')).collect();
    let own = [here.url(), format!("http://{CANARY}:{}/", here.port), "http://localhost/".into()];
    let mut n_refused = 0;
    // In groups: a claim of hundreds of receivers takes long on a busy machine.
    for group in corpus.chunks(40) {
        let urls: Vec<String> = own.iter().chain(group).cloned().collect();
        let outbox = Outbox::with(&urls).await;
        outbox.finished_run("1").await;
        let sent = outbox.sender().send_due().await.unwrap();
        let deliveries = outbox.deliveries().await;
        assert_eq!(sent, deliveries.len());
        for delivery in deliveries.iter().filter(|it| it.url != here.url()) {
            assert_eq!(delivery.http_status, None, "{} was reached", delivery.url);
            assert!(delivery.error.is_some(), "{delivery:?}");
        }
        let redirected = deliveries.iter().find(|it| it.url == here.url()).unwrap();
        assert_eq!(redirected.http_status, Some(302), "a redirect is not followed");
        n_refused += deliveries.iter().filter(|it| group.contains(&it.url)).count();
    }
    assert!(n_refused > 290, "{n_refused}");
    assert_eq!(hits.load(Ordering::SeqCst), 0, "something inside was reached");
}
