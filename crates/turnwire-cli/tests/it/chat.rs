//! `turnwire chat`, in a terminal and in a pipe, against a server and in this process.

use std::{io::Write, process::Stdio};

use crate::{
    runs::client,
    serve::{DEMO, Gateway, quick},
    terminal::{Terminal, screen, screen_of},
    world::{Done, Server, TURNWIRE, World, send_signal, timeless},
};

const MULTIPLY: &[u8] = b"multiply 5 and 4\r";
const PROMPT: &str = "\n›";

/// A gateway whose model says what the test tells it to.
fn scripted_gateway(server: &Server) -> Gateway {
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let world = world.with("TURNWIRE_STORE_URL", "memory:");
    Gateway::start(&world, &["serve", "--json", "--listen", "127.0.0.1:0"])
}

/// A chat in this process, with a home and a store of its own.
fn local() -> World {
    let world = quick();
    let home = world.path().display().to_string();
    world.with("HOME", &home).with("TURNWIRE_STORE_URL", "sqlite://chat.db")
}

impl Terminal {
    /// Waits until a line can be typed, and types it.
    pub(crate) fn say(&mut self, line: &[u8]) {
        self.output.wait_until("a prompt", |bytes| screen(bytes).trim_end().ends_with('›'));
        self.press(line);
    }
}

/// Runs a chat whose lines come from a pipe.
fn piped(world: &World, arguments: &[&str], lines: &str) -> Done {
    let mut command = world.command(&[&["chat"], arguments].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Done { code: output.status.code(), stdout, stderr }
}

/// The conversation id in what a chat says at its end.
fn conversation_in(text: &str) -> String {
    let rest = text.split_once("turnwire chat --resume ").expect(text).1;
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Messages and answers follow each other, and the conversation can be continued.
#[test]
fn a_chat_goes_back_and_forth_and_on_another_day() {
    for server in [None, Some(Gateway::start(&quick(), &DEMO))] {
        let (world, model) = match &server {
            Some(gateway) => (client(gateway), &[][..]),
            None => (local(), &["--model", "scripted"][..]),
        };
        let chat = [&["chat"], model].concat();
        let mut terminal = Terminal::start(&world, &chat);
        terminal.wait_for("turnwire chat · ");
        terminal.say(MULTIPLY);
        terminal.wait_for("5 times 4 is 20.\n  done");
        terminal.say(b"/unknown\r");
        terminal.wait_for("there is no /unknown; /help shows what there is");
        terminal.say(b"multiply 6 and 7\r");
        terminal.wait_for("6 times 7 is 42.\n  done");
        terminal.say(b"\x04");
        let (bytes, code) = terminal.finish();
        let shown = timeless(&screen(&bytes));
        assert_eq!(code, 0, "{shown}");
        assert!(
            shown.contains(
                "› multiply 5 and 4\nI will multiply 5 and 4.\n✓ demo.multiply 5 × 4  20  …s\n5 \
                 times 4 is 20.\n  done · …s · 1 tool"
            ),
            "{shown}"
        );
        assert!(!shown.contains("Working"), "{shown}");
        let conversation = conversation_in(&shown);
        for resume in [&["--resume"][..], &["--resume", &conversation]] {
            let arguments = [&chat[..], resume].concat();
            let mut terminal = Terminal::start(&world, &arguments);
            terminal.wait_for("› multiply 6 and 7\n");
            terminal.wait_for("6 times 7 is 42.\n");
            terminal.say(b"/quit\r");
            let (bytes, code) = terminal.finish();
            assert_eq!(code, 0);
            assert_eq!(conversation_in(&screen(&bytes)), conversation);
        }
    }
}

/// Several lines are one message, and the arrow keys bring messages back, also the next day.
#[test]
fn the_editor_has_lines_and_a_history() {
    let server = Server::new();
    let gateway = scripted_gateway(&server);
    let world = client(&gateway);
    let answer = || {
        let mut question = server.question();
        let messages = question.body["messages"].as_array().unwrap().clone();
        question.begin();
        question.say("Fine.");
        question.end();
        messages.last().unwrap()["content"].as_str().unwrap().to_owned()
    };
    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.say(b"one\\\rtwo\x1b\rthree\r");
    assert_eq!(answer(), "one\ntwo\nthree");
    terminal.wait_for("done · ");
    terminal.say(b"\x1b[200~pasted\nlines\x1b[201~\r");
    assert_eq!(answer(), "pasted\nlines");
    terminal.output.wait_until("end", |bytes| screen(bytes).matches("done · ").count() == 2);
    terminal.say(b"\x04");
    assert_eq!(terminal.finish().1, 0);

    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.say(b"\x1b[A\r");
    assert_eq!(answer(), "pasted\nlines");
    terminal.wait_for("done · ");
    terminal.say(b"\x04");
    assert_eq!(terminal.finish().1, 0);
    let history = world.path().join(".local/state/turnwire/chat_history");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&history).unwrap().permissions(),
    );
    assert_eq!(mode & 0o077, 0, "only its owner reads what was written");
}

