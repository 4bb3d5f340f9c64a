//! The binary in a terminal of its own: what a person sees, and that nothing stays behind.

use std::{
    fs::File,
    io::Write,
    num::NonZero,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command},
};

use nix::{
    pty::{Winsize, openpty},
    sys::termios::{LocalFlags, tcgetattr},
};

use crate::world::{Server, TURNWIRE, Watched, World, timeless};

const ROWS: u16 = 24;
const COLS: u16 = 80;
const MULTIPLY: [&str; 4] = ["run", "--model", "scripted", "multiply 5 and 4"];
/// Long enough for a few turns of the spinner.
const TOOL_MS: &str = "600";
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

pub(crate) struct Terminal {
    pub(crate) output: Watched,
    pub(crate) keyboard: File,
    child: Child,
    /// Kept open, because a terminal that nobody has open forgets its mode.
    slave: Option<OwnedFd>,
    /// The mode before the program was started.
    usual_mode: LocalFlags,
}

impl Terminal {
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        Self::start_program(world, TURNWIRE, arguments)
    }

    pub(crate) fn start_program(world: &World, program: &str, arguments: &[&str]) -> Self {
        Self::start_sized(world, program, arguments, COLS)
    }

    /// A terminal with this many columns.
    pub(crate) fn start_sized(world: &World, program: &str, arguments: &[&str], cols: u16) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        // Copies are closed in children, the originals are not.
        let [slave, master] = [pair.slave, pair.master].map(|fd| fd.try_clone().unwrap());
        let usual_mode = mode_of(&slave);
        // A session of its own, with this as its terminal: the keyboard sends signals.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments).current_dir(world.path());
        command.env_clear();
        command.env("TERM", "xterm-256color");
        command.env("TURNWIRE_DEMO_PACE_MS", "1");
        command.envs(world.variables().iter().cloned());
        for connect in [Command::stdin, Command::stdout, Command::stderr] {
            connect(&mut command, slave.try_clone().unwrap());
        }
        let child = command.spawn().unwrap();
        let keyboard = File::from(master);
        let output = Watched::new(keyboard.try_clone().unwrap());
        Self { output, keyboard, child, slave: Some(slave), usual_mode }
    }

    pub(crate) fn resize(&self, cols: u16) {
        let slave = self.slave.as_ref().unwrap().try_clone().unwrap();
        let resized = Command::new("stty").args(["cols", &cols.to_string()]).stdin(slave).status();
        assert!(resized.unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The mode of the terminal: whether it edits lines, echoes keys, and makes signals of them.
    pub(crate) fn mode(&self) -> LocalFlags {
        mode_of(&self.keyboard)
    }

    /// The mode before the program was started.
    pub(crate) fn usual_mode(&self) -> LocalFlags {
        self.usual_mode
    }

    /// The mode that the program leaves behind.
    pub(crate) fn mode_at_the_end(&mut self) -> LocalFlags {
        self.child.wait().unwrap();
        self.mode()
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    /// Waits until this is on the screen.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.output.wait_until(text, |bytes| screen(bytes).contains(text));
    }

    /// Waits for a question, and types the answer.
    pub(crate) fn answer(&mut self, question: &str, answer: &str) {
        self.output.wait_until(question, |bytes| screen(bytes).trim_end().ends_with(question));
        self.keyboard.write_all(answer.as_bytes()).unwrap();
    }

    /// Everything that was written, and the exit code.
    pub(crate) fn finish(mut self) -> (Vec<u8>, i32) {
        let code = self.child.wait().unwrap().code().expect("no signal ends it");
        self.slave = None;
        (self.output.all_bytes(), code)
    }
}

fn mode_of(terminal: &impl AsFd) -> LocalFlags {
    tcgetattr(terminal).unwrap().local_flags
}

/// What is on the screen after `bytes`.
pub(crate) fn screen(bytes: &[u8]) -> String {
    screen_of(bytes, COLS)
}

/// What is on a screen with this many columns.
pub(crate) fn screen_of(bytes: &[u8], cols: u16) -> String {
    let [rows, columns] = [ROWS, cols].map(|size| NonZero::new(size).unwrap());
    let mut parser = vt100::Parser::new(rows, columns, 0);
    parser.process(bytes);
    let screen = parser.screen().contents();
    screen.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

fn place_of(text: &str, bytes: &[u8]) -> usize {
    let place = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    place.unwrap_or_else(|| panic!("no {text} in {}", String::from_utf8_lossy(bytes)))
}

/// S0-13, S4-18: the tool spins with its parameters while it works, ends with its mark and its
/// result, and nothing of the spinner stays.
#[test]
fn a_tool_spins_and_then_stays_with_its_mark() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", TOOL_MS);
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.output.wait_until("spinner", |bytes| {
        let screen = screen(bytes);
        let row = screen.lines().find(|line| line.contains("multiply 5 × 4  running"));
        row.is_some_and(|row| row.trim_start().starts_with(SPINNER))
            && screen.contains("• Working (")
            && screen.contains("s · ctrl-c to stop)")
    });
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 0);
    assert_eq!(
        timeless(&screen(&bytes)),
        "I will multiply 5 and 4.\n✓ multiply 5 × 4  20  …s\n5 times 4 is 20.\n  done · …s · 1 \
         tool · 30 tokens\n"
    );
    let green_mark = "\u{1b}[32m✓\u{1b}[0m multiply";
    assert!(String::from_utf8_lossy(&bytes).contains(green_mark), "success is green");
}

