//! `turnwire check`: reads a stream and reports its faults.
//!
//! The rules are in `turnwire_surfaces::check`. This file reads the stream (from a file, standard
//! input, a URL or a new request) and prints the findings.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    iter,
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use reqwest::{
    Response,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::{Value, json};
use sse_stream::SseStream;
use tokio::time::Instant;
use turnwire_http::{EventSize, chain, read_at_most};
use turnwire_surfaces::{
    CheckOptions, Checker,
    check::{Finding, Level, Report},
    clean, wire_json_pretty,
};

use super::output::print_line;
use crate::{
    args::CheckArguments,
    environment::Environment,
    exit::{Exit, Problem, Result},
    settings::{filled, is_http_url},
    signals::Signals,
    terminal::{Colour, Paint},
};

/// Default variable for the key of `--ask`.
const USUAL_KEY: &str = "OPENAI_API_KEY";
/// Maximum size of a list of events in JSON, which is read as a whole.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Maximum size of one event of a stream.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// A recording is read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum number of characters of an error response that are printed.
const MAX_ERROR_CHARS: usize = 300;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Width of the code column.
const CODE_WIDTH: usize = 21;

pub(crate) fn check(arguments: &CheckArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stdout().is_terminal());
    let found = read(arguments, environment);
    match found.map(|report| tell(arguments, &report, paint)) {
        Ok(exit) => exit,
        Err(problem) => {
            let paint = Paint::choose(arguments.color, environment, io::stderr().is_terminal());
            problem.shown(paint)
        }
    }
}

/// Reads and checks the stream.
fn read(arguments: &CheckArguments, environment: &Environment) -> Result<Report> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Problem::usage(format!("cannot start the runtime: {error}")))?;
    if is_http_url(&arguments.source) {
        return runtime.block_on(read_address(arguments, environment));
    }
    let of_address = [
        ("--ask", arguments.ask.is_some()),
        ("--header", !arguments.header.is_empty()),
        ("--api-key-env", arguments.api_key_env.is_some()),
    ];
    if let Some((flag, _)) = of_address.iter().find(|(_, is_set)| *is_set) {
        return Err(Problem::usage(format!("{flag}: `{}` is not an address", arguments.source))
            .hint("an address begins with http:// or https://"));
    }
    let pieces = recording(&arguments.source)?;
    runtime.block_on(read_recording(pieces, arguments.resumed))
}

/// Opens a recording. Its pieces are read when they are asked for.
fn recording(source: &str) -> Result<impl Iterator<Item = io::Result<Bytes>> + use<>> {
    let mut reader: Box<dyn Read> = if source == "-" {
        Box::new(io::stdin())
    } else {
        let file = fs::File::open(source).map_err(|error| {
            Problem::usage(format!("{source} cannot be read: {error}")).hint(
                "name a file, an address that begins with http:// or https://, or - for stdin",
            )
        })?;
        Box::new(file)
    };
    let name = if source == "-" { "standard input".to_owned() } else { source.to_owned() };
    Ok(iter::from_fn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        let read = loop {
            match reader.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => None,
            Ok(n_bytes) => {
                piece.truncate(n_bytes);
                Some(Ok(piece.into()))
            }
            Err(error) => Some(Err(io::Error::other(format!("{name} cannot be read: {error}")))),
        }
    }))
}

/// Checks a recorded stream in any of the three formats. Events are checked while they are read,
/// JSON when it is whole.
async fn read_recording(
    mut pieces: impl Iterator<Item = io::Result<Bytes>>,
    is_resumed: bool,
) -> Result<Report> {
    let unread = |error: io::Error| Problem::usage(error.to_string());
    let mut start = Vec::new();
    // Up to the first character that is no space, and no mark of the byte order.
    let first = loop {
        let text = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&start);
        let text = text.trim_ascii_start();
        if let Some(first) = text.first() {
            let first = *first;
            start = text.to_vec();
            break first;
        }
        let Some(piece) = pieces.next() else {
            return Ok(Checker::new(CheckOptions { is_resumed, is_sse: false }).finish());
        };
        start.extend_from_slice(&piece.map_err(unread)?);
        if start.len() > MAX_EVENT_BYTES {
            return Err(Problem::usage("the stream begins with more than 16 MiB of spaces"));
        }
    };
    if !matches!(first, b'[' | b'{') {
        let start = iter::once(Ok(Bytes::from(start)));
        // A recording may lack the blank line after its last event.
        let end = iter::once(Ok(Bytes::from_static(b"\n\n")));
        let mut checker = Checker::new(CheckOptions { is_resumed, is_sse: true });
        read_events(stream::iter(start.chain(pieces).chain(end)), &mut checker).await?;
        return Ok(checker.finish());
    }
    for piece in pieces {
        start.extend_from_slice(&piece.map_err(unread)?);
        if start.len() > MAX_BYTES {
            return Err(Problem::usage(
                "events in JSON are read up to 256 MiB, and this is longer",
            )
            .hint("record the stream as it is sent, as server-sent events"));
        }
    }
    Ok(read_text(&start, is_resumed))
}

