//! `turnwire check`: what it reads, what it says, and what a script learns.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    thread,
};

use serde_json::{Value, json};

use crate::world::{Done, World};

/// A recorded stream that is fine, as events.
fn recorded() -> Vec<Value> {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../turnwire-testkit/scenarios");
    let text = fs::read_to_string(scenarios.join("one_tool/responses.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines(events: &[Value]) -> String {
    events.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// As it comes over the wire.
fn sse(events: &[Value]) -> String {
    let frame =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(frame).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// A call that never ends, and two events with the same number.
fn spoilt() -> Vec<Value> {
    let mut events = recorded();
    let is_done =
        |event: &Value| event["item"]["id"] == "fc_1" && event["item"]["status"] == "completed";
    let place = events.iter().position(is_done).unwrap();
    events.remove(place);
    for event in &mut events[place..] {
        let number = event["sequence_number"].as_u64().unwrap();
        event["sequence_number"] = json!(number - 2);
    }
    events
}

fn check_fine(done: &Done) {
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert_eq!(done.stdout, "fine: 23 events, 0 faults, 0 notes\n");
}

/// S1-SC-004: all shapes in which streams are kept, from a file or from standard input.
#[test]
fn a_recorded_stream_is_read_in_every_shape() {
    let events = recorded();
    let world = World::new()
        .with_file("stream.sse", &sse(&events))
        .with_file("cut.sse", sse(&events).trim_end())
        .with_file(
            "commented.sse",
            &format!(": hello\r\n\r\n{}", sse(&events).replace('\n', "\r\n")),
        )
        .with_file("stream.jsonl", &lines(&events))
        .with_file("stream.json", &serde_json::to_string_pretty(&events).unwrap());
    for file in ["stream.sse", "cut.sse", "commented.sse", "stream.jsonl", "stream.json"] {
        check_fine(&world.run(&["check", file]));
    }
    let mut child = world.command(&["check"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(sse(&events).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    check_fine(&Done { code: output.status.code(), stdout, stderr });
}

/// One event has at most 16 MiB. A recording may have any number of them.
#[test]
fn an_event_has_a_limit_and_a_recording_has_none() {
    const MIB: usize = 1024 * 1024;
    let comments = format!(": {}\n\n", "x".repeat(MIB)).repeat(20);
    let world = World::new()
        .with_file("long.sse", &format!("{comments}{}", sse(&recorded())))
        .with_file("large.sse", &format!("data: {}\n\n", "x".repeat(17 * MIB)));
    check_fine(&world.run(&["check", "long.sse"]));
    let done = world.run(&["check", "large.sse"]);
    assert_eq!(done.stdout, "");
    assert!(done.stderr.contains("an event has more than 16 MiB"), "{}", done.stderr);
}

#[test]
fn faults_are_1_and_each_has_its_line() {
    let world = World::new().with_file("stream.sse", &sse(&spoilt()));
    let done = world.run(&["check", "stream.sse"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), ""));
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "fault sequence_repeated     event 13, response.output_item.added, number 11, item 2 \
             fco_1: the event before has the number 11, too",
            "fault item_not_done         event 22, response.completed, number 20, item 1 fc_1: the \
             response ends before it is done",
            "",
            "not fine: 22 events, 2 faults, 0 notes",
        ]
    );
}

#[test]
fn a_script_reads_json() {
    let world = World::new().with_file("stream.jsonl", &lines(&spoilt()));
    let done = world.run(&["check", "stream.jsonl", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(1), ""));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&report["events"], &report["faults"]), (&json!(22), &json!(2)));
    assert_eq!(report["findings"][0]["code"], "sequence_repeated");
    assert_eq!(report["findings"][1]["item_id"], "fc_1");
}

/// C11: the rest of a stream is one only if that is said.
#[test]
fn the_rest_of_a_stream_has_to_be_named_as_such() {
    let world = World::new().with_file("rest.jsonl", &lines(&recorded()[9..]));
    assert_eq!(world.run(&["check", "rest.jsonl"]).code, Some(1));
    let done = world.run(&["check", "rest.jsonl", "--resumed"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "fine: 14 events, 0 faults, 0 notes\n")
    );
}

/// A stream may hold anything; a terminal must not obey it.
#[test]
fn what_a_stream_says_is_not_obeyed() {
    let event = json!({ "type": "response.\u{1b}[2Jmade_up", "sequence_number": 0 });
    let world = World::new().with_file("stream.jsonl", &lines(&[event]));
    let done = world.run(&["check", "stream.jsonl"]);
    assert_eq!(done.code, Some(1));
    assert!(!done.stdout.contains('\u{1b}'), "{:?}", done.stdout);
}

#[test]
fn what_cannot_be_read_is_2() {
    let world = World::new().with_file("stream.jsonl", "{}");
    let problem = |arguments: &[&str], expected: &str| {
        let done = world.run(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(done.stderr.contains(expected), "no `{expected}` in:\n{}", done.stderr);
    };
    problem(&["check", "none.sse"], "error: none.sse cannot be read: ");
    problem(&["check", "stream.jsonl", "--ask", "hi", "--model", "tiny"], "is not an address");
    problem(&["check", "http://127.0.0.1:1/v1", "--ask", "hi"], "--model <NAME>");
    problem(&["check", "http://127.0.0.1:1/v1"], "cannot connect to");
    let address = "http://127.0.0.1:1/v1";
    problem(&["check", address, "--header", "no colon"], "has no colon");
    problem(&["check", address, "--header", "X-Team: ${TEAM}"], "`TEAM` is not set");
    problem(&["check", address, "--api-key-env", "NO_KEY"], "`NO_KEY` is not set");
    let server =
        serve_once("HTTP/1.1 401 Unauthorized\r\ncontent-length: 7\r\n\r\nno key!".to_owned());
    problem(&["check", &server.address], "answered 401 Unauthorized\n  no key!");
}

/// A server that gives one answer, and tells what it was asked.
struct OneAnswer {
    address: String,
    asked: thread::JoinHandle<(String, String)>,
}

fn serve_once(answer: String) -> OneAnswer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let asked = question(&mut connection);
        connection.write_all(answer.as_bytes()).unwrap();
        asked
    });
    OneAnswer { address, asked }
}

