//! Reads from the terminal on a separate thread, so that it blocks neither the run nor Ctrl-C.
//!
//! While there is a question, whole lines are read, as a shell does. Between questions single keys
//! are read, without echo: Esc and Ctrl-B, and letters if nobody takes what is typed ahead. Both
//! ways wait with `poll`, so that a question can be withdrawn and the terminal given back at any
//! time. Signals of the terminal stay on, so Ctrl-C is a signal here as everywhere.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::AsFd,
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    process::Command,
    sync::{Arc, Mutex, PoisonError, mpsc as requests},
    thread::{self, JoinHandle},
};

use nix::{
    libc::O_NONBLOCK,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{self, FlushArg, LocalFlags, SetArg, Termios},
    unistd::{getpgrp, tcgetpgrp},
};
use tokio::sync::mpsc;

use super::input::{Input, Key, Line, Request};

/// Time to tell the Esc key from the start of another key, in milliseconds.
const ESCAPE_WAIT_MS: u16 = 30;
/// How often a process in the background checks whether it has the terminal back, in milliseconds.
const BACKGROUND_WAIT_MS: u16 = 250;
/// How often the mode of the terminal is checked, which a shell changes while the process is
/// stopped, in milliseconds.
const MODE_CHECK_MS: u16 = 1_000;
const ESCAPE: u8 = 0x1b;
const CTRL_B: u8 = 0x02;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x7f;
/// Maximum number of queued inputs.
const MAX_QUEUED: usize = 16;

/// Text that was typed between questions, for whoever reads from the terminal next.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedAhead(Arc<Mutex<Vec<u8>>>);

impl TypedAhead {
    /// Returns the text, once.
    pub(crate) fn take(&self) -> String {
        let typed = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&typed).into_owned()
    }

    fn note(&self, byte: u8) {
        let mut typed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match byte {
            BACKSPACE => {
                // All bytes of the last character.
                while typed.pop().is_some_and(|byte| (0x80..0xc0).contains(&byte)) {}
            }
            0..0x20 => {}
            _ => typed.push(byte),
        }
    }
}

#[derive(Debug)]
pub(crate) struct KeyboardOptions {
    pub(crate) editor: Option<String>,
    /// Whether keys are read between questions.
    pub(crate) reads_keys: bool,
    /// Where text goes that is typed between questions; letters are keys without it.
    pub(crate) typed_ahead: Option<TypedAhead>,
}

/// The controlling terminal of this process, independent of standard input. It is restored when
/// this is dropped.
#[derive(Debug)]
pub(crate) struct Keyboard {
    requests: Option<requests::Sender<Request>>,
    waker: UnixStream,
    input: mpsc::Receiver<Input>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Opens the terminal; `None` if there is none.
    pub(crate) fn open(options: KeyboardOptions) -> Option<Self> {
        // Ctrl-C discards what was typed, so a terminal that is ready may have nothing to read.
        let mut options_of_file = File::options();
        let terminal = options_of_file.read(true).custom_flags(O_NONBLOCK).open("/dev/tty").ok()?;
        let usual_mode = termios::tcgetattr(&terminal).ok()?;
        let (waker, woken) = UnixStream::pair().ok()?;
        woken.set_nonblocking(true).ok()?;
        let (sender, requests) = requests::channel();
        let (output, input) = mpsc::channel(MAX_QUEUED);
        let reader = TerminalReader {
            typed: Vec::new(),
            terminal,
            usual_mode,
            woken,
            requests,
            output,
            options,
            reads_keys_now: false,
        };
        let thread = thread::Builder::new().name("keyboard".to_owned());
        let thread = thread.spawn(move || reader.run()).ok()?;
        Some(Self { requests: Some(sender), waker, input, thread: Some(thread) })
    }

    pub(crate) fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // If the thread has ended, `next` returns the end of the input.
            let _ = requests.send(request);
        }
        self.wake();
    }

    /// Waits for input. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        self.input.recv().await
    }

    fn wake(&self) {
        let _ = (&self.waker).write_all(b"!");
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.requests = None;
        self.input.close();
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The mode of the terminal, restored when this is dropped.
#[derive(Debug)]
pub(crate) struct TerminalMode {
    terminal: File,
    mode: Termios,
}

impl TerminalMode {
    /// Remembers the mode; `None` if there is no terminal.
    pub(crate) fn save() -> Option<Self> {
        let terminal = File::open("/dev/tty").ok()?;
        let mode = termios::tcgetattr(&terminal).ok()?;
        Some(Self { terminal, mode })
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        if tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp()) {
            let _ = termios::tcsetattr(&self.terminal, SetArg::TCSANOW, &self.mode);
        }
    }
}