/// Checks events in JSON.
fn read_text(bytes: &[u8], is_resumed: bool) -> Report {
    let mut checker = Checker::new(CheckOptions { is_resumed, is_sse: false });
    read_json(String::from_utf8_lossy(bytes).trim(), &mut checker);
    checker.finish()
}

/// Checks a list of events, one event, or one event per line.
fn read_json(text: &str, checker: &mut Checker) {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(events)) => events.iter().for_each(|event| checker.event(None, event)),
        Ok(event) => checker.event(None, &event),
        Err(_) => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.for_each(|line| read_data(None, line, checker));
        }
    }
}

fn read_data(name: Option<&str>, data: &str, checker: &mut Checker) {
    match serde_json::from_str(data) {
        _ if data.trim() == "[DONE]" => checker.done_marker(),
        Ok(event) => checker.event(name, &event),
        Err(error) => checker.unreadable(&error.to_string()),
    }
}

/// Checks server-sent events as they arrive. There may be any number of them.
async fn read_events<E>(
    pieces: impl Stream<Item = Result<Bytes, E>>,
    checker: &mut Checker,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut size = EventSize::default();
    let pieces = pieces.map(move |piece| {
        let piece = piece.map_err(|error| io::Error::other(chain(&error)))?;
        if size.add(&piece) > MAX_EVENT_BYTES {
            return Err(io::Error::other("an event has more than 16 MiB"));
        }
        Ok(piece)
    });
    let mut events = Box::pin(SseStream::from_bytes_stream(pieces));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let Some(data) = &event.data else { continue };
                read_data(event.event.as_deref(), data, checker);
            }
            Err(sse_stream::Error::Body(error)) => {
                return Err(Problem::usage(format!("the stream broke off: {error}")));
            }
            Err(error) => checker.unreadable(&error.to_string()),
        }
    }
    Ok(())
}

async fn read_address(arguments: &CheckArguments, environment: &Environment) -> Result<Report> {
    let headers = headers(arguments, environment)?;
    let deadline = Instant::now() + Duration::from_secs(arguments.timeout.get());
    let mut signals = Signals::listen()
        .map_err(|error| Problem::usage(format!("cannot listen for Ctrl-C: {error}")))?;
    let asking = ask(arguments, headers);
    let response = tokio::select! {
        biased;
        _ = signals.next() => return Err(Problem::usage("stopped before there was an answer")),
        answer = tokio::time::timeout_at(deadline, asking) => {
            answer.map_err(|_| Problem::usage("there was no answer in time"))??
        }
    };
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| kind.contains("json"));
    let pieces = response
        .bytes_stream()
        .map(|piece| piece.map_err(|error| io::Error::other(chain(&error.without_url()))));
    // Events received before an interrupt are checked as well.
    let patience = async {
        tokio::select! {
            _ = signals.next() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    };
    let pieces = pieces.take_until(patience);
    if is_json {
        let mut all = Vec::new();
        let mut pieces = Box::pin(pieces);
        while let Some(piece) = pieces.next().await {
            let broke_off = |error| Problem::usage(format!("the answer broke off: {error}"));
            all.extend_from_slice(&piece.map_err(broke_off)?);
            if all.len() > MAX_BYTES {
                return Err(Problem::usage("the answer is too long to be a list of events"));
            }
        }
        return Ok(read_text(&all, arguments.resumed));
    }
    let options = CheckOptions { is_resumed: arguments.resumed, is_sse: true };
    let mut checker = Checker::new(options);
    read_events(pieces, &mut checker).await?;
    Ok(checker.finish())
}