/// S0-13: whenever a piece of the answer is written, the spinner is off the screen.
#[test]
fn the_spinner_is_gone_before_the_answer_goes_on() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", TOOL_MS);
    let (bytes, _) = Terminal::start(&world, &MULTIPLY).finish();
    for text in ["I will", "times "] {
        let before = &bytes[..place_of(text, &bytes)];
        let written = String::from_utf8_lossy(before);
        assert!(written.contains("Working"), "it was there before `{text}`");
        let screen = screen(before);
        assert!(!screen.contains("Working") && !screen.contains(SPINNER), "{text}:\n{screen}");
    }
}

/// S0-13: `NO_COLOR` is plain: no colours, no animation, not one escape code.
#[test]
fn no_color_has_no_escape_codes() {
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", "1").with(name, value);
        let (bytes, code) = Terminal::start(&world, &MULTIPLY).finish();
        assert_eq!(code, 0);
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(
            timeless(&text.replace("\r\n", "\n")),
            "I will multiply 5 and 4. \n• multiply 5 × 4  running\n✓ multiply 5 × 4  20  …s\n5 \
             times 4 is 20.\ndone · …s · 1 tool · 30 tokens\n"
        );
    }
}

/// S0-13: failure has a mark of its own.
#[test]
fn a_tool_that_fails_has_a_cross() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", "1");
    let huge = format!("1{}", "0".repeat(200));
    let question = format!("multiply {huge} and {huge}");
    let (bytes, code) =
        Terminal::start(&world, &["run", "--model", "scripted", &question]).finish();
    let screen = screen(&bytes);
    assert!(
        screen.contains("✗ multiply 1e+200 × 1e+200  failed: the product is too big"),
        "{screen}"
    );
    assert!(screen.contains("1 tool, 1 failed"), "{screen}");
    assert!(!screen.contains('✓'), "{screen}");
    assert!(String::from_utf8_lossy(&bytes).contains("\u{1b}[31m✗\u{1b}[0m"), "failure is red");
    assert_eq!(code, 0, "the model went on without it");
}

