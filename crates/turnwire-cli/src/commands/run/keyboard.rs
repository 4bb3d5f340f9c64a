//! Reads from the terminal on a separate thread. A read cannot be cancelled, and must not block the
//! run or Ctrl-C.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    process::Command,
    sync::mpsc as requests,
    thread,
};

use tokio::sync::mpsc;

#[derive(Debug)]
pub(super) enum Request {
    Line,
    /// This text, edited in the editor, or typed again if there is none.
    Edited(String),
}

/// The input; `None` if the terminal is closed or the editor failed.
pub(super) type Typed = Option<String>;

/// The controlling terminal of this process, independent of standard input.
#[derive(Debug)]
pub(super) struct Keyboard {
    requests: requests::Sender<Request>,
    typed: mpsc::Receiver<Typed>,
}

impl Keyboard {
    /// Opens the terminal; `None` if there is none. `editor` is the editor command.
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
        // If the thread has ended, `typed` returns `None`.
        let _ = self.requests.send(request);
    }

    /// Waits for input. Cancel safe.
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
