//! News between workers: fast when all is well, and never believed.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use sqlx::Connection;
use tokio::time::{Instant, timeout};
use turnwire_contract::{EventStream, Journal};
use turnwire_stores::Store;
use turnwire_testkit::services;

use crate::journals::{at, backends, end, next, pairs, reader, rest, stored, tenant, text};

/// Somebody who can write to Redis, and perhaps knows the secret.
struct Stranger {
    redis: redis::aio::MultiplexedConnection,
    secret: String,
}

impl Stranger {
    async fn at(redis: &str, database: &str) -> Self {
        let mut database = sqlx::PgConnection::connect(database).await.unwrap();
        let secret = sqlx::query_scalar("select value from secrets where name = 'news'");
        let secret: String = secret.fetch_one(&mut database).await.unwrap();
        let client = redis::Client::open(redis).unwrap();
        Self { redis: client.get_multiplexed_async_connection().await.unwrap(), secret }
    }

    fn channel(&self, run: &str) -> String {
        let digest = format!("{:x}", Sha256::digest(format!("the name of {}", self.secret)));
        let name = &digest[..16];
        format!("turnwire:{name}:{run}")
    }

    fn signed(secret: &str, run: &str, body: &str) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(run.as_bytes());
        mac.update(&[0]);
        mac.update(body.as_bytes());
        let mut signed = mac.finalize().into_bytes().to_vec();
        signed.extend_from_slice(body.as_bytes());
        signed
    }

    /// Says it, and tells how many have heard it.
    async fn say(&mut self, run: &str, what: &[u8]) -> u64 {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.channel(run)).arg(what);
        publish.query_async(&mut self.redis).await.unwrap()
    }

    /// Waits until somebody listens for news of the run.
    async fn is_heard(&mut self, run: &str) {
        while self.say(run, b"is there anybody?").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn row(seq: u64, text: &str) -> String {
    let body = format!(
        r#"[[1700000000000000,{{"type":"text_added","item_id":"msg_1","text":"{text}"}}]]"#
    );
    serde_json::json!([[seq, seq, body]]).to_string()
}

/// Appends `n` more events, and waits until the reader has seen each of them.
async fn goes_on(writer: &Store, reader: &mut EventStream, after: u64, n: u64) -> u64 {
    for seq in after + 1..=after + n {
        let event = text("run_1", seq, "b");
        writer.append(&tenant(), vec![event.clone()]).await.unwrap();
        assert_eq!(next(reader).await, event);
    }
    after + n
}

/// C19: garbage, a forged entry, an old one and one with a gap: readers see only the truth.
#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_say_is_not_believed() {
    let (url, redis) = (services::postgres_url(), services::redis_url());
    let writer = at(&url, Some(redis.clone())).await;
    let other = at(&url, Some(redis.clone())).await;
    let mut stranger = Stranger::at(&redis, &url).await;
    let first = (1..=3).map(|seq| text("run_1", seq, "a")).collect();
    writer.append(&tenant(), first).await.unwrap();
    let mut reading = reader(&other, "run_1", 0).await;
    for seq in 1..=3 {
        assert_eq!(next(&mut reading).await.seq.0, seq);
    }
    stranger.is_heard("run_1").await;
    let secret = stranger.secret.clone();
    let lies = [
        b"\xff\xfe garbage".to_vec(),
        Vec::new(),
        row(4, "unsigned").into_bytes(),
        Stranger::signed("guessed", "run_1", &row(4, "forged")),
        Stranger::signed(&secret, "run_2", &row(4, "of another run")),
        Stranger::signed(&secret, "run_1", &row(2, "old")),
        Stranger::signed(&secret, "run_1", &row(9, "with a gap")),
        Stranger::signed(&secret, "run_1", "[[4,4,\"no row\"]]"),
    ];
    for lie in &lies {
        assert_eq!(stranger.say("run_1", lie).await, 1, "nobody heard it");
    }
    // Nothing of it is seen, and the truth is seen at once.
    let head = goes_on(&writer, &mut reading, 3, 20).await;
    assert!(reading.next().now_or_never().is_none());
    for lie in &lies {
        stranger.say("run_1", lie).await;
    }
    writer.append(&tenant(), vec![end("run_1", head + 1)]).await.unwrap();
    assert_eq!(rest(reading).await, [end("run_1", head + 1)]);
}

