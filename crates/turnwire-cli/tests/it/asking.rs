//! A person at the terminal is asked about calls; and what is piped in is part of the question.

use std::{io::Write, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::json;

use crate::{
    terminal::{Terminal, screen},
    world::{Server, TURNWIRE, World, timeless},
};

const MULTIPLY: [&str; 4] = ["run", "--model", "scripted", "multiply 5 and 4"];
/// What the person is asked, on a screen of eighty columns.
const CHOICES: &str = "[e]dit the arguments, [?] help:";

/// A world where a person must allow every call.
fn careful() -> World {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", "1");
    world.with_file("turnwire.toml", "[approvals]\npure = \"always\"\n")
}

/// The lines of the screen that are neither the question nor what was typed.
fn told(bytes: &[u8]) -> String {
    timeless(&screen(bytes))
}

/// A7: a person at the terminal is asked, and the call waits for the answer.
#[test]
fn yes_lets_the_call_happen() {
    let world = careful();
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.output.wait_until("the question", |bytes| {
        let screen = screen(bytes);
        screen.contains("? multiply wants to run\n  arguments: {\"a\":5,\"b\":4}\n")
            && !screen.contains("20")
    });
    terminal.answer(CHOICES, "y\r");
    let (bytes, code) = terminal.finish();
    let screen = told(&bytes);
    assert!(screen.contains("✓ multiply 5 × 4  20  …s\n5 times 4 is 20.\n"), "{screen}");
    assert!(!screen.contains("Working"), "{screen}");
    assert_eq!(code, 0);
}

/// A7: no is no, whatever else is typed before it, and its reason is told to the model.
#[test]
fn no_denies_with_its_reason() {
    let server = Server::new();
    let file = "[approvals]\nonce = \"always\"\npure = \"always\"\n[functions.pay]\n\
                description = \"Pays.\"\nmethod = \"POST\"\nurl = \"http://127.0.0.1:1/\"\n";
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let world = world.with_file("turnwire.toml", file);
    let mut terminal = Terminal::start(&world, &["run", "Pay."]);
    let mut question = server.question();
    question.begin();
    question.call("pay");
    terminal.answer(CHOICES, "perhaps\r");
    terminal.output.wait_until("help", |bytes| screen(bytes).contains("n not on a Friday"));
    terminal.answer(CHOICES, "n not on a Friday\r");
    let mut told = server.question();
    let messages = told.body["messages"].to_string();
    assert!(messages.contains("not on a Friday"), "{messages}");
    told.begin();
    told.say("Not paid.");
    told.end();
    let (bytes, code) = terminal.finish();
    let screen = screen(&bytes);
    assert!(screen.contains("pay  denied"), "{screen}");
    assert!(screen.contains("Not paid."), "{screen}");
    assert_eq!(code, 0);
}

/// A7: always is asked once.
#[test]
fn always_holds_for_the_run() {
    let server = Server::new();
    let file = "[approvals]\nonce = \"always\"\n[functions.pay]\ndescription = \"Pays.\"\n\
                method = \"POST\"\nurl = \"http://127.0.0.1:1/\"\n";
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let world = world.with_file("turnwire.toml", file);
    let mut terminal = Terminal::start(&world, &["run", "Pay."]);
    for n in 1..=2 {
        let mut question = server.question();
        question.begin();
        question.call("pay");
        if n == 1 {
            terminal.answer(CHOICES, "a\r");
        }
    }
    let mut last = server.question();
    last.begin();
    last.say("Done.");
    last.end();
    let (bytes, code) = terminal.finish();
    let screen = screen(&bytes);
    assert_eq!(screen.matches("wants to run").count(), 1, "{screen}");
    assert_eq!(screen.matches("✗ pay").count(), 2, "nobody listens there: {screen}");
    assert_eq!(code, 0);
}

/// A budget at its soft limit asks in words, whatever was allowed on the command line; yes goes on,
/// and no ends the run without asking the model again.
#[test]
fn a_budget_asks_and_says_why() {
    for (answer, expected_code) in [("y\r", 0), ("n\r", 1)] {
        let server = Server::new();
        let file = format!(
            "[models.m]\nkind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
             price = {{ input = 1, output = 1 }}\n[limits]\nask_cost = 0.75\nmax_cost = 1\n\
             [functions.pay]\ndescription = \"Pays.\"\nmethod = \"POST\"\n\
             url = \"http://127.0.0.1:1/\"\n",
            server.url()
        );
        let world = World::new().with_file("turnwire.toml", &file);
        let arguments = ["run", "--model", "m", "--approve", "all", "Pay."];
        let mut terminal = Terminal::start(&world, &arguments);
        let mut question = server.question();
        question.begin();
        question.use_tokens(800_000);
        question.call("pay");
        // There is no permission for a tool to give here.
        terminal.answer(CHOICES, "a\r");
        terminal.output.wait_until("help", |bytes| screen(bytes).contains("the run ends here"));
        terminal.answer(CHOICES, answer);
        if expected_code == 0 {
            let mut last = server.question();
            last.begin();
            last.say("Done.");
            last.end();
        }
        let (bytes, code) = terminal.finish();
        let screen = screen(&bytes);
        let words = "The run has used 0.80 of its budget of 1.00. Continue? A no ends the run.";
        assert!(screen.contains(words), "{screen}");
        assert_eq!(code, expected_code, "{screen}");
        assert_eq!(screen.contains("incomplete: its budget allows no more"), code == 1, "{screen}");
    }
}

/// A22: what a person decides on is shown as what it is. No character that is not seen, or that
/// changes the order of others, reaches the terminal; an editor gets the same arguments.
#[test]
fn nothing_is_hidden_in_what_a_person_decides_on() {
    let hidden = "alice\u{202e}gro.rekcatta\u{202c}\u{200b}\u{2066}c\u{2069}\u{e0041}\u{feff}";
    let shown = r"alice\u{202e}gro.rekcatta\u{202c}\u{200b}\u{2066}c\u{2069}\u{e0041}\u{feff}";
    let server = Server::new();
    let file = "[approvals]\nonce = \"always\"\n[functions.pay]\ndescription = \"Pays.\"\n\
                method = \"POST\"\nurl = \"http://127.0.0.1:1/\"\n";
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let world = world.with_file("turnwire.toml", file).with("PATH", "/usr/bin:/bin");
    let edited = world.path().join("edited");
    let editor = world.path().join("editor");
    let script = format!("#!/bin/sh\ncp \"$1\" {}\n", edited.display());
    std::fs::write(&editor, script).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let world = world.with("EDITOR", editor.to_str().unwrap());
    let mut terminal = Terminal::start_sized(&world, TURNWIRE, &["run", "Pay."], 200);
    let arguments = json!({ "body": { "to": hidden }, "path": hidden });
    let mut question = server.question();
    question.begin();
    question.call_with("pay", &arguments.to_string());
    terminal.answer(CHOICES, "e\r");
    let mut last = server.question();
    let messages = last.body["messages"].clone();
    last.begin();
    // The same characters may be part of what people write.
    last.say("\u{5e9}\u{200f} \u{6cc}\u{200c}\u{645}.");
    last.end();
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 0);
    let (before, answer) = std::str::from_utf8(&bytes).unwrap().rsplit_once('\u{5e9}').unwrap();
    let is_hidden = |character: &char| hidden.contains(*character) && !character.is_ascii();
    assert_eq!(before.chars().filter(is_hidden).collect::<Vec<_>>(), [' '; 0], "{before}");
    assert!(before.contains(shown), "{before}");
    assert!(answer.starts_with("\u{200f} \u{6cc}\u{200c}\u{645}."), "{answer:?}");
    let edited = std::fs::read_to_string(edited).unwrap();
    assert!(edited.is_ascii(), "{edited}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&edited).unwrap(), arguments);
    let sent = messages[1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(sent).unwrap(), arguments, "{messages}");
}

/// A7: the person may change the arguments, in an editor or by hand; what does not fit is asked for
/// again.
#[test]
fn arguments_can_be_edited() {
    let world = careful();
    let editor = world.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/5/6/' \"$2\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let world = world.with("PATH", "/usr/bin:/bin");
    let with_editor = world.with("EDITOR", &format!("{} --wait", editor.display()));
    let mut terminal = Terminal::start(&with_editor, &MULTIPLY);
    terminal.answer(CHOICES, "e\r");
    let (bytes, code) = terminal.finish();
    assert!(told(&bytes).contains("✓ multiply 6 × 4  24  …s\n"), "{}", told(&bytes));
    assert_eq!(code, 0);

    let world = careful();
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.answer(CHOICES, "e\r");
    terminal.answer("as JSON on one line:", "{\"a\": 7\r");
    terminal.output.wait_until("not JSON", |bytes| screen(bytes).contains("that is not JSON"));
    terminal.answer(CHOICES, "e\r");
    terminal.answer("as JSON on one line:", "{\"a\": \"seven\", \"b\": 4}\r");
    terminal.output.wait_until("misfit", |bytes| screen(bytes).contains("does not fit the tool"));
    terminal.answer(CHOICES, "e\r");
    terminal.answer("as JSON on one line:", "{\"a\": 7, \"b\": 4}\r");
    let (bytes, code) = terminal.finish();
    assert!(told(&bytes).contains("✓ multiply 7 × 4  28  …s\n"), "{}", told(&bytes));
    assert_eq!(code, 0);
}

/// A7: Ctrl-C at the question stops the run like anywhere else, and the end of the keyboard is a
/// no.
#[test]
fn a_question_can_be_left() {
    let world = careful();
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.answer(CHOICES, "\x03");
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 130, "{}", told(&bytes));
    assert!(!told(&bytes).contains('✓'), "{}", told(&bytes));

    let world = careful();
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.answer(CHOICES, "\x04");
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 0);
    assert!(told(&bytes).contains("multiply a=5 b=4  denied"), "{}", told(&bytes));
}

