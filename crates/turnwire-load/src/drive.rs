//! Clients that request streams and count the words in them.

use std::{cell::RefCell, rc::Rc, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use memchr::memmem::Finder;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::spawn_local,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    http::Dechunked,
    words::{DIGITS, now_micros, time_of},
};

#[derive(Debug, Args)]
pub(crate) struct DriveOptions {
    /// `HOST:PORT` of the gateway.
    #[arg(long)]
    to: String,
    #[arg(long, default_value = "/v1/responses")]
    path: String,
    /// The model to name; it decides how the model server answers.
    #[arg(long)]
    model: String,
    /// Concurrent streams; each is followed by the next until the time is over.
    #[arg(long)]
    streams: usize,
    /// How long new streams are requested.
    #[arg(long)]
    seconds: f64,
    /// Time over which the first streams are spread.
    #[arg(long, default_value_t = 0.0)]
    spread: f64,
    /// Words that every stream must have.
    #[arg(long)]
    words: usize,
    /// Whether the gateway stores the responses.
    #[arg(long)]
    store: bool,
    /// Tools to offer, as the JSON of `tools`.
    #[arg(long, value_parser = |text: &str| serde_json::from_str::<Value>(text))]
    tools: Option<Value>,
    /// An API key, if the gateway needs one.
    #[arg(long)]
    key: Option<String>,
}

/// A stream without a word for longer has failed.
const SILENCE: Duration = Duration::from_mins(1);

/// What came of all streams.
#[derive(Debug, Default)]
struct Counts {
    n_streams: usize,
    n_words: usize,
    n_failed: usize,
    first_failure: Option<String>,
    /// Microseconds from the request to the first word.
    first: Vec<u64>,
    /// Microseconds from the model to the client, of every word.
    delays: Vec<u64>,
}

/// Drives the gateway and prints what came.
#[expect(clippy::print_stdout, reason = "the line of JSON is the result")]
pub(crate) async fn drive(options: DriveOptions) -> anyhow::Result<()> {
    let options = Rc::new(options);
    let counts = Rc::new(RefCell::new(Counts::default()));
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(options.seconds);
    let mut clients = Vec::new();
    for n in 0..options.streams {
        let (options, counts) = (Rc::clone(&options), Rc::clone(&counts));
        #[expect(clippy::cast_precision_loss, reason = "there are not so many streams")]
        let wait = Duration::from_secs_f64(options.spread * n as f64 / options.streams as f64);
        clients.push(spawn_local(async move {
            sleep(wait).await;
            request_until(end, &options, &counts).await;
        }));
    }
    for client in clients {
        client.await?;
    }
    let mut counts = counts.take();
    counts.first.sort_unstable();
    counts.delays.sort_unstable();
    let line = json!({
        "seconds": began.elapsed().as_secs_f64(),
        "streams": counts.n_streams,
        "words": counts.n_words,
        "failed": counts.n_failed,
        "first_failure": counts.first_failure,
        "first_p50_us": percentile(&counts.first, 50),
        "first_p99_us": percentile(&counts.first, 99),
        "delay_p50_us": percentile(&counts.delays, 50),
        "delay_p99_us": percentile(&counts.delays, 99),
    });
    println!("{line}");
    Ok(())
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0)
}

async fn request_until(end: Instant, options: &DriveOptions, counts: &RefCell<Counts>) {
    let mut connection = None;
    while Instant::now() < end {
        if let Err(error) = request(&mut connection, options, counts).await {
            connection = None;
            let mut counts = counts.borrow_mut();
            counts.n_failed += 1;
            counts.first_failure.get_or_insert_with(|| format!("{error:#}"));
        }
    }
}

