//! `turnwire login`, `logout` and `runs`, against a real server.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::Stdio,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    follow::{Line, start_run},
    serve::{DEMO, Gateway, quick},
    terminal::{Terminal, screen_of},
    world::{Done, TURNWIRE, World},
};

const KEY: &str = "a-key-of-the-team";

/// A client with a home of its own, for the server.
pub(crate) fn client(gateway: &Gateway) -> World {
    let world = World::new().with("TURNWIRE_SERVER", &gateway.url(""));
    let home = world.path().display().to_string();
    world.with("HOME", &home)
}

fn json(done: &Done) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).expect(&done.stdout)
}

/// Runs a command with this on standard input.
fn piped(world: &World, arguments: &[&str], input: &str) -> Done {
    let mut command = world.command(arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Done { code: output.status.code(), stdout, stderr }
}

/// A server that is not there is 4, in plain words.
#[test]
fn a_server_that_cannot_be_reached_is_4() {
    let world = World::new();
    for arguments in [
        &["runs", "list", "--server", "http://127.0.0.1:1"][..],
        &["follow", "run_1", "--server", "http://127.0.0.1:1"],
        &["run", "Hello.", "--server", "http://127.0.0.1:1"],
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, Some(4), "{done:?}");
        let words = "error: cannot reach the server at http://127.0.0.1:1: ";
        assert!(done.stderr.contains(words), "{done:?}");
        assert!(done.stderr.contains("hint: start one with `turnwire serve`"), "{done:?}");
        assert_eq!(done.stdout, "");
    }
}

#[test]
fn an_unknown_run_is_1_and_a_stranger_is_2() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    for arguments in
        [&["runs", "show", "run_x"][..], &["runs", "export", "run_x"], &["follow", "run_x"]]
    {
        let done = world.run(arguments);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains("Run with id 'run_x' not found."), "{done:?}");
    }
    let done = world.run(&["runs", "list", "--server", "ftp://example.com"]);
    assert_eq!(done.code, Some(2), "{done:?}");
}

/// The key is tried, saved for its server only, used without being named, and forgotten.
#[test]
fn a_key_is_saved_by_login_and_forgotten_by_logout() {
    let gateway = Gateway::start(&quick().with("TURNWIRE_API_KEYS", KEY), &DEMO);
    let world = client(&gateway);
    let refused = world.run(&["runs", "list"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("needs an API key"), "{refused:?}");
    assert!(
        refused.stderr.contains("hint: save one with `turnwire login --server "),
        "{refused:?}"
    );

    let wrong = piped(&world, &["login"], "wrong\n");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("refused the API key"), "{wrong:?}");
    let file = world.path().join(".config/turnwire/credentials.json");
    assert!(!file.exists(), "a key that does not work is not saved");

    let saved = piped(&world, &["login"], &format!("{KEY}\n"));
    assert_eq!(saved.code, Some(0), "{saved:?}");
    assert!(!saved.stderr.contains(KEY), "{saved:?}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(json(&world.run(&["runs", "list", "--json"]))["object"], "list");
    // The only server with a key need not be named.
    let home = world.path().display().to_string();
    assert_eq!(World::new().with("HOME", &home).run(&["runs", "list"]).code, Some(0));

    assert_eq!(world.run(&["logout"]).code, Some(0));
    assert_eq!(world.run(&["runs", "list"]).code, Some(2));
    assert!(!std::fs::read_to_string(&file).unwrap().contains(KEY));
}

/// A key that is typed is not on the screen.
#[test]
fn a_typed_key_has_no_echo() {
    let gateway = Gateway::start(&quick().with("TURNWIRE_API_KEYS", KEY), &DEMO);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["login"]);
    terminal.wait_for("API key for http://127.0.0.1:");
    terminal.press(format!("{KEY}\r").as_bytes());
    let (bytes, code) = terminal.finish();
    let written = String::from_utf8_lossy(&bytes);
    assert!(!written.contains(KEY), "{written}");
    assert_eq!(code, 0, "{written}");
    assert_eq!(world.with("TURNWIRE_API_KEY", "wrong").run(&["runs", "list"]).code, Some(2));
}

/// A server that redirects does not pass the key on.
#[test]
fn a_key_does_not_follow_a_redirect() {
    let thief = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/runs", thief.local_addr().unwrap());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    let location = to.clone();
    thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        let _ = connection.read(&mut [0; 4096]);
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\n");
        let _ = write!(connection, "{head}content-length: 0\r\n\r\n");
    });
    let (sender, robbed) = mpsc::channel();
    thread::spawn(move || sender.send(thief.accept().is_ok()));
    let world = World::new().with("TURNWIRE_API_KEY", KEY);
    let done = world.run(&["runs", "list", "--server", &address]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains(&format!("redirects to {to}")), "{done:?}");
    assert!(robbed.recv_timeout(Duration::from_millis(200)).is_err(), "the thief was asked");
}

