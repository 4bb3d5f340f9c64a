//! Displays a run, one update at a time.

use std::{
    io::{self, Stdout, Write},
    sync::Arc,
};

use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{Projection, Transcript, TranscriptFrame, wire_json};

use super::{
    Colour, Connection, Look, Paint,
    answer::Answer,
    call_details::CallDetails,
    formatter::Formatter,
    live::Live,
    look::View,
    plain::{self, STOPPING},
    tell,
};
use crate::args::ToolsShown;

const NOTHING_ENDED: &str = "no call has ended yet";

#[derive(Debug)]
pub(crate) enum DisplayUpdate {
    /// The next event of the run.
    Event(Arc<RecordedEvent>),
    /// The run is being cancelled.
    Stopping,
    Tick,
    /// The connection to the server changed.
    Connection(Connection),
    /// Something to know about the display itself.
    Notice(String),
    /// Shows the arguments and the result of the last call that ended.
    LastCall,
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
    details: CallDetails,
    tools: ToolsShown,
    answer: Answer<Stdout>,
    status: Status,
    /// Updates during a question. They are displayed afterwards.
    deferred: Option<Vec<Deferred>>,
}

/// An update that waits for the end of a question.
#[derive(Debug)]
enum Deferred {
    Event(Arc<RecordedEvent>),
    Connection(Connection),
}

/// Display of everything except the answer.
#[derive(Debug)]
pub(crate) enum Status {
    Silent,
    Plain(Paint),
    Live {
        live: Live,
        paint: Paint,
        /// Formats the answer before it is written.
        formatter: Option<Formatter>,
    },
}

impl Screen {
    pub(crate) fn new(look: Look) -> Self {
        let Look { view, paint, shared, keys, is_formatted, tools, .. } = look;
        let status = match view {
            View::Json => return Self::Json(io::stdout()),
            View::Quiet => Status::Silent,
            View::Plain => Status::Plain(paint),
            View::Live => {
                let mut live = Live::new(paint, keys);
                live.draw();
                let formatter = is_formatted.then(|| Formatter::new(paint));
                Status::Live { live, paint, formatter }
            }
        };
        Self::Transcript(Box::new(TextDisplay {
            transcript: Transcript::default(),
            details: CallDetails::default(),
            tools,
            answer: Answer::new(io::stdout(), shared),
            status,
            deferred: None,
        }))
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
            (Self::Transcript(shown), DisplayUpdate::Connection(connection)) => {
                shown.connection(*connection)
            }
            (Self::Transcript(shown), DisplayUpdate::Notice(text)) => shown.notice(text),
            (Self::Transcript(shown), DisplayUpdate::LastCall) => shown.last_call(),
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
                shown.status.end_formatted(&mut shown.answer)?;
                shown.status.make_way();
                shown.answer.finish()
            }
        }
    }
}

impl TextDisplay {
    fn show(&mut self, recorded: &Arc<RecordedEvent>) -> io::Result<()> {
        if let Some(deferred) = &mut self.deferred {
            deferred.push(Deferred::Event(Arc::clone(recorded)));
            return Ok(());
        }
        let has_ended = self.details.note(recorded);
        for frame in self.transcript.project(recorded) {
            if self.tools != ToolsShown::None || !is_about_tool(&frame) {
                self.status.show(&mut self.answer, &frame)?;
            }
        }
        match self.details.last() {
            Some(details) if has_ended && self.tools == ToolsShown::Full => {
                self.status.details(&mut self.answer, details)
            }
            _ => Ok(()),
        }
    }

    /// Not during a question, which would be torn apart.
    fn last_call(&mut self) -> io::Result<()> {
        match self.details.last() {
            _ if self.deferred.is_some() => Ok(()),
            Some(details) => self.status.details(&mut self.answer, details),
            None => self.notice(NOTHING_ENDED),
        }
    }

    fn connection(&mut self, connection: Connection) -> io::Result<()> {
        if let Some(deferred) = &mut self.deferred {
            deferred.push(Deferred::Connection(connection));
            return Ok(());
        }
        self.status.connection(&mut self.answer, connection)
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        let frame = TranscriptFrame::Notice(text.to_owned());
        if self.deferred.is_some() {
            return Ok(());
        }
        self.status.show(&mut self.answer, &frame)
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
            self.status.end_formatted(&mut self.answer)?;
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
        deferred.iter().try_for_each(|update| match update {
            Deferred::Event(recorded) => self.show(recorded),
            Deferred::Connection(connection) => self.connection(*connection),
        })
    }
}

