//! Standard output and standard error, where no terminal is.

use std::{fs::File, io::Read, process::Stdio};

use turnwire_contract::{Event, Item, RunOutcome};
use turnwire_surfaces::{Answer, Projection, Transcript, TranscriptFrame};

use crate::world::{Server, World, journal, timeless};

const MULTIPLY: [&str; 4] = ["run", "--model", "scripted", "multiply 5 and 4"];
const ANSWER: &str = "I will multiply 5 and 4. \n5 times 4 is 20.\n";

/// S0-13, S4-18: piped output is the answer alone, the status is plain lines with the tool's
/// parameters and the final state, and there is no escape code anywhere.
#[test]
fn piped_stdout_is_the_answer_alone() {
    let done = World::new().run(&MULTIPLY);
    assert_eq!(done.stdout, ANSWER);
    assert_eq!(
        timeless(&done.stderr),
        "• multiply 5 × 4  running\n✓ multiply 5 × 4  20  …s\ndone · …s · 1 tool · 30 tokens\n"
    );
    assert_eq!(done.code, Some(0));
}

/// S4-17: the first piece is there before the model has finished; it does not go on before the
/// test has seen it.
#[test]
fn the_answer_comes_while_the_model_still_speaks() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut running = world.start(&["run", "Greet me."]);
    let mut question = server.question();
    question.begin();
    question.say("H");
    running.stdout.wait_until("first byte", |seen| seen == b"H");
    question.say("ello");
    running.stdout.wait_until("second piece", |seen| seen == b"Hello");
    question.end();
    let done = running.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "Hello\n"));
}

#[test]
fn a_server_in_the_environment_is_asked_without_tools() {
    let server = Server::new();
    let world = World::new()
        .with("OPENAI_BASE_URL", &server.url())
        .with("OPENAI_API_KEY", "key_1")
        .with("TURNWIRE_MODEL", "tiny");
    let running = world.start(&["run", "--instructions", "Be brief.", "Greet me."]);
    let mut question = server.question();
    assert!(question.head.starts_with("POST /v1/chat/completions "), "{}", question.head);
    assert!(question.head.to_lowercase().contains("authorization: bearer key_1"));
    assert_eq!(question.body["model"], "tiny");
    assert_eq!(question.body["messages"][0]["content"], "Be brief.");
    assert_eq!(question.body["messages"][1]["content"], "Greet me.");
    assert!(question.body.get("tools").is_none(), "{}", question.body);
    question.begin();
    question.say("Hello.\n");
    question.end();
    assert_eq!(running.finish().stdout, "Hello.\n");
}

#[test]
fn json_is_the_whole_journal_and_nothing_else() {
    let done = World::new().run(&[&MULTIPLY[..], &["--json"]].concat());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let journal = journal(&done.stdout);
    assert!(matches!(journal.first().unwrap().event, Event::RunQueued { .. }));
    assert!(journal.last().unwrap().event.ends_the_run());
    assert_eq!(journal.iter().filter(|recorded| recorded.event.ends_the_run()).count(), 1);
    assert_eq!(Answer::of(&journal).text(), "5 times 4 is 20.");
    let mut transcript = Transcript::new();
    let frames = journal.iter().flat_map(|recorded| transcript.project(recorded));
    let texts = frames.filter_map(|frame| match frame {
        TranscriptFrame::Text(text) => Some(text),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), ANSWER.trim_end(), "the same run in both looks");
}

#[test]
fn quiet_is_the_answer_only() {
    let done = World::new().run(&[&MULTIPLY[..], &["--quiet"]].concat());
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), (ANSWER, ""));
}

#[test]
fn colours_can_be_had_in_a_pipe() {
    let done = World::new().run(&[&MULTIPLY[..], &["--color", "always"]].concat());
    assert_eq!(done.stdout, ANSWER, "never in the answer");
    assert!(done.stderr.contains("\u{1b}[32m✓\u{1b}[0m multiply"), "{}", done.stderr);
}

#[test]
fn the_final_answer_is_also_written_to_a_file() {
    let world = World::new();
    let done = world.run(&[&MULTIPLY[..], &["-o", "answer.txt"]].concat());
    assert_eq!(done.stdout, ANSWER);
    let kept = std::fs::read_to_string(world.path().join("answer.txt")).unwrap();
    assert_eq!(kept, "5 times 4 is 20.\n");
}

#[test]
fn a_dash_reads_the_question_from_stdin() {
    let world = World::new().with_file("question.txt", "multiply 6 and 7\n");
    let question = File::open(world.path().join("question.txt")).unwrap();
    let mut command = world.command(&["run", "--model", "scripted", "--json", "-"]);
    let output = command.stdin(Stdio::from(question)).output().unwrap();
    let journal = journal(&String::from_utf8(output.stdout).unwrap());
    let Event::RunQueued { request } = &journal[0].event else { panic!("{:?}", journal[0]) };
    assert_eq!(request.input, [Item::user("multiply 6 and 7\n")]);
    assert_eq!(Answer::of(&journal).text(), "6 times 7 is 42.");
}

/// `2>&1`: both streams in one place, and still no line is glued to another.
#[test]
fn answer_and_status_in_one_file_keep_their_lines() {
    let world = World::new();
    let path = world.path().join("both.txt");
    let file = File::options().append(true).create(true).open(&path).unwrap();
    let mut command = world.command(&MULTIPLY);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    assert!(command.status().unwrap().success());
    let mut both = String::new();
    File::open(&path).unwrap().read_to_string(&mut both).unwrap();
    assert_eq!(
        timeless(&both),
        "I will multiply 5 and 4. \n• multiply 5 × 4  running\n✓ multiply 5 × 4  20  …s\n5 times \
         4 is 20.\ndone · …s · 1 tool · 30 tokens\n"
    );
}

/// `turnwire run … | head -1`
#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut child = world.command(&["run", "Talk."]).spawn().unwrap();
    let mut question = server.question();
    question.begin();
    question.say("first\n");
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    drop(stdout);
    question.say("second\n");
    question.wait_for_hang_up();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_a_terminal_would_obey_is_taken_out() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let running = world.start(&["run", "Be evil."]);
    let mut question = server.question();
    question.begin();
    question.say("a\u{1b}]0;owned\u{7}b\u{1b}[");
    question.say("31mc\u{8}");
    question.end();
    assert_eq!(running.finish().stdout, "abc\n");
}

#[test]
fn a_log_is_written_to_stderr_when_asked_for() {
    let done = World::new().with("TURNWIRE_LOG", "info").run(&MULTIPLY);
    assert_eq!(done.stdout, ANSWER);
    assert!(done.stderr.contains("run finished"), "{}", done.stderr);
}

#[test]
fn a_run_that_fails_has_its_end_in_the_journal() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let running = world.start(&["run", "--json", "Hello."]);
    server.question().refuse("400 Bad Request", "too hot today");
    let done = running.finish();
    let journal = journal(&done.stdout);
    let Event::RunFinished { outcome: RunOutcome::Failed { failure }, .. } =
        &journal.last().unwrap().event
    else {
        panic!("{:?}", journal.last());
    };
    assert_eq!(failure.code, "model_rejected");
    assert_eq!(done.code, Some(1));
}
