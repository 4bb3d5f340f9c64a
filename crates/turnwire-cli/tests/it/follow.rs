//! `turnwire follow` and `turnwire run --server`: a run of a server, watched over cut lines and
//! restarts.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    runs::client,
    serve::{DEMO, Gateway, quick},
    terminal::{Terminal, screen, screen_of},
    world::{PATIENCE, Running, Server, TURNWIRE, World, journal, timeless},
};

const MULTIPLY: &str = "multiply 5 and 4";
const HOUR_MS: &str = "3600000";

/// `turnwire run --json` on a server, whose run is known from its first event on.
pub(crate) struct Line {
    pub(crate) running: Running,
    first: String,
}

impl Line {
    pub(crate) fn open(world: &World, question: &str) -> Self {
        let mut running = world.start(&["run", "--json", question]);
        let first = running.stdout.rest_of_line("{\"run_id\":\"");
        Self { running, first }
    }

    pub(crate) fn run_id(&self) -> String {
        self.first.split('"').next().unwrap().to_owned()
    }
}

/// Runs a question to its end. Returns the ID of the run.
pub(crate) fn start_run(world: &World, question: &str) -> String {
    let line = Line::open(world, question);
    let run_id = line.run_id();
    let done = line.running.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    run_id
}

/// A demo whose tool takes an hour.
fn slow() -> World {
    World::new().with("TURNWIRE_DEMO_PACE_MS", "0").with("TURNWIRE_DEMO_TOOL_MS", HOUR_MS)
}

fn wait_for_status(world: &World, run_id: &str, status: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let done = world.run(&["runs", "show", run_id, "--json"]);
        let snapshot: Value = serde_json::from_str(&done.stdout).expect(&done.stderr);
        if snapshot["status"] == status {
            return;
        }
        assert!(Instant::now() < deadline, "not {status}: {snapshot}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A finished run looks as if it had been run here, and `--json` is its journal.
#[test]
fn a_finished_run_looks_the_same_as_a_run_of_this_process() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let run_id = start_run(&world, MULTIPLY);
    let followed = world.run(&["follow", &run_id]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    let local = quick().run(&["run", "--model", "scripted", MULTIPLY]);
    assert_eq!(followed.stdout, local.stdout);
    let here = timeless(&local.stderr).replace("multiply 5", "demo.multiply 5");
    assert_eq!(timeless(&followed.stderr), here);

    // A run that was started here tells its ID, which another command can use.
    let started = world.run(&["run", MULTIPLY]);
    let started_id = started.stderr.lines().last().unwrap().trim();
    assert_eq!(world.run(&["follow", started_id]).stdout, local.stdout, "{started:?}");

    let events = journal(&world.run(&["follow", &run_id, "--json"]).stdout);
    assert_eq!(events.first().unwrap().run_id.as_str(), run_id);
    let quiet = world.run(&["follow", &run_id, "--quiet"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), (local.stdout.as_str(), ""));
}

/// On terminals of 40 and 200 columns, with `NO_COLOR` and `TERM=dumb`.
#[test]
fn a_run_is_followed_on_any_terminal() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let run_id = start_run(&world, MULTIPLY);
    for cols in [40, 200] {
        let terminal = Terminal::start_sized(&world, TURNWIRE, &["follow", &run_id], cols);
        let (bytes, code) = terminal.finish();
        assert_eq!(code, 0);
        assert_eq!(
            timeless(&screen_of(&bytes, cols)),
            "I will multiply 5 and 4.\n✓ demo.multiply 5 × 4  20  …s\n5 times 4 is 20.\n  done · …s \
             · 1 tool · 30 tokens\n"
        );
    }
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let world = client(&gateway).with(name, value);
        let (bytes, _) = Terminal::start(&world, &["follow", &run_id]).finish();
        assert!(!bytes.contains(&0x1b), "{}", String::from_utf8_lossy(&bytes));
    }
}