struct TerminalReader {
    terminal: File,
    /// Mode of the terminal before it was opened here.
    usual_mode: Termios,
    woken: UnixStream,
    requests: requests::Receiver<Request>,
    output: mpsc::Sender<Input>,
    options: KeyboardOptions,
    /// The beginning of a line.
    typed: Vec<u8>,
    /// Whether the terminal is in the mode for single keys.
    reads_keys_now: bool,
}

/// What the reader waited for.
enum WaitResult {
    Request,
    Input,
    Nothing,
}

/// What came of reading a line.
enum LineRead {
    /// The line; none if the terminal is closed.
    Line(Option<String>),
    Unfinished,
}

impl TerminalReader {
    fn run(mut self) {
        let mut open = None;
        while let Some(next) = self.step(open) {
            open = next;
        }
        self.set_key_mode(false);
    }

    /// Waits for a request or for input. `open` is the number of the open request; the next one is
    /// returned, or nothing at the end.
    #[expect(clippy::option_option, reason = "the outer one ends the loop")]
    fn step(&mut self, open: Option<u64>) -> Option<Option<u64>> {
        self.set_key_mode(open.is_none());
        match self.wait(open.is_some()) {
            WaitResult::Request => self.take_requests(open),
            WaitResult::Input => {
                let input = match open {
                    Some(request) => match self.line() {
                        LineRead::Unfinished => return Some(open),
                        LineRead::Line(text) => Some(Input::Line(Line { request, text })),
                    },
                    None => self.key().map(Input::Key),
                };
                if let Some(input) = input {
                    self.output.blocking_send(input).ok()?;
                }
                Some(None)
            }
            WaitResult::Nothing => Some(open),
        }
    }

    #[expect(clippy::option_option, reason = "the outer one ends the loop")]
    fn take_requests(&mut self, mut open: Option<u64>) -> Option<Option<u64>> {
        // Each byte is one wake-up; the requests are counted by their channel.
        let _ = (&self.woken).read(&mut [0; 64]);
        loop {
            match self.requests.try_recv() {
                Ok(Request::Line(request)) => open = Some(request),
                Ok(Request::Edited(request, text)) => match self.options.editor.clone() {
                    None => open = Some(request),
                    Some(editor) => {
                        self.set_key_mode(false);
                        let text = edited(&editor, &text).ok();
                        let line = Input::Line(Line { request, text });
                        self.output.blocking_send(line).ok()?;
                        open = None;
                    }
                },
                Ok(Request::Withdrawn) => {
                    open = None;
                    self.typed.clear();
                    // What was typed so far must not answer another question.
                    let _ = termios::tcflush(&self.terminal, FlushArg::TCIFLUSH);
                }
                Err(requests::TryRecvError::Empty) => return Some(open),
                Err(requests::TryRecvError::Disconnected) => return None,
            }
        }
    }