/// Markdown is formatted while it streams, and nothing of it can act on the terminal.
#[test]
fn an_answer_is_formatted_and_harmless() {
    let server = Server::new();
    let gateway = scripted_gateway(&server);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.say(b"Show me.\r");
    let mut question = server.question();
    question.begin();
    question.say("# Title\n\nSome **bo");
    // The block in progress is shown as it is written.
    terminal.wait_for("Title\n\nSome **bo\n• Working (");
    question.say("ld** text.\n\n- one\n- two\n\n```\ncode &#27;[31m\u{1b}]0;evil\u{7}\n```\n\n");
    terminal.wait_for("Some bold text.\n");
    question.say("| a | b |\n|---|---|\n| 1 | &#27;]8;;http://evil&#7;2 |\n");
    question.end();
    terminal.wait_for("done · ");
    terminal.say(b"\x04");
    let (bytes, code) = terminal.finish();
    let shown = screen(&bytes);
    assert_eq!(code, 0, "{shown}");
    let expected = "› Show me.\nTitle\n\nSome bold text.\n\n• one\n• two\n\n  code &#27;[31m\n\na │ \
                    b\n──┼─────────────────\n1 │ ]8;;http://evil2\n";
    assert!(shown.contains(expected), "{shown}");
    let written = String::from_utf8_lossy(&bytes);
    assert!(written.contains("\u{1b}[1mbold\u{1b}[0m"), "{written:?}");
    for evil in ["\u{1b}]", "\u{7}", "\u{1b}[31m"] {
        assert!(!written.contains(evil), "{evil:?} in {written:?}");
    }
}

/// Esc stops the answer and not the chat; Ctrl-B leaves it to the server.
#[test]
fn keys_stop_an_answer_or_leave_it() {
    let slow = World::new().with("TURNWIRE_DEMO_PACE_MS", "0");
    let gateway = Gateway::start(&slow.with("TURNWIRE_DEMO_TOOL_MS", "3600000"), &DEMO);
    let world = client(&gateway);
    let mut terminal = Terminal::start(&world, &["chat"]);
    terminal.say(MULTIPLY);
    terminal.wait_for("demo.multiply 5 × 4  running");
    // What is typed meanwhile is there at the next prompt, and can be edited.
    terminal.press(b"multiply 6 and 8\x7f7 \x1b[D\xc3\xa9");
    terminal.press(b"\x1b");
    terminal.wait_for("■ demo.multiply 5 × 4  stopped");
    terminal
        .output
        .wait_until("the text", |bytes| screen(bytes).trim_end().ends_with("› multiply 6 and 7 é"));
    terminal.press(b"\x03");
    terminal.wait_for("ctrl-d or /quit leaves");
    terminal.say(MULTIPLY);
    terminal.wait_for("demo.multiply 5 × 4  running");
    terminal.press(b"\x02");
    let (bytes, code) = terminal.finish();
    let shown = screen_of(&bytes, 200);
    assert_eq!(code, 0, "{shown}");
    let rest = shown.split_once("detached: turnwire follow ").expect(&shown).1;
    let run_id = rest.split_whitespace().next().unwrap();
    // The run is still there for whoever comes back to the conversation.
    let mut terminal = Terminal::start(&world, &["chat", "--resume"]);
    terminal.wait_for("demo.multiply 5 × 4  running");
    assert_eq!(world.run(&["runs", "cancel", run_id]).code, Some(0));
    terminal.wait_for("stopped");
    terminal.say(b"\x04");
    assert_eq!(terminal.finish().1, 0);
}

/// A7: a call that needs an approval waits for the person at the terminal.
#[test]
fn approvals_are_asked_for_in_the_chat() {
    let world = local().with_file("turnwire.toml", "[approvals]\npure = \"always\"\n");
    let mut terminal = Terminal::start(&world, &["chat", "--model", "scripted"]);
    terminal.say(MULTIPLY);
    terminal.answer("[e]dit the arguments, [?] help:", "n not today\r");
    terminal.wait_for("demo.multiply a=5 b=4  denied: not today");
    terminal.say(MULTIPLY);
    terminal.answer("[e]dit the arguments, [?] help:", "y\r");
    terminal.wait_for("✓ demo.multiply 5 × 4  20");
    terminal.say(b"\x04");
    assert_eq!(terminal.finish().1, 0);
    // Without a store there is nothing to continue.
    let world = quick();
    let mut terminal = Terminal::start(&world, &["chat", "--model", "scripted"]);
    terminal.say(MULTIPLY);
    terminal.wait_for("done · ");
    terminal.say(b"\x04");
    let (bytes, _) = terminal.finish();
    assert!(!screen(&bytes).contains("--resume"), "{}", screen(&bytes));
}