/// Esc and Ctrl-C stop the run on the server.
#[test]
fn a_key_stops_the_run_on_the_server() {
    let gateway = Gateway::start(&slow(), &DEMO);
    let world = client(&gateway);
    for key in [b"\x1b", b"\x03"] {
        let mut line = Line::open(&world, MULTIPLY);
        let run_id = line.run_id();
        line.running.stdout.wait_for("tool_started");
        let mut terminal = Terminal::start(&world, &["follow", &run_id]);
        terminal.wait_for("demo.multiply 5 × 4  running");
        terminal.wait_for("esc to stop · ctrl-b to detach)");
        // Arrow keys begin with the same byte.
        terminal.press(b"\x1b[A");
        terminal.press(b"x");
        terminal.press(key);
        let (bytes, code) = terminal.finish();
        assert_eq!(code, 130, "{}", screen(&bytes));
        assert!(screen(&bytes).contains("■ demo.multiply 5 × 4  stopped"), "{}", screen(&bytes));
        // Whoever else watches the run sees it end; it was not stopped there.
        assert_eq!(line.running.finish().code, Some(1));
        wait_for_status(&world, &run_id, "cancelled");
    }
}

/// Ctrl-B leaves the run alone, gives the terminal back, and says how to return.
#[test]
fn ctrl_b_detaches() {
    let gateway = Gateway::start(&slow(), &DEMO);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["run", MULTIPLY]);
    let usual_mode = terminal.usual_mode();
    terminal.wait_for("demo.multiply 5 × 4  running");
    terminal.press(b"\x02");
    assert_eq!(terminal.mode_at_the_end(), usual_mode);
    let (bytes, code) = terminal.finish();
    let written = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!(code, 0, "{written}");
    let followed = written.split_once("detached. Follow with: turnwire follow ").expect(&written).1;
    let run_id = followed.split_whitespace().next().unwrap();
    assert!(written.contains(&format!("Stop with: turnwire runs cancel {run_id}")), "{written}");
    wait_for_status(&world, run_id, "running");
    assert_eq!(world.run(&["runs", "cancel", run_id]).code, Some(0));
    wait_for_status(&world, run_id, "cancelled");
}

/// A7: an approval is answered where the run is watched, and one that is answered elsewhere goes
/// away.
#[test]
fn approvals_are_answered_in_place() {
    let server = quick().with_file("turnwire.toml", "[approvals]\npure = \"always\"\n");
    let gateway = Gateway::start(&server, &DEMO);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["run", MULTIPLY]);
    terminal.wait_for("? demo.multiply wants to run\n  arguments: {\"a\":5,\"b\":4}\n");
    terminal.answer("[e]dit the arguments, [?] help:", "e\r");
    terminal.answer("as JSON on one line:", "{\"a\": \"x\"}\r");
    terminal.wait_for("does not match the schema");
    terminal.answer("[e]dit the arguments, [?] help:", "y\r");
    let (bytes, code) = terminal.finish();
    assert!(screen(&bytes).contains("✓ demo.multiply 5 × 4  20"), "{}", screen(&bytes));
    assert_eq!(code, 0);

    let line = Line::open(&world, MULTIPLY);
    let run_id = line.run_id();
    assert_eq!(line.running.finish().code, Some(3));
    let mut terminal = Terminal::start(&world, &["follow", &run_id]);
    terminal.wait_for("wants to run");
    terminal.press(b"half an ans");
    assert_eq!(world.run(&["runs", "approve", &run_id]).code, Some(0));
    let (bytes, code) = terminal.finish();
    assert!(screen(&bytes).contains("5 times 4 is 20.\n"), "{}", screen(&bytes));
    assert_eq!(code, 0);
}

/// A line that can be cut, between a client and a server.
struct Proxy {
    address: String,
    lines: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Proxy {
    fn to(gateway: &Gateway) -> Self {
        let target = gateway.url("").trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let lines = Arc::new(Mutex::new(Some(Vec::new())));
        let kept = Arc::clone(&lines);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&target).unwrap());
                match kept.lock().unwrap().as_mut() {
                    Some(lines) => {
                        lines.extend([&client, &server].map(|it| it.try_clone().unwrap()));
                    }
                    // The line is cut: whoever calls is hung up on.
                    None => continue,
                }
                let pump = |mut from: TcpStream, mut to: TcpStream| {
                    thread::spawn(move || {
                        let mut piece = [0; 4096];
                        while let Ok(n_bytes @ 1..) = from.read(&mut piece) {
                            if to.write_all(&piece[..n_bytes]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                };
                pump(client.try_clone().unwrap(), server.try_clone().unwrap());
                pump(server, client);
            }
        });
        Self { address, lines }
    }

