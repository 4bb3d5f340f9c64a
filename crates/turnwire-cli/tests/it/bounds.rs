//! docs/bounds.md, source by source: each is fed about ten times what it may cost, while somebody
//! else's client keeps asking. The bytes are made while they are sent.

mod flood;
mod harm;
mod memory;
mod neighbour;
mod stage;

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::LocalBoxFuture};
use serde_json::json;
use tokio::time::timeout;

use self::{
    memory::Memory,
    neighbour::Neighbour,
    stage::{SERVE, Stage, model},
};
use crate::{
    serve::Gateway,
    world::{PATIENCE, World},
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How much more memory the gateway may take: this many times the largest answer that it holds
/// whole.
const MULTIPLE: usize = 12;
const LARGEST: usize = 16 * MIB;

/// How much its readers may take, one of which works at a time.
const READERS: usize = 256 * MIB;

/// How long the other client may wait whatever it waits for the gateway that is not attacked: the
/// program is not optimized.
const FLOOR: Duration = Duration::from_millis(400);

struct Attack {
    /// As in docs/bounds.md.
    source: &'static str,
    feed: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, String>,
    /// What must be in the words about how it ended.
    ends: &'static [&'static str],
}

const fn attack(
    source: &'static str,
    feed: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, String>,
    ends: &'static [&'static str],
) -> Attack {
    Attack { source, feed, ends }
}

const ATTACKS: &[Attack] = &[
    attack(
        "request bodies",
        |it| it.bodies().boxed_local(),
        &[
            "413 body_too_large",
            "400 json_too_deep",
            "400 json_too_many_keys",
            "400 json_too_many_values",
        ],
    ),
    attack("headers", |it| it.headers().boxed_local(), &["HTTP/1.1 431", "HTTP/1.1 431"]),
    attack("WebSocket messages", |it| it.messages().boxed_local(), &["closed with 1009, 1008"]),
    attack(
        "schemas of clients, tools, forms",
        |it| it.schema().boxed_local(),
        &["400 schema_too_large"],
    ),
    attack(
        "arguments of calls against a schema",
        |it| it.arguments().boxed_local(),
        &["\"completed\"", "invalid_arguments", "invalid_arguments"],
    ),
    attack(
        "calls in one answer of a model",
        |it| it.ask("many_calls", &[]).boxed_local(),
        &["max_tool_calls"],
    ),
    attack("MCP: results", |it| it.call("busy", "huge").boxed_local(), &["has more than 16 MiB"]),
    attack(
        "MCP: handshake, a page of tools",
        |it| it.offered("greeter").boxed_local(),
        &["\"completed\"", "its answer to the handshake has more than 4 MiB"],
    ),
    attack(
        "MCP: tools as the model sees them",
        |it| it.list().boxed_local(),
        &["1 MiB, completed"],
    ),
    attack("MCP: \"the tools have changed\"", |it| it.changes().boxed_local(), &["few lists"]),
    attack(
        "MCP: errors over HTTP",
        |it| it.call("busy", "error").boxed_local(),
        &["\"completed\"", "with the HTTP status 500"],
    ),
    attack(
        "MCP: messages of a program",
        |it| it.call("program", "huge").boxed_local(),
        &["\"completed\"", "timed out"],
    ),
    attack("MCP: forms", |it| it.form().boxed_local(), &["\"completed\"", "fine", "decline"]),
    attack(
        "MCP: progress, logs",
        |it| it.call("busy", "notes").boxed_local(),
        &["\"completed\"", "fine"],
    ),
    attack(
        "MCP: images, links",
        |it| it.call("busy", "images").boxed_local(),
        &["\"completed\"", "left out"],
    ),
    attack(
        "answers of models",
        |it| it.answers().boxed_local(),
        &["model_broke_off", "max_output_bytes"],
    ),
    attack(
        "lists of models (`doctor`)",
        |it| it.doctor().boxed_local(),
        &["is not a list of models"],
    ),
    attack("HTTP functions", |it| it.function().boxed_local(), &["the answer is longer than"]),
    attack(
        "results of a web search",
        |it| it.web(json!({ "query": "x" })).boxed_local(),
        &["the response of the search engine is too large"],
    ),
    attack("web pages", |it| it.web(it.page()).boxed_local(), &["the answer is too long"]),
    attack("`find_in_page`", |it| it.web(it.find()).boxed_local(), &["more than 1000 characters"]),
    attack(
        "files: text, HTML, Markdown, CSV, PDF",
        |it| it.files().boxed_local(),
        &["413 file_too_large", "invalid_file"],
    ),
    attack("embeddings", |it| it.embeddings().boxed_local(), &["words_only\":true"]),
    attack(
        "full results of calls",
        |it| it.results().boxed_local(),
        &["4 read, 76 are told too_many_results"],
    ),
    attack(
        "share links",
        |it| it.readers().boxed_local(),
        &["64 read, 576 are told too_many_readers"],
    ),
    attack(
        "keys of an identity provider",
        |it| it.token().boxed_local(),
        &["503 identity_provider_unavailable"],
    ),
    attack(
        "OAuth metadata and tokens of tool servers",
        |it| it.guarded().boxed_local(),
        &["\"completed\"", "not available"],
    ),
    attack("receivers of webhooks", |it| it.hook().boxed_local(), &["not read"]),
    attack("journal rows", |it| it.rows().boxed_local(), &["journal_unreadable"]),
    attack("`turnwire check`", |it| it.check().boxed_local(), &["an event has more than 16 MiB"]),
];

