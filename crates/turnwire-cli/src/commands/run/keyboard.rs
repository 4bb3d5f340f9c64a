//! The person at the terminal, who types on a thread of its own: reading a terminal cannot be
//! given up once it has begun, and must not hold up the run or Ctrl-C.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    process::Command,
    sync::mpsc as requests,
    thread,
};

use tokio::sync::mpsc;

/// What is asked of the person.
#[derive(Debug)]
pub(super) enum Request {
    /// A line.
    Line,
    /// This text, as it should be: in the editor, or typed anew if there is none.
    Edited(String),
}

/// What the person typed: nothing if that cannot be known any more.
pub(super) type Typed = Option<String>;

/// The keyboard of the terminal that this process belongs to, whatever its standard input is.
#[derive(Debug)]
pub(super) struct Keyboard {
    requests: requests::Sender<Request>,
    typed: mpsc::Receiver<Typed>,
}

impl Keyboard {
    /// Nothing, if there is no terminal. `editor` is the program that texts are edited with.
    pub(super) fn open(editor: Option<String>) -> Option<Self> {
        let terminal = File::open("/dev/tty").ok()?;
        let (sender, requests) = requests::channel::<Request>();
        let (answers, typed) = mpsc::channel(1);
        let work = move || {
            let mut lines = BufReader::new(terminal);
            while let Ok(request) = requests.recv() {
                let typed = match (request, &editor) {
                    (Request::Edited(text), Some(editor)) => edited(editor, &text).ok(),
                    (Request::Line | Request::Edited(_), _) => line(&mut lines),
                };
                if answers.blocking_send(typed).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("keyboard".to_owned()).spawn(work).ok()?;
        Some(Self { requests: sender, typed })
    }

    pub(super) fn ask(&self, request: Request) {
        // A thread that is gone gives no answer, and that is noticed.
        let _ = self.requests.send(request);
    }

    /// Waits for what was asked for. Nothing is lost when it is not waited for to the end.
    pub(super) async fn typed(&mut self) -> Typed {
        self.typed.recv().await.flatten()
    }
}

fn line(lines: &mut impl BufRead) -> Typed {
    let mut line = String::new();
    match lines.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_owned()),
    }
}

/// Lets the person edit `text`, as programs like Git do it: the editor may have arguments.
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