    fn cut(&self) {
        for line in self.lines.lock().unwrap().take().into_iter().flatten() {
            let _ = line.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        *self.lines.lock().unwrap() = Some(Vec::new());
    }
}

/// After a cut line the run is shown on, without a gap and without a word twice.
#[test]
fn a_cut_line_is_mended() {
    let server = Server::new();
    let serve = World::new().with("OPENAI_BASE_URL", &server.url());
    let serve = serve.with("TURNWIRE_STORE_URL", "memory:");
    let gateway = Gateway::start(&serve, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let proxy = Proxy::to(&gateway);
    let world = client(&gateway).with("TURNWIRE_SERVER", &proxy.address);
    let mut terminal = Terminal::start(&world, &["run", "Count."]);
    let mut plain = world.start(&["run", "Count."]);
    let mut questions = [server.question(), server.question()];
    for question in &mut questions {
        question.begin();
        question.say("one, ");
    }
    terminal.wait_for("one,");
    plain.stdout.wait_for("one, ");
    proxy.cut();
    let lost = "connection lost, the run goes on; trying again";
    terminal.wait_for(&format!("◌ {lost}"));
    plain.stderr.wait_for(&format!("◌ {lost}\n"));
    for question in &mut questions {
        question.say("two, ");
        question.say("three, ");
    }
    proxy.mend();
    terminal.wait_for("● back, ");
    plain.stderr.wait_for("events caught up\n");
    for mut question in questions {
        question.say("four.");
        question.end();
    }
    let (bytes, code) = terminal.finish();
    let shown = screen(&bytes);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("one,\n") && shown.contains("two, three,\n"), "{shown}");
    assert_eq!(shown.matches("one,").count(), 1, "{shown}");
    assert!(!shown.contains("connection lost"), "{shown}");
    assert!(shown.contains("2 events caught up"), "{shown}");
    let done = plain.finish();
    assert_eq!(done.stdout, "one, two, three, four.\n", "{done:?}");
    assert_eq!(done.stderr.matches("connection lost").count(), 1, "{done:?}");
}

/// A server that is killed and started again goes on with the run, and so does the terminal.
#[test]
fn a_restart_of_the_server_is_survived() {
    let serve = World::new()
        .with("TURNWIRE_DEMO_PACE_MS", "0")
        .with("TURNWIRE_DEMO_TOOL_MS", "4000")
        .with("TURNWIRE_STORE_URL", "sqlite://runs.db");
    let mut gateway = Gateway::start(&serve, &DEMO);
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["run", MULTIPLY]);
    terminal.wait_for("demo.multiply 5 × 4  running");
    gateway.signal("KILL");
    terminal.wait_for("connection lost, the run goes on");
    let again = ["serve", "--demo", "--json", "--listen", &address];
    let _gateway = Gateway::start(&serve, &again);
    let listens = Instant::now();
    terminal.wait_for("caught up");
    assert!(listens.elapsed() < Duration::from_secs(1), "it comes back at once");
    let (bytes, code) = terminal.finish();
    let shown = timeless(&screen(&bytes));
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("another worker goes on with the run (attempt 2)"), "{shown}");
    assert!(shown.contains("events caught up"), "{shown}");
    assert!(shown.contains("✓ demo.multiply 5 × 4  20  …s\n5 times 4 is 20.\n"), "{shown}");
    assert_eq!(shown.matches("I will multiply").count(), 1, "{shown}");
}

/// Escape sequences of a model do not reach the terminal, and a resize does not tear the block.
#[test]
fn escape_sequences_are_neutralised_while_the_terminal_is_resized() {
    let server = Server::new();
    let serve = World::new().with("OPENAI_BASE_URL", &server.url());
    let file = "[functions.pay]\ndescription = \"Pays.\"\nmethod = \"POST\"\n\
                url = \"http://127.0.0.1:1/\"\nparameters = { type = \"object\" }\n";
    let serve = serve.with("TURNWIRE_STORE_URL", "memory:").with_file("turnwire.toml", file);
    let gateway = Gateway::start(&serve, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["run", "Pay."]);
    let mut question = server.question();
    question.begin();
    terminal.wait_for("• Working (");
    terminal.resize(40);
    thread::sleep(Duration::from_millis(300));
    terminal.resize(120);
    question.say("safe\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m text\n");
    question.call_with("pay", r#"{"to": "\u001b[31mmallory\u001b]52;c;aGk=\u0007"}"#);
    let mut last = server.question();
    last.begin();
    last.say("Done.");
    last.end();
    let (bytes, code) = terminal.finish();
    let shown = screen_of(&bytes, 120);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("safe31m text\n"), "{shown}");
    assert!(shown.contains("✗ pay"), "{shown}");
    let written = String::from_utf8_lossy(&bytes);
    for evil in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{1b}[31mmallory", "\u{9b}"] {
        assert!(!written.contains(evil), "{evil:?} in {written:?}");
    }
    assert!(!shown.contains("Working"), "{shown}");
}