impl Status {
    fn show(&mut self, answer: &mut Answer<Stdout>, frame: &TranscriptFrame) -> io::Result<()> {
        match frame {
            TranscriptFrame::Text(text) => return self.text(answer, text),
            TranscriptFrame::Ended { .. } => {
                self.end_formatted(answer)?;
                self.make_way();
                answer.finish()?;
            }
            TranscriptFrame::ToolBegan { .. }
            | TranscriptFrame::ToolNoted { .. }
            | TranscriptFrame::ToolEnded { .. }
            | TranscriptFrame::Notice(_) => self.end_formatted(answer)?,
        }
        match self {
            Self::Silent => {}
            Self::Plain(paint) => {
                if let Some(line) = plain::line(frame, *paint) {
                    answer.end_open_line()?;
                    tell(&line);
                }
            }
            Self::Live { live, paint, .. } => {
                answer.end_open_line()?;
                show_live(live, frame, *paint);
            }
        }
        Ok(())
    }

    /// Writes lines about a call above the live block.
    fn details(&mut self, answer: &mut Answer<Stdout>, details: &str) -> io::Result<()> {
        self.end_formatted(answer)?;
        match self {
            Self::Silent => {}
            Self::Plain(paint) => {
                answer.end_open_line()?;
                tell(&paint.dim(details));
            }
            Self::Live { live, paint, .. } => {
                answer.end_open_line()?;
                live.erase();
                tell(&paint.dim(details));
                live.draw();
            }
        }
        Ok(())
    }

    /// Writes a piece of the answer. With a formatter, only blocks that are complete are written,
    /// and the live block shows the rest.
    fn text(&mut self, answer: &mut Answer<Stdout>, text: &str) -> io::Result<()> {
        let Self::Live { live, formatter: Some(formatter), .. } = self else {
            self.make_way();
            return answer.write(text);
        };
        if let Some(blocks) = formatter.push(text, live.width()) {
            live.erase();
            answer.write(&blocks)?;
        }
        live.set_preview(formatter.preview(live.width()));
        live.draw();
        Ok(())
    }

    /// Writes what is left of a formatted text, before anything else is displayed.
    fn end_formatted(&mut self, answer: &mut Answer<Stdout>) -> io::Result<()> {
        if let Self::Live { live, formatter: Some(formatter), .. } = self {
            live.set_preview(Vec::new());
            if let Some(rest) = formatter.finish(live.width()) {
                live.erase();
                answer.write(&rest)?;
            }
        }
        Ok(())
    }

    /// Tells that the connection is lost or back. While it is lost, only the headline of the live
    /// block counts the attempts.
    fn connection(
        &mut self,
        answer: &mut Answer<Stdout>,
        connection: Connection,
    ) -> io::Result<()> {
        let is_new = !matches!(connection, Connection::Lost { attempt: 2.., .. });
        let (colour, symbol) = match connection {
            Connection::Lost { .. } => (Colour::Yellow, "◌"),
            Connection::Back { .. } => (Colour::Green, "●"),
        };
        match self {
            Self::Silent => return Ok(()),
            Self::Plain(paint) if is_new => {
                answer.end_open_line()?;
                tell(&format!("{} {}", paint.colour(colour, symbol), connection.words()));
            }
            Self::Plain(_) => {}
            Self::Live { live, paint, .. } => {
                answer.end_open_line()?;
                live.erase();
                match connection {
                    Connection::Lost { .. } => live.set_problem(Some(connection.words())),
                    Connection::Back { .. } => {
                        live.set_problem(None);
                        tell(&format!("{} {}", paint.colour(colour, symbol), connection.words()));
                    }
                }
                live.draw();
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

fn is_about_tool(frame: &TranscriptFrame) -> bool {
    match frame {
        TranscriptFrame::ToolBegan { .. }
        | TranscriptFrame::ToolNoted { .. }
        | TranscriptFrame::ToolEnded { .. } => true,
        TranscriptFrame::Text(_) | TranscriptFrame::Notice(_) | TranscriptFrame::Ended { .. } => {
            false
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
