//! What a person chooses on the command line: the model, who answers approvals, and how much is
//! shown of calls; and the keys that show more.

use serde_json::Value;

use crate::{
    follow::start_run,
    runs::client,
    serve::{DEMO, Gateway, quick},
    terminal::{Terminal, screen},
    world::{Server, World, timeless},
};

const MULTIPLY: &str = "multiply 5 and 4";
/// Plays three calls, of which one needs an approval and is not pure.
const STORY: &str = "Check the release and clean the old branch";

/// A world where a person must allow every call.
fn careful() -> World {
    quick().with_file("turnwire.toml", "[approvals]\npure = \"always\"\n")
}

/// A7: without a terminal the command line decides: `all` and `read-only` allow a pure tool,
/// `never` and a question that nobody hears do not.
#[test]
fn approvals_are_answered_by_the_command_line() {
    for (policy, is_allowed) in
        [("all", true), ("read-only", true), ("never", false), ("ask", false)]
    {
        let world = careful();
        let done = world.run(&["run", "--model", "scripted", "--approve", policy, MULTIPLY]);
        assert_eq!(done.code, Some(0), "{policy}: {done:?}");
        assert_eq!(done.stdout.contains("5 times 4 is 20."), is_allowed, "{policy}: {done:?}");
        assert_eq!(done.stderr.contains("denied"), !is_allowed, "{policy}: {done:?}");
    }
}

/// A7: the same on a server. A tool that is not pure is left to people by `read-only`, whatever its
/// server claims.
#[test]
fn approvals_on_a_server_are_answered_by_the_command_line() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    for (policy, code, ending) in [
        ("all", Some(0), "✓ git.delete_branch"),
        ("never", Some(0), "✗ git.delete_branch"),
        ("read-only", Some(3), "the run waits for a person"),
    ] {
        let done = world.run(&["run", "--approve", policy, STORY]);
        assert_eq!(done.code, code, "{policy}: {done:?}");
        assert!(done.stderr.contains(ending), "{policy}: {done:?}");
    }
    let waiting = world.run(&["runs", "list", "--status", "needs_input", "--json"]);
    let waiting: Value = serde_json::from_str(&waiting.stdout).expect(&waiting.stdout);
    let run_id = waiting["data"][0]["run_id"].as_str().unwrap();
    let followed = world.run(&["follow", run_id, "--approve", "all"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    assert!(followed.stderr.contains("✓ git.delete_branch"), "{followed:?}");
}

/// `--tools none` shows nothing of calls but their number, `full` also arguments and results.
#[test]
fn calls_are_shown_as_asked_for() {
    let shown = |how: &str| {
        let done = quick().run(&["run", "--model", "scripted", "--tools", how, MULTIPLY]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.contains("5 times 4 is 20."), "{done:?}");
        timeless(&done.stderr)
    };
    let [none, summary, full] = ["none", "summary", "full"].map(shown);
    assert!(!none.contains("multiply") && none.contains("1 tool"), "{none}");
    assert!(
        summary.contains("✓ multiply 5 × 4  20") && !summary.contains("arguments"),
        "{summary}"
    );
    let details = "  arguments of multiply\n    {\n      \"a\": 5,\n      \"b\": 4\n    }\n  \
                   result\n    20\n";
    assert!(full.contains("✓ multiply 5 × 4  20") && full.contains(details), "{full}");
}

/// A message on a server picks its model, in `run` and in `chat`.
#[test]
fn a_run_on_a_server_picks_its_model() {
    let (small, big) = (Server::new(), Server::new());
    let model = |name: &str, server: &Server| {
        let url = server.url();
        format!("[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\n")
    };
    let file = format!("{}{}", model("default", &small), model("big", &big));
    let serve =
        World::new().with("TURNWIRE_STORE_URL", "memory:").with_file("turnwire.toml", &file);
    let gateway = Gateway::start(&serve, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let world = client(&gateway);
    let running = world.start(&["run", "--model", "big", "Hello."]);
    let mut question = big.question();
    question.begin();
    question.say("I am big.");
    question.end();
    let done = running.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "I am big.\n"), "{done:?}");
    let mut terminal = Terminal::start(&world, &["chat", "--model", "big"]);
    terminal.wait_for("turnwire chat · ");
    terminal.say(b"Hello.\r");
    let mut question = big.question();
    question.begin();
    question.say("Big again.");
    question.end();
    terminal.wait_for("Big again.\n  done · ");
    terminal.say(b"\x04");
    assert_eq!(terminal.finish().1, 0);
}

/// `o` shows the last call in full, and `?` what the keys mean.
#[test]
fn keys_show_the_last_call_and_themselves() {
    let server = Server::new();
    let file = "[functions.pay]\ndescription = \"Pays.\"\nmethod = \"POST\"\n\
                url = \"http://127.0.0.1:1/\"\nparameters = { type = \"object\" }\n";
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let world = world.with_file("turnwire.toml", file);
    let mut terminal = Terminal::start(&world, &["run", "Pay."]);
    let mut question = server.question();
    question.begin();
    terminal.wait_for("• Working (");
    terminal.press(b"o");
    terminal.wait_for("no call has ended yet");
    question.call_with("pay", "{\"sum\":5}");
    let mut question = server.question();
    question.begin();
    terminal.press(b"?");
    terminal.wait_for("keys: esc or ctrl-c stops the run, o shows the last call in full");
    terminal.press(b"o");
    terminal.wait_for("arguments of pay");
    terminal.wait_for("no result");
    question.say("Not paid.");
    question.end();
    let (bytes, code) = terminal.finish();
    let shown = screen(&bytes);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("    {\n      \"sum\": 5\n    }\n  no result\n"), "{shown}");
    assert!(!shown.contains("Working"), "{shown}");
}

/// The exported journal is the one that is followed, event by event.
#[test]
fn a_journal_is_exported() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let run_id = start_run(&world, MULTIPLY);
    let exported = world.run(&["runs", "export", &run_id]);
    assert_eq!((exported.code, exported.stderr.as_str()), (Some(0), ""));
    assert_eq!(exported.stdout, world.run(&["follow", &run_id, "--json"]).stdout);
    assert!(exported.stdout.lines().last().unwrap().contains("run_finished"));
}