/// A7: scripts are not asked: where only the events are wanted, the answer is no.
#[test]
fn with_json_nobody_is_asked() {
    let (bytes, code) =
        Terminal::start(&careful(), &[&MULTIPLY[..], &["--json"]].concat()).finish();
    let written = String::from_utf8_lossy(&bytes);
    assert!(written.contains("there is nobody to ask"), "{written}");
    assert!(!written.contains("wants to run"), "{written}");
    assert_eq!(code, 0);
}

/// A7: with a question from a pipe, the person still answers at the terminal.
#[test]
fn the_person_answers_while_stdin_is_a_pipe() {
    let line = format!("echo 'multiply 5 and 4' | {TURNWIRE} run --model scripted");
    let world = careful();
    let mut terminal = Terminal::start_program(&world, "/bin/sh", &["-c", &line]);
    terminal.answer(CHOICES, "y\r");
    let (bytes, code) = terminal.finish();
    assert!(told(&bytes).contains("✓ multiply 5 × 4  20  …s\n"), "{}", told(&bytes));
    assert_eq!(code, 0);
}

/// What the model is asked when this is on standard input and these are the arguments.
fn asked(input: Stdio, text: &str, arguments: &[&str]) -> String {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut command = world.command(&[&["run"], arguments].concat());
    let mut child = command.stdin(input).spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).unwrap();
    }
    let mut question = server.question();
    let messages = question.body["messages"].clone();
    question.begin();
    question.say("Hm.");
    question.end();
    assert!(child.wait().unwrap().success());
    assert_eq!(messages.as_array().unwrap().len(), 1, "{messages}");
    messages[0]["content"].as_str().unwrap().to_owned()
}