async fn ask(arguments: &CheckArguments, headers: HeaderMap) -> Result<Response> {
    let client = turnwire_http::client()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would forward the key to another host.
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|error| {
            Problem::usage(format!("the HTTP client could not be created: {}", chain(&error)))
        })?;
    let request = match &arguments.ask {
        Some(question) => {
            let address = format!("{}/responses", arguments.source.trim_end_matches('/'));
            let body = json!({ "model": arguments.model, "input": question, "stream": true });
            client.post(address).json(&body)
        }
        None => client.get(&arguments.source),
    };
    let sent = request.headers(headers).send().await;
    let response = sent.map_err(|error| {
        let error = error.without_url();
        Problem::usage(format!("cannot connect to {}: {}", arguments.source, chain(&error)))
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let page = read_at_most(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let page: String =
        String::from_utf8_lossy(&page).trim().chars().take(MAX_ERROR_CHARS).collect();
    let mut problem = Problem::usage(format!("{} answered {status}", arguments.source));
    problem.details.extend((!page.is_empty()).then_some(page));
    Err(problem)
}

fn headers(arguments: &CheckArguments, environment: &Environment) -> Result<HeaderMap> {
    let mut headers =
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
    let usual = arguments.ask.is_some().then_some(USUAL_KEY);
    let key = match (arguments.api_key_env.as_deref(), usual) {
        (Some(variable), _) => Some(environment.get(variable).ok_or_else(|| {
            Problem::usage(format!("--api-key-env: the variable `{variable}` is not set"))
        })?),
        (None, Some(variable)) => environment.get(variable),
        (None, None) => None,
    };
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, header_value(&format!("Bearer {key}"))?);
    }
    for header in &arguments.header {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            Problem::usage(format!("--header: `{header}` has no colon"))
                .hint("for example: --header 'X-Team: blue'")
        })?;
        let name = HeaderName::try_from(name.trim())
            .map_err(|_| Problem::usage(format!("--header: `{name}` is not a name of a header")))?;
        let value = filled(value.trim(), environment)
            .map_err(|why| Problem::usage(format!("--header {name}: {why}")))?;
        headers.insert(name, header_value(&value)?);
    }
    Ok(headers)
}

fn header_value(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Problem::usage("a key or a header has characters that none can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Prints the findings to standard output.
fn tell(arguments: &CheckArguments, report: &Report, paint: Paint) -> Exit {
    print_line(&if arguments.json { wire_json_pretty(report) } else { worded(report, paint) });
    if report.is_fine() { Exit::Done } else { Exit::Failed }
}

fn worded(report: &Report, paint: Paint) -> String {
    let mut lines: Vec<String> =
        report.findings.iter().map(|finding| line_of(finding, paint)).collect();
    if report.left_off > 0 {
        lines.push(format!("and {} more", report.left_off));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    let counted = [
        n_things(report.events, "event"),
        n_things(report.faults, "fault"),
        n_things(report.notes, "note"),
    ];
    let (colour, verdict) =
        if report.is_fine() { (Colour::Green, "fine") } else { (Colour::Red, "not fine") };
    lines.push(format!("{}: {}", paint.bold(colour, verdict), counted.join(", ")));
    lines.join("\n")
}

fn line_of(finding: &Finding, paint: Paint) -> String {
    let (colour, level) = match finding.level {
        Level::Fault => (Colour::Red, "fault"),
        Level::Note => (Colour::Cyan, "note "),
    };
    let (level, code) = (paint.bold(colour, level), finding.code);
    // A stream may contain escape sequences for the terminal.
    let location = location_of(finding);
    let (location, message) = (clean(&location), clean(&finding.message));
    format!("{level} {code:CODE_WIDTH$} {}: {message}", paint.dim(&location))
}

fn location_of(finding: &Finding) -> String {
    let location = &finding.location;
    let Some(event) = location.event else { return "at the end".to_owned() };
    let mut words = vec![format!("event {event}")];
    words.extend(location.kind.clone());
    words.extend(location.sequence_number.map(|number| format!("number {number}")));
    let item = match (&location.item_id, location.output_index) {
        (Some(id), Some(index)) => Some(format!("item {index} {id}")),
        (Some(id), None) => Some(format!("item {id}")),
        (None, Some(index)) => Some(format!("item {index}")),
        (None, None) => None,
    };
    words.extend(item);
    words.join(", ")
}

fn n_things(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {thing}{plural}")
}
