//! What a script learns: 0, 1, 2, 130, 143; and what a person is told with it.

use turnwire_contract::{Completeness, Event, RunOutcome};

use crate::world::{Done, Server, World, journal};

const HOUR_MS: &str = "3600000";

fn check_problem(done: &Done, code: i32, expected: &[&str]) {
    assert_eq!(done.code, Some(code), "{}", done.stderr);
    for line in expected {
        assert!(done.stderr.contains(line), "no `{line}` in:\n{}", done.stderr);
    }
}

#[test]
fn a_run_that_fails_is_1_and_says_how_to_go_on() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let running = world.start(&["run", "--model", "tiny", "Hello."]);
    server.question().refuse("404 Not Found", "model `tiny` not found");
    let done = running.finish();
    let hint = format!("hint: `tiny` was asked for at {}", server.url());
    let error = "error: the provider has no model with this name\n";
    check_problem(&done, 1, &[error, &hint, "--model NAME"]);
    assert_eq!(done.stdout, "");
}

#[test]
fn a_run_that_meets_a_limit_is_1_and_names_it() {
    let arguments = ["run", "--model", "scripted", "--max-turns", "1", "multiply 5 and 4"];
    let done = World::new().run(&arguments);
    let error = "error: incomplete: the model was asked as often as allowed\n";
    check_problem(&done, 1, &[error, "hint: the limit is 1; raise it with --max-turns N\n"]);
}

#[test]
fn wrong_usage_is_2() {
    let world = World::new();
    let done = world.run(&["run", "--model", "scripted"]);
    check_problem(&done, 2, &["error: the question is empty", "hint: for example: turnwire run"]);
    let done = world.run(&["run", "--modell", "scripted", "hi"]);
    check_problem(&done, 2, &["--modell", "--model"]);
    let done = world.run(&["run", "--model", "scripted", " "]);
    check_problem(&done, 2, &["error: the question is empty", "hint: "]);
    let done = world.run(&["run", "--model", "scripted", "-o", "no/such/folder", "hi"]);
    check_problem(&done, 2, &["error: --output no/such/folder: its directory does not exist"]);
    let done = world.run(&["run", "hi"]);
    check_problem(&done, 2, &["error: no model is configured", "--model scripted"]);
}

#[test]
fn help_and_version_are_0_and_go_to_stdout() {
    let world = World::new();
    let done = world.run(&["run", "--help"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.contains("turnwire run --model scripted"), "{}", done.stdout);
    let done = world.run(&["--version"]);
    assert_eq!(done.stdout, format!("turnwire {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(done.code, Some(0));
}

/// Ctrl-C while the model hangs in the middle of a message.
#[test]
fn an_interrupt_is_130_and_closes_every_block() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut running = world.start(&["run", "--json", "Talk."]);
    let mut question = server.question();
    question.begin();
    question.say("Once upon");
    running.stdout.wait_for("Once upon");
    running.signal("INT");
    question.wait_for_hang_up();
    let done = running.finish();
    assert_eq!((done.code, done.stderr.as_str()), (Some(130), ""));
    let ends: Vec<Event> =
        journal(&done.stdout).into_iter().map(|recorded| recorded.event).collect();
    let is_closed = |event: &Event| {
        matches!(event, Event::MessageFinished { text, completeness: Completeness::Cut, .. }
            if text == "Once upon")
    };
    assert_eq!(ends.iter().filter(|event| is_closed(event)).count(), 1, "{ends:?}");
    assert!(ends.iter().any(|event| matches!(event, Event::TurnFinished { turn: 1, .. })));
    let last = ends.last().unwrap();
    assert!(matches!(last, Event::RunFinished { outcome: RunOutcome::Cancelled, .. }), "{last:?}");
}

#[test]
fn an_interrupt_stops_the_tool_at_work() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", HOUR_MS);
    let mut running = world.start(&["run", "--model", "scripted", "multiply 5 and 4"]);
    running.stderr.wait_for("• multiply 5 × 4  running");
    running.signal("INT");
    let done = running.finish();
    check_problem(&done, 130, &["■ stopping…\n", "■ multiply 5 × 4  stopped", "stopped · "]);
    assert_eq!(done.stdout, "I will multiply 5 and 4. \n");
}

#[test]
fn a_sigterm_is_143() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", HOUR_MS);
    let mut running = world.start(&["run", "--model", "scripted", "--json", "multiply 5 and 4"]);
    running.stdout.wait_for("tool_started");
    running.signal("TERM");
    let done = running.finish();
    assert_eq!(done.code, Some(143));
    let events = journal(&done.stdout);
    let n_ends =
        events.iter().filter(|recorded| matches!(recorded.event, Event::ToolFinished { .. }));
    assert_eq!(n_ends.count(), 1);
}

/// Nobody reads the answer, so the terminal is held up and the run cannot be shown to its end.
#[test]
fn a_second_interrupt_leaves_at_once() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut child = world.command(&["run", "Talk a lot."]).spawn().unwrap();
    let mut question = server.question();
    question.begin();
    question.say(&"much ".repeat(200_000));
    let mut stdout = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut [0; 4]).unwrap();
    crate::world::send_signal(child.id(), "INT");
    question.wait_for_hang_up();
    crate::world::send_signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
