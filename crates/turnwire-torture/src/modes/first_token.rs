//! The cost of durability until the first token: a gateway with PostgreSQL and one in memory,
//! alternating under the same load.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::{
    cluster::Cluster,
    dice::Dice,
    evidence::Verdict,
    figures::Times,
    observations::now,
    options::Options,
    report::ReportHeader,
    shapes::Shape,
    sse::{Piece, SseReader},
};

/// Number of concurrent streams.
const N_STREAMS: usize = 100;
/// Duration of a run, which determines how often a first token is measured.
const TALK_MS: u64 = 2_000;
/// Number of alternations.
const N_TURNS: u64 = 3;
/// Timeout of a stream.
const PATIENCE: Duration = Duration::from_mins(1);

/// Measures each of the two for this many seconds.
pub async fn first_token(
    options: &Options,
    seconds: u64,
) -> anyhow::Result<(ReportHeader, Verdict)> {
    let seed = options.seed.unwrap_or_else(|| now().unsigned_abs());
    let mut dice = Dice::new(seed);
    let one = Options { nodes: 1, keep: None, ..options.clone() };
    let durable = Cluster::start(&one, &[]).await?;
    let fleeting = Cluster::start(&Options { in_memory: true, ..one }, &[]).await?;
    let (mut in_memory, mut kept) = (Times::default(), Times::default());
    let each = Duration::from_secs(seconds) / u32::try_from(N_TURNS)?;
    let begun = Instant::now();
    for _ in 0..N_TURNS {
        measure(&fleeting, each, &mut dice, &mut in_memory).await?;
        measure(&durable, each, &mut dice, &mut kept).await?;
    }
    let mut header = ReportHeader {
        title: format!("the first word at {N_STREAMS} streams"),
        seed,
        took: begun.elapsed(),
        ..ReportHeader::default()
    };
    for (name, times) in [("in memory", &in_memory), ("in PostgreSQL", &kept)] {
        let of = |per_cent| ms(times.percentile(per_cent).unwrap_or_default());
        let words = format!("p50 {}, p99 {} (of {})", of(50), of(99), times.len());
        header.remarks.push((name.to_owned(), words));
    }
    for per_cent in [50, 99] {
        let added = kept.percentile(per_cent).zip(in_memory.percentile(per_cent));
        let (kept, in_memory) = added.context("nothing was measured")?;
        header.remarks.push((format!("added at p{per_cent}"), ms(kept - in_memory)));
    }
    durable.stop().await;
    fleeting.stop().await;
    Ok((header, Verdict::default()))
}

fn ms(micros: i64) -> String {
    format!("{}.{:02} ms", micros / 1_000, micros.abs() % 1_000 / 10)
}

/// Keeps the streams open for `time`, with staggered starts.
async fn measure(
    cluster: &Cluster,
    time: Duration,
    dice: &mut Dice,
    times: &mut Times,
) -> anyhow::Result<()> {
    let tasks = TaskTracker::new();
    let until = Instant::now() + time;
    let waited: Vec<_> = (0..N_STREAMS)
        .map(|_| {
            let mut dice = dice.fork();
            let url = cluster.nodes.first().map(|node| node.url("/v1/responses"));
            let http = cluster.http.clone();
            tasks.spawn(async move {
                let url = url.context("there is no node")?;
                sleep(dice.millis(0, TALK_MS)).await;
                let mut waited = Vec::new();
                while Instant::now() < until {
                    let shape = Shape::lasting(&mut dice, TALK_MS);
                    let body = json!({ "model": "default", "input": shape.script, "stream": true });
                    let request = http.post(&url).json(&body);
                    let first = timeout(PATIENCE, first_word(request));
                    waited.push(first.await.context("the stream does not end")??);
                }
                anyhow::Ok(waited)
            })
        })
        .collect();
    tasks.close();
    for waited in waited {
        for time in waited.await?? {
            times.add(i64::try_from(time.as_micros())?);
        }
    }
    Ok(())
}

/// Returns the time to the first token. Reads the stream to its end.
async fn first_word(request: reqwest::RequestBuilder) -> anyhow::Result<Duration> {
    let sent_at = Instant::now();
    let mut answer = request.send().await?.error_for_status()?;
    let (mut reader, mut first) = (SseReader::default(), None);
    while let Some(bytes) = answer.chunk().await? {
        let is_word = |piece: &Piece| match piece {
            Piece::Frame { data, .. } => data.contains("response.output_text.delta"),
            Piece::Comment => false,
        };
        if reader.read(&bytes).iter().any(is_word) {
            first.get_or_insert_with(|| sent_at.elapsed());
        }
    }
    first.context("nothing was said")
}