/// A run that fails or meets a limit is 1, and says why.
#[test]
fn a_run_that_fails_is_1() {
    let server = Server::new();
    let serve = World::new().with("OPENAI_BASE_URL", &server.url());
    let serve = serve.with("TURNWIRE_STORE_URL", "memory:");
    let gateway = Gateway::start(&serve, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let world = client(&gateway);
    let line = Line::open(&world, "Hello.");
    let run_id = line.run_id();
    server.question().refuse("400 Bad Request", "\u{1b}[31mtoo hot today");
    assert_eq!(line.running.finish().code, Some(1));
    let (bytes, code) = Terminal::start(&world, &["follow", &run_id]).finish();
    let shown = screen(&bytes);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("error: the model's provider rejected the request"), "{shown}");
    assert!(!shown.contains("Working"), "{shown}");
    let shown = world.run(&["runs", "show", &run_id]);
    assert!(shown.stdout.contains("failure       the model's provider rejected"), "{shown:?}");
}

/// An MCP server whose tool asks a question, and whose result tries to act on the terminal.
const SHOP: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) what='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}' ;;
    *'"method":"tools/list"'*) what='"result":{"tools":[{"name":"order","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        printf '%s\n' '{"jsonrpc":"2.0","id":900,"method":"elicitation/create","params":{"message":"Which \u001b[31msize?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","enum":["S","L"],"title":"Size"},"gift":{"type":"boolean"}},"required":["size","gift"]}}}'
        while read -r answer; do case "$answer" in *'"id":900'*) break ;; esac; done
        printf '%s' "$answer" >answer.json
        what='"result":{"content":[{"type":"text","text":"\u001b]0;owned\u0007\u001b[2Jordered\u001b[31m"}]}' ;;
    *'"id":'*) what='"error":{"code":-32601,"message":"no such method"}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$what"
done
"#;

/// A question of a tool is a form, and its result cannot act on the terminal.
#[test]
fn questions_of_tools_are_answered_in_place() {
    let server = Server::new();
    let settings = "[mcp_servers.shop]\ncommand = \"sh\"\nargs = [\"shop.sh\"]\n";
    let serve = World::new()
        .with("OPENAI_BASE_URL", &server.url())
        .with("TURNWIRE_STORE_URL", "memory:")
        .with("PATH", &crate::toy::path())
        .with_file("turnwire.toml", settings)
        .with_file("shop.sh", SHOP);
    let gateway = Gateway::start(&serve, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["run", "Order."]);
    let mut question = server.question();
    question.begin();
    question.call("order");
    terminal.wait_for("? shop.order asks: Which size?\n  /decline declines, /cancel dismisses\n");
    terminal.answer("number or value:", "3\r");
    terminal.wait_for("that is not one of them");
    terminal.answer("number or value:", "2\r");
    terminal.answer("gift [y/n]:", "y\r");
    let mut told = server.question();
    told.begin();
    told.say("Done.");
    told.end();
    let (bytes, code) = terminal.finish();
    let shown = screen(&bytes);
    assert_eq!(code, 0, "{shown}");
    let answer = std::fs::read_to_string(serve.path().join("answer.json")).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["action"], "accept", "{answer}");
    assert_eq!(answer["result"]["content"]["size"], "L", "{answer}");
    assert_eq!(answer["result"]["content"]["gift"], true, "{answer}");
    assert!(shown.contains("✓ shop.order  ordered  "), "{shown}");
    let written = String::from_utf8_lossy(&bytes);
    for evil in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{1b}[31m"] {
        assert!(!written.contains(evil), "{evil:?} in {written:?}");
    }
}

/// The settings of the server decide; options that only work here are refused.
#[test]
fn options_of_this_process_are_refused_with_a_server() {
    let world = World::new().with("TURNWIRE_SERVER", "http://127.0.0.1:1");
    let done = world.run(&["run", "--max-turns", "1", "Hello."]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("--max-turns works only in this process"), "{done:?}");
    let world = World::new().with("TURNWIRE_SERVER", "").with("TURNWIRE_DEMO_TOOL_MS", "1");
    assert_eq!(world.run(&["run", "--model", "scripted", MULTIPLY]).code, Some(0));
}