/// A13, A19: no source costs others anything: memory stays within a multiple, whoever asks at the
/// same time is answered as soon as before, and the attack ends as docs/bounds.md says.
#[tokio::test]
async fn no_source_costs_others_anything() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bounds.md")).unwrap();
    let sources = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let sources: Vec<&str> = sources.filter(|source| *source != "source").collect();
    assert_eq!(sources, ATTACKS.iter().map(|it| it.source).collect::<Vec<_>>());

    let mut neighbour = Neighbour::start();
    let mut stage = Stage::new(&neighbour.model_url).await;
    let quiet = World::new().with("TURNWIRE_STORE_URL", "sqlite://quiet.db");
    let quiet = quiet.with_file("turnwire.toml", &model("neighbour", &neighbour.model_url));
    let quiet = Gateway::start(&quiet, &SERVE);
    neighbour.asks([(&stage.gateway, &stage.neighbour_key), (&quiet, "")]);
    let memory = Memory::watch(stage.gateway.running().child.id());
    let mut told = Vec::new();
    for Attack { source, feed, ends } in ATTACKS {
        let (before, began) = (memory.restart(), Instant::now());
        let outcome = timeout(PATIENCE, feed(&stage)).await.expect(source);
        let (peak, end) = (memory.peak(), Instant::now());
        let mut rest = outcome.as_str();
        let is_so = ends.iter().all(|words| {
            let found = rest.split_once(words);
            rest = found.map_or("", |(_, rest)| rest);
            found.is_some()
        });
        told.push((*source, began, end, before, peak, (!is_so).then_some(outcome)));
    }
    let waits = neighbour.stop();
    let attacked = p99(waits.iter().map(|(_, [attacked, _])| *attacked));
    let quiet = p99(waits.iter().map(|(_, [_, quiet])| *quiet));
    let base = told[0].3.own;
    let mut report = format!("attacked {attacked:?}, quiet {quiet:?}, {} MiB\n", base / MIB);
    let mut wrong = Vec::new();
    for (source, began, end, before, peak, outcome) in told {
        let during = waits.iter().filter(|(due, _)| (began..end).contains(due));
        let worst = during.map(|(_, [attacked, _])| *attacked).max().unwrap_or_default();
        let (took, own, readers) = (end - began, peak.own / MIB, peak.children / MIB);
        let before = before.own / MIB;
        writeln!(report, "{took:?} {source}: {before} to {own} + {readers} MiB, {worst:?}")
            .unwrap();
        if peak.own > base + MULTIPLE * LARGEST || peak.children > READERS {
            wrong.push(format!("{source} costs too much memory"));
        }
        if let Some(outcome) = outcome {
            let outcome: String = outcome.chars().take(1_500).collect();
            wrong.push(format!("{source} ends otherwise: {outcome}"));
        }
    }
    if attacked > (2 * quiet).max(FLOOR) {
        wrong.push("others wait".to_owned());
    }
    io::stdout().write_all(report.as_bytes()).unwrap();
    stage.gateway.signal("TERM");
    let done = stage.gateway.finish();
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    assert!(wrong.is_empty(), "{wrong:#?}\n{report}");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

fn p99(waits: impl Iterator<Item = Duration>) -> Duration {
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort();
    waits[waits.len() * 99 / 100]
}