async fn request(
    connection: &mut Option<TcpStream>,
    options: &DriveOptions,
    counts: &RefCell<Counts>,
) -> anyhow::Result<()> {
    let mut stream = match connection.take() {
        Some(stream) => stream,
        None => connect(&options.to).await?,
    };
    let asked = now_micros();
    timeout(SILENCE, stream.write_all(request_bytes(options).as_bytes())).await??;
    let mut answer = StreamedAnswer::default();
    let mut last_word = Instant::now();
    while !answer.is_over() {
        if !timeout_at(last_word + SILENCE, answer.read(&mut stream)).await.context("silent")?? {
            bail!("the stream is cut: {}", answer.beginning());
        }
        let n_words = answer.n_words;
        answer.scan(asked, counts);
        if answer.n_words > n_words {
            last_word = Instant::now();
        }
    }
    if answer.n_words != options.words {
        bail!("{} words of {}: {}", answer.n_words, options.words, answer.beginning());
    }
    let mut counts = counts.borrow_mut();
    counts.n_streams += 1;
    counts.n_words += answer.n_words;
    *connection = Some(stream);
    Ok(())
}

async fn connect(to: &str) -> anyhow::Result<TcpStream> {
    let stream = timeout(SILENCE, TcpStream::connect(to)).await?.context("cannot connect")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn request_bytes(options: &DriveOptions) -> String {
    let question = "Say something.";
    let mut body = if options.path.ends_with("completions") {
        let messages = json!([{ "role": "user", "content": question }]);
        json!({ "model": options.model, "messages": messages, "stream": true })
    } else {
        json!({ "model": options.model, "input": question, "stream": true, "store": options.store })
    };
    if let (Some(tools), Some(body)) = (&options.tools, body.as_object_mut()) {
        body.insert("tools".to_owned(), tools.clone());
    }
    let body = body.to_string();
    let key = options.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n"));
    format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{}content-length: {}\
         \r\n\r\n{body}",
        options.path,
        options.to,
        key.unwrap_or_default(),
        body.len()
    )
}

/// The bytes of an answer that are not searched yet, and what was found.
#[derive(Debug, Default)]
struct StreamedAnswer {
    chunks: Dechunked,
    bytes: Vec<u8>,
    n_words: usize,
}

/// What stands before a word in either dialect.
const BEFORE_WORD: [&[u8]; 2] = [b"\"delta\":\"", b"\"content\":\""];

thread_local! {
    static WORDS: [Finder<'static>; 2] = BEFORE_WORD.map(Finder::new);
}

impl StreamedAnswer {
    fn is_over(&self) -> bool {
        self.chunks.is_over
    }

    async fn read(&mut self, stream: &mut TcpStream) -> anyhow::Result<bool> {
        self.chunks.read(stream, &mut self.bytes).await
    }

    fn beginning(&self) -> String {
        let bytes = self.bytes.get(..self.bytes.len().min(300)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Counts the words that are complete, and drops what was searched.
    fn scan(&mut self, asked: u64, counts: &RefCell<Counts>) {
        let now = now_micros();
        let mut counts = counts.borrow_mut();
        let mut searched = 0;
        WORDS.with(|finders| {
            for finder in finders {
                for at in finder.find_iter(&self.bytes) {
                    let word = self.bytes.get(at + finder.needle().len()..).unwrap_or_default();
                    // The start of an answer, or its whole text at the end, is no word.
                    let Some(sent) = time_of(word).filter(|_| word.get(DIGITS + 1) == Some(&b'"'))
                    else {
                        continue;
                    };
                    if self.n_words == 0 {
                        counts.first.push(now.saturating_sub(asked));
                    }
                    counts.delays.push(now.saturating_sub(sent));
                    self.n_words += 1;
                    searched = searched.max(at + finder.needle().len());
                }
            }
        });
        // A word may be cut at the end of the bytes.
        let longest = BEFORE_WORD.iter().map(|before| before.len()).max().unwrap_or(0) + DIGITS + 2;
        let rest = self.bytes.len().saturating_sub(longest).max(searched);
        self.bytes.drain(..rest.min(self.bytes.len()));
    }
}