/// The list has its filters, and is a table in a pipe and JSON for scripts.
#[test]
fn runs_are_listed_shown_and_cancelled() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    assert_eq!(world.run(&["runs", "list"]).stdout, "there are no such runs\n");
    let run_id = start_run(&world, "multiply 5 and 4");
    let other = start_run(&world, "multiply 6 and\n\u{1b}[31m7");
    let listed = world.run(&["runs", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{listed:?}");
    assert!(lines[0].starts_with("RUN "), "{listed:?}");
    assert!(lines[1].starts_with(&other) && lines[1].ends_with("multiply 6 and 7"), "{listed:?}");
    let fields: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(fields[..2], [&run_id, "done"], "{listed:?}");
    assert!(!listed.stdout.contains('\u{1b}'), "{listed:?}");

    let found = |arguments: &[&str]| {
        let page = json(&world.run(&[&["runs", "list", "--json"], arguments].concat()));
        page["data"].as_array().unwrap().len()
    };
    assert_eq!(found(&["--text", "6 AND"]), 1);
    assert_eq!(found(&["--status", "completed", "--tool", "multiply"]), 2);
    assert_eq!(found(&["--status", "failed"]), 0);
    assert_eq!(found(&["--limit", "1", "--oldest-first"]), 1);
    assert_eq!(found(&["--created-before", "2020-01-01T00:00:00Z"]), 0);
    let more = world.run(&["runs", "list", "--limit", "1"]);
    assert!(more.stdout.ends_with(&format!("more with --after {other}\n")), "{more:?}");
    let wrong = world.run(&["runs", "list", "--status", "lost"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");

    let shown = world.run(&["runs", "show", &run_id]);
    assert!(shown.stdout.contains("✓ demo.multiply  done"), "{shown:?}");
    assert!(shown.stdout.ends_with("\n5 times 4 is 20.\n"), "{shown:?}");
    assert_eq!(json(&world.run(&["runs", "show", &run_id, "--json"]))["run_id"], run_id);
    let over = world.run(&["runs", "cancel", &run_id]);
    assert_eq!(over.stdout, format!("{run_id} was over already\n"));
    assert_eq!(json(&world.run(&["runs", "cancel", &run_id, "--json"]))["done"], false);
}

/// 40 and 200 columns. No line is wider than the terminal.
#[test]
fn the_table_fits_the_terminal() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let question = format!("multiply 5 and 4{}", " please".repeat(12));
    let run_id = start_run(&world, &question);
    for cols in [40, 80, 200] {
        let terminal = Terminal::start_sized(&world, TURNWIRE, &["runs", "list"], cols);
        let (bytes, code) = terminal.finish();
        assert_eq!(code, 0);
        let screen = screen_of(&bytes, cols);
        let lines: Vec<&str> = screen.lines().collect();
        assert!(screen.contains(&run_id), "{screen}");
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(cols)), "{screen}");
        assert_eq!(lines.len(), 2, "one row, with its header or in two lines: {screen}");
        assert_eq!(
            screen.contains("please please …") || screen.contains('…'),
            cols < 200,
            "{screen}"
        );
    }
    let world = world.with("NO_COLOR", "1");
    let (bytes, _) = Terminal::start(&world, &["runs", "list"]).finish();
    assert!(!bytes.contains(&0x1b), "{}", String::from_utf8_lossy(&bytes));
}

/// A link is made, listed and revoked.
#[test]
fn a_run_is_shared() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let run_id = start_run(&world, "multiply 5 and 4");
    let made = world.run(&["runs", "share", &run_id, "--redact", "--expires", "2h"]);
    let link = format!("{}/#/shared/", gateway.url(""));
    assert!(made.stdout.starts_with(&link) && made.stdout.lines().count() == 1, "{made:?}");
    assert!(made.stderr.contains("without texts; revoke it as share_"), "{made:?}");
    let made = json(&world.run(&["runs", "share", &run_id, "--json"]));
    assert!(made["url"].as_str().unwrap().starts_with(&link), "{made}");
    assert_eq!(made["redact"], false);
    let listed = world.run(&["runs", "share", &run_id, "--list"]);
    assert_eq!(listed.stdout.matches("share_").count(), 2, "{listed:?}");
    assert!(listed.stdout.contains("withheld") && listed.stdout.contains("shown"), "{listed:?}");
    let share_id = made["share_id"].as_str().unwrap();
    let revoked = world.run(&["runs", "share", &run_id, "--revoke", share_id]);
    assert_eq!(revoked.stdout, format!("{share_id} does not work any more\n"));
    assert_eq!(world.run(&["runs", "share", &run_id, "--revoke", share_id]).code, Some(1));
    let listed = json(&world.run(&["runs", "share", &run_id, "--list", "--json"]));
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(world.run(&["runs", "share", &run_id, "--expires", "soon"]).code, Some(2));
}

/// A7: a call is approved from another terminal, without naming it.
#[test]
fn a_waiting_call_is_approved() {
    let server = quick().with_file("turnwire.toml", "[approvals]\npure = \"always\"\n");
    let gateway = Gateway::start(&server, &DEMO);
    let world = client(&gateway);
    for (arguments, mark) in [(&[][..], "✓"), (&["--deny", "--reason", "no"], "✗")] {
        let line = Line::open(&world, "multiply 5 and 4");
        // There is no terminal to ask at, so the run is left to others.
        let run_id = line.run_id();
        let done = line.running.finish();
        assert_eq!(done.code, Some(3), "{done:?}");
        assert!(done.stderr.contains(&format!("turnwire follow {run_id}")), "{done:?}");
        let done = world.run(&[&["runs", "approve", &run_id], arguments].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.starts_with(mark), "{done:?}");
        let followed = world.run(&["follow", &run_id]);
        assert!(followed.stderr.contains(&format!("{mark} demo.multiply")), "{followed:?}");
        let again = world.run(&["runs", "approve", &run_id]);
        assert_eq!(again.code, Some(1), "{again:?}");
    }
}