/// C19: one who knows the secret is believed; this is what shows that the test above would see
/// a lie that got through.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_says_is_believed() {
    let (url, redis) = (services::postgres_url(), services::redis_url());
    let writer = at(&url, Some(redis.clone())).await;
    let other = at(&url, Some(redis.clone())).await;
    let mut worker = Stranger::at(&redis, &url).await;
    writer.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    let mut reading = reader(&other, "run_1", 1).await;
    worker.is_heard("run_1").await;
    let secret = worker.secret.clone();
    worker.say("run_1", &Stranger::signed(&secret, "run_1", &row(2, "news"))).await;
    let read = next(&mut reading).await;
    assert_eq!(read.event, text("run_1", 2, "news").event);
}

/// C19: flushing Redis changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_loses_nothing() {
    let (url, redis) = (services::postgres_url(), services::Redis::start());
    let writer = at(&url, Some(redis.url())).await;
    let other = at(&url, Some(redis.url())).await;
    let mut stranger = Stranger::at(&redis.url(), &url).await;
    writer.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    let mut reading = reader(&other, "run_1", 1).await;
    let mut head = 1;
    for _ in 0..10 {
        head = goes_on(&writer, &mut reading, head, 10).await;
        redis::cmd("FLUSHALL").exec_async(&mut stranger.redis).await.unwrap();
    }
    writer.append(&tenant(), vec![end("run_1", head + 1)]).await.unwrap();
    assert_eq!(backends(&rest(reading).await), [head + 1]);
}

/// C19: without Redis news comes later, but comes; and when it is back it comes fast again.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_restarted_loses_nothing() {
    let (url, mut redis) = (services::postgres_url(), services::Redis::start());
    let writer = at(&url, Some(redis.url())).await;
    let other = at(&url, Some(redis.url())).await;
    writer.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    let mut reading = reader(&other, "run_1", 1).await;
    let mut head = goes_on(&writer, &mut reading, 1, 20).await;
    tokio::task::block_in_place(|| redis.kill());
    let began = Instant::now();
    head = goes_on(&writer, &mut reading, head, 5).await;
    // Five looks at the journal, one for each event.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    tokio::task::block_in_place(|| redis.restart());
    head = goes_on(&writer, &mut reading, head, 5).await;
    let mut stranger = Stranger::at(&redis.url(), &url).await;
    let back = timeout(Duration::from_secs(10), stranger.is_heard("run_1")).await;
    back.expect("nobody listens again");
    let began = Instant::now();
    head = goes_on(&writer, &mut reading, head, 50).await;
    assert!(began.elapsed() < Duration::from_secs(5), "it is still slow: {:?}", began.elapsed());
    writer.append(&tenant(), vec![end("run_1", head + 1)]).await.unwrap();
    assert_eq!(backends(&rest(reading).await), [head + 1]);
}

/// Nobody listens to runs that nobody reads: a channel is left when its last reader goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_left_with_its_last_reader() {
    let (url, redis) = (services::postgres_url(), services::redis_url());
    let writer = at(&url, Some(redis.clone())).await;
    let other = at(&url, Some(redis.clone())).await;
    let mut stranger = Stranger::at(&redis, &url).await;
    writer.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
    assert_eq!(stranger.say("run_1", b"?").await, 0, "nobody reads it yet");
    let one = reader(&other, "run_1", 0).await;
    let two = reader(&other, "run_1", 0).await;
    stranger.is_heard("run_1").await;
    drop(one);
    assert_eq!(stranger.say("run_1", b"?").await, 1, "somebody still reads it");
    drop(two);
    let left = async {
        while stranger.say("run_1", b"?").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), left).await.expect("the channel is not left");
}

/// A takeover reaches the readers of the worker that had the run before.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_former_worker_see_what_the_next_one_writes() {
    for (former, next_one) in pairs().await {
        former.append(&tenant(), vec![text("run_1", 1, "a")]).await.unwrap();
        let reading = reader(&former, "run_1", 0).await;
        let events = (2..=4).map(|seq| text("run_1", seq, "b")).chain([end("run_1", 5)]);
        next_one.append(&tenant(), events.collect()).await.unwrap();
        assert_eq!(backends(&rest(reading).await), [1, 2, 3, 4, 5]);
        assert_eq!(backends(&stored(&former, "run_1").await), [1, 2, 3, 4, 5]);
    }
}

/// An operator can find out whether the Redis is there at all: a store opens without it.
#[tokio::test]
async fn a_redis_that_is_not_there_is_found_out() {
    assert_eq!(turnwire_stores::reach_fanout(&services::redis_url()).await, Ok(()));
    assert!(turnwire_stores::reach_fanout("redis://127.0.0.1:9/").await.is_err());
}