    fn wait(&self, has_question: bool) -> WaitResult {
        let reads = has_question || self.reads_keys_now;
        let may_read = reads && self.is_in_foreground();
        let mut both = [
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN),
        ];
        let n_polled = if may_read { 2 } else { 1 };
        let wants_terminal = has_question || self.options.reads_keys;
        let timeout = match (wants_terminal, may_read) {
            (false, _) => PollTimeout::NONE,
            (true, false) => PollTimeout::from(BACKGROUND_WAIT_MS),
            (true, true) => PollTimeout::from(MODE_CHECK_MS),
        };
        let polled = poll(both.get_mut(..n_polled).unwrap_or_default(), timeout);
        let is_ready = |fd: Option<&PollFd>| fd.and_then(PollFd::any).unwrap_or(false);
        // Requests first: what was typed after a question appeared is its answer.
        match polled {
            Ok(_) if is_ready(both.first()) => WaitResult::Request,
            Ok(_) if may_read && is_ready(both.get(1)) => WaitResult::Input,
            Ok(_) | Err(_) => WaitResult::Nothing,
        }
    }

    /// Whether this process may use the terminal. Otherwise reading from it would stop the process.
    fn is_in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp())
    }

    fn set_key_mode(&mut self, keys: bool) {
        let keys = keys && self.options.reads_keys;
        if keys == self.reads_keys_now && !(keys && self.edits_lines()) {
            return;
        }
        if !self.is_in_foreground() {
            return;
        }
        let mut mode = self.usual_mode.clone();
        if keys {
            mode.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        }
        if termios::tcsetattr(&self.terminal, SetArg::TCSANOW, &mode).is_ok() {
            self.reads_keys_now = keys;
        }
    }

    /// Whether the terminal is in its usual mode.
    fn edits_lines(&self) -> bool {
        let mode = termios::tcgetattr(&self.terminal);
        mode.is_ok_and(|mode| mode.local_flags.contains(LocalFlags::ICANON))
    }

    fn line(&mut self) -> LineRead {
        let mut piece = [0; 1024];
        loop {
            match self.terminal.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return LineRead::Unfinished,
                Ok(0) | Err(_) if self.typed.is_empty() => return LineRead::Line(None),
                Ok(0) | Err(_) => break,
                Ok(n_bytes) => self.typed.extend(piece.get(..n_bytes).unwrap_or_default()),
            }
            // The end of input is a byte like others if it was typed before the mode was changed.
            if let Some(end) = self.typed.iter().position(|byte| *byte == CTRL_D) {
                self.typed.truncate(end);
                if self.typed.is_empty() {
                    return LineRead::Line(None);
                }
                break;
            }
            if self.typed.ends_with(b"\n") {
                break;
            }
        }
        let line = std::mem::take(&mut self.typed);
        LineRead::Line(Some(String::from_utf8_lossy(&line).trim().to_owned()))
    }

    /// Reads keys. Returns the first one that means something.
    fn key(&mut self) -> Option<Key> {
        let mut bytes = [0; 64];
        let n_bytes = match self.terminal.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Ok(0) | Err(_) => {
                // The terminal is gone, and would be ready to be read for ever.
                self.options.reads_keys = false;
                self.reads_keys_now = false;
                return None;
            }
            Ok(n_bytes) => n_bytes,
        };
        let mut bytes = bytes.get(..n_bytes)?.to_vec();
        if bytes.last() == Some(&ESCAPE) && self.has_more() {
            // The rest of an arrow key or the like.
            let mut rest = [0; 16];
            let n_bytes = self.terminal.read(&mut rest).unwrap_or(0);
            bytes.extend(rest.get(..n_bytes)?);
        }
        first_key(&bytes, self.options.typed_ahead.as_ref())
    }

    fn has_more(&self) -> bool {
        let mut terminal = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
        poll(&mut terminal, PollTimeout::from(ESCAPE_WAIT_MS)).is_ok_and(|n_ready| n_ready > 0)
    }
}

/// The first key that means something. Esc starts the sequences of other keys, too. Text is kept.
fn first_key(mut bytes: &[u8], typed_ahead: Option<&TypedAhead>) -> Option<Key> {
    loop {
        bytes = match bytes {
            [] => return None,
            [CTRL_B, ..] => return Some(Key::CtrlB),
            [ESCAPE] | [ESCAPE, ESCAPE, ..] => return Some(Key::Escape),
            [ESCAPE, b'[' | b'O', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
                rest.get(end? + 1..)?
            }
            // A key with Alt.
            [ESCAPE, _, rest @ ..] => rest,
            [byte, rest @ ..] => {
                match (typed_ahead, byte) {
                    (Some(typed_ahead), byte) => typed_ahead.note(*byte),
                    (None, b'o') => return Some(Key::Open),
                    (None, b'?') => return Some(Key::Help),
                    (None, _) => {}
                }
                rest
            }
        };
    }
}

/// Opens `text` in the editor. As in Git, the editor command may have arguments.
fn edited(editor: &str, text: &str) -> io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("turnwire-").suffix(".json").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let terminal = || File::options().read(true).write(true).open("/dev/tty");
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg(editor)
        .arg(file.path())
        .stdin(terminal()?)
        .stdout(terminal()?)
        .stderr(terminal()?)
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the editor has failed"));
    }
    std::fs::read_to_string(file.path())
}

#[cfg(test)]
#[path = "keyboard_tests.rs"]
mod tests;
