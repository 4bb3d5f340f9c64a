//! The line editor, on a thread of its own, because reading from a terminal blocks.
//!
//! The thread reads one line at a time, and only when asked. Between lines the terminal belongs to
//! the run that is watched.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc as requests,
    thread,
};

use rustyline::{
    Cmd, ColorMode, Config, Editor, EventHandler, Helper, KeyCode, KeyEvent, Modifiers,
    Result as EditorResult,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use tokio::sync::mpsc;

use crate::{
    exit::{Problem, Result},
    watch::TypedAhead,
};

/// Number of lines that are remembered.
const MAX_HISTORY: usize = 1_000;
const FENCE: &str = "```";

/// What the person did.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, the end of a pipe, or a terminal that is gone.
    End,
}

#[derive(Debug)]
pub(super) struct LineEditor {
    /// The text that a line begins with.
    requests: requests::Sender<String>,
    typed: mpsc::Receiver<Typed>,
    /// Whether a line was asked for and not yet typed.
    is_asked: bool,
}

impl LineEditor {
    pub(super) fn open(history: Option<PathBuf>, prompt: &'static str) -> Result<Self> {
        let unusable =
            |why: String| Problem::failure(format!("the terminal cannot be used: {why}"));
        let (sender, requests) = requests::channel::<String>();
        let (answers, typed) = mpsc::channel(1);
        let work = move || {
            let Ok(mut editor) = editor(history.as_deref()) else { return };
            while let Ok(initial) = requests.recv() {
                let typed = read(&mut editor, prompt, &initial, history.as_deref());
                if answers.blocking_send(typed).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("editor".to_owned()).spawn(work);
        thread.map_err(|error| unusable(error.to_string()))?;
        Ok(Self { requests: sender, typed, is_asked: false })
    }

    /// Waits for a line. Cancel safe: a line that was begun is continued.
    pub(super) async fn line(&mut self, typed_ahead: &TypedAhead) -> Typed {
        if !self.is_asked {
            self.is_asked = self.requests.send(typed_ahead.take()).is_ok();
        }
        let typed = self.typed.recv().await.unwrap_or(Typed::End);
        self.is_asked = false;
        typed
    }
}

type ChatEditor = Editor<Multiline, FileHistory>;

fn editor(history: Option<&Path>) -> EditorResult<ChatEditor> {
    let config = Config::builder()
        .max_history_size(MAX_HISTORY)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .color_mode(ColorMode::Disabled)
        .bracketed_paste(true)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Multiline));
    let alt_enter = KeyEvent(KeyCode::Enter, Modifiers::ALT);
    editor.bind_sequence(alt_enter, EventHandler::Simple(Cmd::Newline));
    if let Some(path) = history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

fn read(editor: &mut ChatEditor, prompt: &str, initial: &str, history: Option<&Path>) -> Typed {
    match editor.readline_with_initial(prompt, (initial, "")) {
        Ok(line) => {
            if !line.trim().is_empty() && editor.add_history_entry(line.as_str()).unwrap_or(false) {
                keep(editor, history);
            }
            // The backslash only says that the line goes on.
            Typed::Line(line.replace("\\\n", "\n"))
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupted,
        Err(_) => Typed::End,
    }
}

/// Writes the history. A chat works without one.
fn keep(editor: &mut ChatEditor, history: Option<&Path>) {
    let Some(path) = history else { return };
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    if folder.is_ok() {
        let _ = editor.append_history(path);
    }
}

/// Decides when a message is complete.
#[derive(Debug)]
struct Multiline;

impl Helper for Multiline {}

impl Highlighter for Multiline {}

impl Completer for Multiline {
    type Candidate = String;
}

impl Hinter for Multiline {
    type Hint = String;
}

impl Validator for Multiline {
    fn validate(&self, context: &mut ValidationContext) -> EditorResult<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// A message goes on after a backslash and inside of a code block.
fn is_complete(input: &str) -> bool {
    let n_fences = input.lines().filter(|line| line.trim_start().starts_with(FENCE)).count();
    !input.ends_with('\\') && n_fences % 2 == 0
}

#[cfg(test)]
#[path = "editor_tests.rs"]
mod tests;