#[test]
fn a_run_that_fails_leaves_the_error_and_no_spinner() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut terminal = Terminal::start(&world, &["run", "hi"]);
    let question = server.question();
    terminal.output.wait_until("thinking", |bytes| screen(bytes).contains("• Working ("));
    question.refuse("400 Bad Request", "too hot today");
    let (bytes, code) = terminal.finish();
    let screen = screen(&bytes);
    assert!(screen.contains("error: the model's provider rejected the request"), "{screen}");
    assert!(screen.contains("hint: "), "{screen}");
    assert!(!screen.contains("Working"), "{screen}");
    assert_eq!(code, 1);
}

/// The terminal writes `^C` where the cursor is; that must not leave a row behind either.
#[test]
fn ctrl_c_stops_the_tool_and_leaves_nothing_behind() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", "3600000");
    let mut terminal = Terminal::start(&world, &MULTIPLY);
    terminal.output.wait_until("tool", |bytes| screen(bytes).contains("multiply 5 × 4  running"));
    terminal.keyboard.write_all(b"\x03").unwrap();
    let (bytes, code) = terminal.finish();
    assert_eq!(code, 130);
    let before = screen(&bytes[..place_of("Stopping…", &bytes)]);
    assert_eq!(before, "I will multiply 5 and 4.\n■\n", "the block begins at the left edge");
    assert_eq!(
        timeless(&screen(&bytes)),
        "I will multiply 5 and 4.\n■ multiply 5 × 4  stopped  …s\n  stopped · …s · 1 tool · 13 \
         tokens\n"
    );
}

/// S4-17: on a terminal too, each piece is there before the next one comes.
#[test]
fn the_answer_streams_into_the_terminal() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let mut terminal = Terminal::start(&world, &["run", "Greet me."]);
    let mut question = server.question();
    question.begin();
    question.say("Hello, ");
    terminal.output.wait_until("first piece", |bytes| screen(bytes) == "Hello,\n");
    question.say("world.");
    terminal.output.wait_until("second piece", |bytes| screen(bytes) == "Hello, world.\n");
    question.end();
    let (bytes, _) = terminal.finish();
    assert_eq!(timeless(&screen(&bytes)), "Hello, world.\n  done · …s · 0 tokens\n");
}

#[test]
fn plain_has_colours_and_no_animation() {
    let world = World::new().with("TURNWIRE_DEMO_TOOL_MS", TOOL_MS);
    let (bytes, _) = Terminal::start(&world, &[&MULTIPLY[..], &["--plain"]].concat()).finish();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\u{1b}[36m•\u{1b}[0m multiply 5 × 4  running"), "{text:?}");
    assert!(!text.contains("Working") && !text.contains(SPINNER), "{text:?}");
}

/// S4-X: an answer that is longer than the terminal is written whole and once, below a tool that
/// was at work.
#[test]
fn an_answer_longer_than_the_terminal_is_whole() {
    let server = Server::new();
    let world = World::new().with("OPENAI_BASE_URL", &server.url());
    let terminal = Terminal::start(&world, &["run", "Count."]);
    let mut question = server.question();
    question.begin();
    let lines: Vec<String> = (1..=200).map(|n| format!("line {n} of the answer")).collect();
    for line in &lines {
        question.say(&format!("{line}\n"));
    }
    question.end();
    let (bytes, code) = terminal.finish();
    let written = String::from_utf8(bytes.clone()).unwrap();
    let told: Vec<&str> = written.lines().filter(|line| line.contains(" of the answer")).collect();
    let told: Vec<&str> = told.iter().map(|line| line.rsplit('\u{1b}').next().unwrap()).collect();
    assert_eq!(told.len(), lines.len(), "{told:?}");
    for (told, line) in told.iter().zip(&lines) {
        assert!(told.ends_with(line), "{told:?} is not {line:?}");
    }
    let screen = screen(&bytes);
    assert!(screen.contains("line 200 of the answer\n  done"), "{screen}");
    assert!(!screen.contains("Working"), "{screen}");
    assert_eq!(code, 0);
}
