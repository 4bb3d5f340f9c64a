//! Many streams at once: `cargo bench -p turnwire-gateway --bench streams -- 2000`.
//!
//! A server in its own process and as many clients as asked for, each with a run of its own
//! that speaks for a few seconds. Every stream must be whole. Prints what the server weighs
//! with and without them.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on should fall over, and tells what it found"
)]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use turnwire_engine::{EngineParts, MemoryJournal, MemoryRunStore, Runs};
use turnwire_gateway::{AdmissionLimits, App, AppOptions, HttpLimits, Server};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;
use turnwire_testkit::{Behaviour, FakeServers, FakeTool};
use turnwire_tools::DefaultAnalyzer;

/// How many words a run says, and how long it takes for each.
const N_WORDS: usize = 40;
const PACE: Duration = Duration::from_millis(150);
/// What a stream has beside its words.
const N_OTHER_EVENTS: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Runtime::new().expect("there is room for a runtime");
    if arguments.iter().any(|argument| argument == "serve") {
        runtime.block_on(serve());
        return;
    }
    let n_readers = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(200);
    runtime.block_on(measure(n_readers));
}

async fn serve() {
    let words = (0..N_WORDS).map(|n| format!("word{n} "));
    let model = Scripted::new([Turn::new().text_in(words)]).looping().paced(PACE);
    let prop = FakeTool::new("add", Behaviour::Returns("3".to_owned()));
    let runs = Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        servers: Arc::new(FakeServers::default().with("known", [prop])),
        journal: Arc::new(MemoryJournal::keeping(0)),
        store: Arc::new(MemoryRunStore::keeping(0)),
        ..EngineParts::default()
    });
    // One address and nobody's key: what is bounded for strangers is not what is measured here.
    let many = 20_000;
    let admission = AdmissionLimits {
        runs: many,
        runs_per_tenant: many,
        runs_per_key: many,
        connections_per_key: many,
        ..AdmissionLimits::default()
    };
    let options = AppOptions { admission, ..AppOptions::default() };
    let files = Store::in_memory().await.expect("it needs no file");
    let library = files.library(Arc::new(DefaultAnalyzer::default()));
    let app = App::new(runs, Arc::new(library), options);
    let address = "127.0.0.1:0".parse().expect("it is an address");
    let limits =
        HttpLimits { connections: many, unknown_per_address: many, ..HttpLimits::default() };
    let server = Server::bind(address, app, limits).await.expect("a port is free");
    println!("{}", server.address().expect("it listens"));
    server.run().await;
}

/// The server, which ends with its owner.
struct RunningServer(Child);

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn measure(n_readers: usize) {
    let this = std::env::current_exe().expect("it has a path");
    let mut child = Command::new(this)
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again");
    let mut address = String::new();
    let out = child.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut address).expect("it tells its address");
    let (server, address) = (RunningServer(child), address.trim().to_owned());
    let http = reqwest::Client::builder().no_proxy().build().expect("it can be made");

    // One stream beforehand, so that what is made once is not counted.
    assert_eq!(read(&http, &address).await, N_WORDS + N_OTHER_EVENTS);
    let mut first_bytes = Vec::new();
    for _ in 0..200 {
        first_bytes.push(first_byte(&http, &address).await);
    }
    first_bytes.sort_unstable();
    let (median, slow) = (first_bytes[100], first_bytes[197]);
    println!("first byte with a known tool server: {median:?} (median), {slow:?} (p99)");
    let before = resident_kib(server.0.id());
    let began = Instant::now();
    let streams = stream::iter(0..n_readers).map(|_| read(&http, &address));
    let pid = server.0.id();
    let weigh = async {
        tokio::time::sleep(PACE * 30).await;
        resident_kib(pid)
    };
    let (lengths, during) =
        futures::join!(streams.buffer_unordered(n_readers.max(1)).collect::<Vec<_>>(), weigh);
    let whole = lengths.iter().filter(|length| **length == N_WORDS + N_OTHER_EVENTS).count();
    let n_events: usize = lengths.iter().sum();
    let seconds = began.elapsed().as_secs_f64();
    println!("{n_readers} streams in {seconds:.1} s, {whole} of them whole, {n_events} events");
    let each = during.saturating_sub(before) / (n_readers as u64).max(1);
    println!("server: {before} KiB before, {during} KiB with all of them: {each} KiB for each");
    assert_eq!(whole, n_readers, "a stream lost an event");
}

/// How long the first byte of a stream takes when the request names a tool server.
async fn first_byte(http: &reqwest::Client, address: &str) -> Duration {
    let tools = json!([{ "type": "mcp", "server_label": "known", "require_approval": "never" }]);
    let body = json!({ "input": "Talk.", "stream": true, "store": false, "tools": tools });
    let asked = Instant::now();
    let request = http.post(format!("http://{address}/v1/responses")).json(&body);
    let mut chunks = request.send().await.expect("it is answered").bytes_stream();
    chunks.next().await.expect("it says something").expect("it is not cut");
    asked.elapsed()
}

/// Reads one stream to its end, and checks the numbers of its events. How many there were.
async fn read(http: &reqwest::Client, address: &str) -> usize {
    let body = json!({ "input": "Talk.", "stream": true, "store": false });
    let request = http.post(format!("http://{address}/v1/responses")).json(&body);
    let mut chunks = request.send().await.expect("it is answered").bytes_stream();
    let (mut bytes, mut n_events, mut is_done) = (Vec::new(), 0, false);
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk.expect("it is not cut"));
        while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
            let frame: Vec<u8> = bytes.drain(..end + 2).collect();
            let frame = String::from_utf8_lossy(&frame);
            let Some((_, data)) = frame.split_once("data: ") else { continue };
            if data.trim() == "[DONE]" {
                is_done = true;
                continue;
            }
            let event: Value = serde_json::from_str(data).expect("it is JSON");
            assert_eq!(event["sequence_number"], n_events, "an event is missing");
            n_events += 1;
        }
    }
    assert!(is_done, "the stream has no end");
    n_events
}

/// What a process has in memory.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