/// The head and the body of a request.
fn question(connection: &mut TcpStream) -> (String, String) {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "cut off: {head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    std::io::Read::read_exact(&mut reader, &mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn streamed(events: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{}", sse(events))
}

/// An address is read and nothing is posted to it; a key goes along only if it is named.
#[test]
fn an_address_is_read() {
    let world = World::new().with("OPENAI_API_KEY", "sk-usual").with("TEAM", "blue");
    let server = serve_once(streamed(&recorded()));
    let done = world.run(&["check", &server.address, "--header", "X-Team: ${TEAM}"]);
    check_fine(&done);
    let (head, body) = server.asked.join().unwrap();
    assert!(head.starts_with("GET /v1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-team: blue\r\n") && !head.contains("sk-usual"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn a_question_is_posted_and_its_answer_checked() {
    let world = World::new().with("OPENAI_API_KEY", "sk-usual").with("OTHER_KEY", "sk-other");
    for (more, key) in [(vec![], "sk-usual"), (vec!["--api-key-env", "OTHER_KEY"], "sk-other")] {
        let server = serve_once(streamed(&spoilt()));
        let ask = ["check", &server.address, "--ask", "Why?", "--model", "tiny"];
        let done = world.run(&[&ask[..], &more].concat());
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        let (head, body) = server.asked.join().unwrap();
        assert!(head.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("authorization: Bearer {key}\r\n")), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, json!({ "model": "tiny", "input": "Why?", "stream": true }));
    }
}

/// A stream that does not end is checked as far as it came.
#[test]
fn a_stream_that_does_not_end_is_checked_as_far_as_it_came() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let (hang_up, waiting) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        question(&mut connection);
        let begun = streamed(&recorded()[..5]).replace("data: [DONE]\n\n", "");
        connection.write_all(begun.as_bytes()).unwrap();
        let _ = waiting.recv();
    });
    let done = World::new().run(&["check", &address, "--timeout", "1", "--json"]);
    drop(hang_up);
    server.join().unwrap();
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["events"], 5);
    assert_eq!(report["findings"][0]["code"], "end_missing");
}

/// S1-SC-004: our own gateway, over a real socket.
#[test]
fn our_own_gateway_is_fine() {
    let world = World::new().with("TURNWIRE_DEMO_PACE_MS", "0").with("TURNWIRE_DEMO_TOOL_MS", "0");
    let mut running = world.start(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
    let line = running.stdout.rest_of_line("{\"listening\":\"");
    let address = format!("http://{}/v1", line.strip_suffix("\"}").unwrap());
    let ask = ["check", &address, "--ask", "multiply 5 and 4", "--model", "scripted"];
    let strict = world.run(&ask);
    let extended = world.run(&[&ask[..], &["--header", "Turnwire-Profile: extended"]].concat());
    running.signal("TERM");
    running.finish();
    for done in [strict, extended] {
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
        assert!(done.stdout.ends_with("events, 0 faults, 0 notes\n"), "{}", done.stdout);
    }
}
