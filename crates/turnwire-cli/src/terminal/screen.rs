//! Displays a run, one update at a time.

use std::{
    io::{self, Stdout, Write},
    sync::Arc,
};

use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{Projection, Transcript, TranscriptFrame, wire_json};

use super::{
    Look, Paint,
    answer::Answer,
    live::Live,
    look::View,
    plain::{self, STOPPING},
    tell,
};

/// An update of the display.
#[derive(Debug)]
pub(crate) enum DisplayUpdate {
    /// The next event of the run.
    Event(Arc<RecordedEvent>),
    /// The run is being cancelled.
    Stopping,
    Tick,
    /// A question to the person. Other updates wait until it is closed.
    Question(String),
    QuestionClosed {
        /// Whether the person typed the answer, which ends the line.
        was_typed: bool,
    },
}

/// The only writer to both streams.
#[derive(Debug)]
pub(crate) enum Screen {
    /// Events as JSON, one per line.
    Json(Stdout),
    /// Text for people.
    Transcript(Box<TextDisplay>),
}

/// State of the text display.
#[derive(Debug)]
pub(crate) struct TextDisplay {
    transcript: Transcript,
    answer: Answer<Stdout>,
    status: Status,
    /// Events during a question. They are displayed afterwards.
    deferred: Option<Vec<Arc<RecordedEvent>>>,
}

/// Display of everything except the answer.
#[derive(Debug)]
pub(crate) enum Status {
    Silent,
    Plain(Paint),
    Live { live: Live, paint: Paint },
}

impl Screen {
    pub(crate) fn new(look: Look) -> Self {
        let Look { view, paint, shared, .. } = look;
        let status = match view {
            View::Json => return Self::Json(io::stdout()),
            View::Quiet => Status::Silent,
            View::Plain => Status::Plain(paint),
            View::Live => {
                let mut live = Live::new(paint);
                live.draw();
                Status::Live { live, paint }
            }
        };
        let (transcript, answer) = (Transcript::default(), Answer::new(io::stdout(), shared));
        Self::Transcript(Box::new(TextDisplay { transcript, answer, status, deferred: None }))
    }

    /// Displays an update. Fails only if the answer cannot be written.
    pub(crate) fn show(&mut self, update: &DisplayUpdate) -> io::Result<()> {
        match (self, update) {
            (Self::Json(out), DisplayUpdate::Event(recorded)) => {
                let line = wire_json(recorded) + "\n";
                out.write_all(line.as_bytes())?;
                out.flush()
            }
            (Self::Json(_), _) => Ok(()),
            (Self::Transcript(shown), DisplayUpdate::Event(recorded)) => shown.show(recorded),
            (Self::Transcript(shown), DisplayUpdate::Stopping) => shown.stop(),
            (Self::Transcript(shown), DisplayUpdate::Question(text)) => shown.ask(text),
            (Self::Transcript(shown), DisplayUpdate::QuestionClosed { was_typed }) => {
                shown.go_on(*was_typed)
            }
            (Self::Transcript(shown), DisplayUpdate::Tick) => {
                if let (Status::Live { live, .. }, None) = (&mut shown.status, &shown.deferred) {
                    live.tick();
                }
                Ok(())
            }
        }
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Json(out) => out.flush(),
            Self::Transcript(shown) => {
                shown.status.make_way();
                shown.answer.finish()
            }
        }
    }
}

impl TextDisplay {
    fn show(&mut self, recorded: &Arc<RecordedEvent>) -> io::Result<()> {
        if let Some(deferred) = &mut self.deferred {
            deferred.push(Arc::clone(recorded));
            return Ok(());
        }
        let mut frames = self.transcript.project(recorded).into_iter();
        frames.try_for_each(|frame| self.status.show(&mut self.answer, &frame))
    }

    fn stop(&mut self) -> io::Result<()> {
        match (&mut self.status, &self.deferred) {
            // Drawn after the question.
            (Status::Live { live, .. }, Some(_)) => {
                live.stop();
                Ok(())
            }
            (status, _) => status.stop(&mut self.answer),
        }
    }

    /// Prints a question. The cursor stays behind it for the input.
    fn ask(&mut self, text: &str) -> io::Result<()> {
        if self.deferred.is_none() {
            self.deferred = Some(Vec::new());
            self.status.make_way();
            self.answer.end_open_line()?;
        }
        let mut stderr = io::stderr().lock();
        // If the question cannot be written, it is not answered, and the call is denied.
        let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
        Ok(())
    }

    fn go_on(&mut self, was_typed: bool) -> io::Result<()> {
        if !was_typed {
            tell("");
        }
        let deferred = self.deferred.take().unwrap_or_default();
        deferred.iter().try_for_each(|recorded| self.show(recorded))
    }
}

impl Status {
    fn show(&mut self, answer: &mut Answer<Stdout>, frame: &TranscriptFrame) -> io::Result<()> {
        match frame {
            TranscriptFrame::Text(text) => {
                self.make_way();
                return answer.write(text);
            }
            TranscriptFrame::Ended { .. } => {
                self.make_way();
                answer.finish()?;
            }
            TranscriptFrame::ToolBegan { .. }
            | TranscriptFrame::ToolNoted { .. }
            | TranscriptFrame::ToolEnded { .. }
            | TranscriptFrame::Notice(_) => {}
        }
        match self {
            Self::Silent => {}
            Self::Plain(paint) => {
                if let Some(line) = plain::line(frame, *paint) {
                    answer.end_open_line()?;
                    tell(&line);
                }
            }
            Self::Live { live, paint } => {
                answer.end_open_line()?;
                show_live(live, frame, *paint);
            }
        }
        Ok(())
    }

    fn stop(&mut self, answer: &mut Answer<Stdout>) -> io::Result<()> {
        match self {
            Self::Silent => return Ok(()),
            Self::Plain(_) => {
                answer.end_open_line()?;
                tell(STOPPING);
            }
            Self::Live { live, .. } => {
                answer.end_open_line()?;
                live.stop();
                live.draw();
            }
        }
        Ok(())
    }

    /// Erases the live block before anything is written to standard output.
    fn make_way(&mut self) {
        if let Self::Live { live, .. } = self {
            live.erase();
        }
    }
}

/// Final lines go above the block, others into it.
fn show_live(live: &mut Live, frame: &TranscriptFrame, paint: Paint) {
    match frame {
        TranscriptFrame::ToolBegan { call_id, title, label } => live.begin(call_id, title, label),
        TranscriptFrame::ToolNoted { call_id, title, label, note } => {
            live.note(call_id, title, label, note);
        }
        TranscriptFrame::ToolEnded { call_id, .. } => live.end(call_id),
        TranscriptFrame::Text(_) | TranscriptFrame::Notice(_) | TranscriptFrame::Ended { .. } => {}
    }
    match frame {
        TranscriptFrame::ToolBegan { .. } | TranscriptFrame::ToolNoted { .. } => live.draw(),
        TranscriptFrame::ToolEnded { .. } | TranscriptFrame::Notice(_) => {
            live.erase();
            tell(&plain::line(frame, paint).unwrap_or_default());
            live.draw();
        }
        TranscriptFrame::Ended { .. } => {
            live.erase();
            tell(&format!("  {}", plain::line(frame, paint).unwrap_or_default()));
        }
        TranscriptFrame::Text(_) => {}
    }
}