/// What is piped in is the question, or comes before it.
#[test]
fn what_is_piped_in_is_asked() {
    let report = "# Report\n\nAll is well.\n";
    assert_eq!(asked(Stdio::piped(), report, &[]), report);
    assert_eq!(asked(Stdio::piped(), report, &["-"]), report);
    let both = "# Report\n\nAll is well.\n\nSum this up.";
    assert_eq!(asked(Stdio::piped(), report, &["Sum this up."]), both);
    let file = tempfile::tempdir().unwrap();
    std::fs::write(file.path().join("report.md"), report).unwrap();
    let open = || std::fs::File::open(file.path().join("report.md")).unwrap();
    assert_eq!(asked(open().into(), "", &["Sum this up."]), both);
    assert_eq!(asked(open().into(), "", &[]), report);
    assert_eq!(asked(Stdio::piped(), "", &["Alone."]), "Alone.");
    assert_eq!(asked(Stdio::null(), "", &["Alone."]), "Alone.");
}

/// Nothing at all is no question; a pipe that stays open is waited for, and the person is told.
#[test]
fn without_a_question_there_is_a_hint() {
    let world = World::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let done = world.run(&["run"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("the question is empty"), "{done:?}");
    let (bytes, code) = Terminal::start(&world, &["run"]).finish();
    assert_eq!(code, 2);
    assert!(screen(&bytes).contains("hint: for example: turnwire run"), "{}", screen(&bytes));
    let mut command = world.command(&["run", "Why?"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stderr = crate::world::Watched::new(child.stderr.take().unwrap());
    stderr.rest_of_line("reading standard input until it ends");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", json!(stderr.all()));
}