/// Plain for pipes, screen readers and terminals that can do nothing.
#[test]
fn a_plain_chat_has_no_escape_codes() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let world = client(&gateway);
    let done = piped(&world, &[], "multiply 5 and 4\n/new\nmultiply 6 and 7\n");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stdout,
        "I will multiply 5 and 4. \n5 times 4 is 20.\nI will multiply 6 and 7. \n6 times 7 is 42.\n"
    );
    assert!(done.stderr.contains("✓ demo.multiply 6 × 7  42"), "{done:?}");
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");

    for (name, value) in [("TERM", "dumb"), ("TURNWIRE_A11Y", "1"), ("NO_COLOR", "1")] {
        let world = client(&gateway).with(name, value);
        let mut terminal = Terminal::start(&world, &["chat"]);
        terminal.output.wait_until("a prompt", |bytes| screen(bytes).trim_end().ends_with("you:"));
        terminal.press(MULTIPLY);
        terminal.wait_for("5 times 4 is 20.\n");
        terminal.wait_for("done · ");
        terminal.output.wait_until("a prompt", |bytes| screen(bytes).trim_end().ends_with("you:"));
        terminal.press(b"/quit\r");
        let (bytes, code) = terminal.finish();
        assert_eq!(code, 0);
        let shown = screen(&bytes);
        assert!(shown.contains("• demo.multiply 5 × 4  running\n"), "{name}: {shown}");
        assert!(!shown.contains("Working"), "{name}: {shown}");
        if name == "TERM" {
            assert!(!bytes.contains(&0x1b), "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

/// 40 and 200 columns, and a terminal that changes its size while an answer streams.
#[test]
fn a_chat_fits_its_terminal() {
    let server = Server::new();
    let gateway = scripted_gateway(&server);
    let world = client(&gateway);
    let words = "word ".repeat(30);
    for cols in [40, 200] {
        let mut terminal = Terminal::start_sized(&world, TURNWIRE, &["chat"], cols);
        terminal
            .output
            .wait_until("a prompt", |bytes| screen_of(bytes, cols).trim_end().ends_with('›'));
        terminal.press(b"Go.\r");
        let mut question = server.question();
        question.begin();
        question.say(&words);
        terminal
            .output
            .wait_until("a preview", |bytes| screen_of(bytes, cols).contains("word word"));
        terminal.resize(60);
        question.say("\n\nThe end of it.");
        question.end();
        terminal.output.wait_until("a prompt after the end", |bytes| {
            let written = String::from_utf8_lossy(bytes);
            written.rsplit_once("done · ").is_some_and(|(_, rest)| rest.contains('›'))
        });
        terminal.press(b"/quit\r");
        let (bytes, code) = terminal.finish();
        assert_eq!(code, 0);
        let written = String::from_utf8_lossy(&bytes);
        let last = written.rsplit_once("word word").unwrap().1;
        assert!(last.contains("The end of it.\r\n"), "{written:?}");
    }
}

#[test]
fn a_chat_that_cannot_start_says_why() {
    let world = World::new();
    let done = world.run(&["chat", "--server", "http://127.0.0.1:1", "--resume"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    let done = world.run(&["chat", "--server", "http://127.0.0.1:1", "--config", "x"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let done = world.run(&["chat"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("no model is configured"), "{done:?}");
    let gateway = Gateway::start(&quick(), &DEMO);
    let done = client(&gateway).run(&["chat", "--resume", "conv_none"]);
    assert_eq!(done.code, Some(1), "{done:?}");
}

/// SIGTERM at the prompt ends the chat, and the terminal is as it was.
#[test]
fn a_signal_at_the_prompt_restores_the_terminal() {
    let world = local();
    let mut terminal = Terminal::start(&world, &["chat", "--model", "scripted"]);
    let usual_mode = terminal.usual_mode();
    terminal.wait_for(PROMPT);
    assert_ne!(terminal.mode(), usual_mode, "the editor has the terminal");
    send_signal(terminal.pid(), "TERM");
    let mode = terminal.mode_at_the_end();
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 143, "{}", screen(&bytes));
    assert_eq!(mode, usual_mode);
}
