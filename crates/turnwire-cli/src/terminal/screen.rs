//! Shows a run, one piece of news at a time.

use std::{
    io::{self, Stdout, Write},
    sync::Arc,
};

use turnwire_contract::Recorded;
use turnwire_surfaces::{Projection, Transcript, TranscriptFrame};

use super::{
    Look, Paint,
    answer::Answer,
    live::Live,
    look::View,
    plain::{self, STOPPING},
    tell,
};

/// Something that may change what is shown.
#[derive(Debug)]
pub(crate) enum News {
    /// The next event of the run.
    Event(Arc<Recorded>),
    /// The run was asked to stop.
    Stopping,
    /// Time has passed.
    Tick,
}

/// Writes to both streams; nobody else does while there is one.
#[derive(Debug)]
pub(crate) enum Screen {
    /// The events as they are, a line each.
    Json(Stdout),
    /// What a person reads.
    Transcript { transcript: Box<Transcript>, answer: Answer<Stdout>, status: Status },
}

/// Everything but the answer.
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
        let (transcript, answer) = (Box::default(), Answer::new(io::stdout(), shared));
        Self::Transcript { transcript, answer, status }
    }

    /// Shows it. The only error is that the answer could not be written.
    pub(crate) fn show(&mut self, news: &News) -> io::Result<()> {
        match (self, news) {
            (Self::Json(out), News::Event(recorded)) => {
                let mut line = serde_json::to_vec(recorded)?;
                line.push(b'\n');
                out.write_all(&line)?;
                out.flush()
            }
            (Self::Json(_), News::Stopping | News::Tick) => Ok(()),
            (Self::Transcript { transcript, answer, status }, News::Event(recorded)) => {
                let mut frames = transcript.project(recorded).into_iter();
                frames.try_for_each(|frame| status.show(answer, &frame))
            }
            (Self::Transcript { answer, status, .. }, News::Stopping) => status.stop(answer),
            (Self::Transcript { status, .. }, News::Tick) => {
                if let Status::Live { live, .. } = status {
                    live.tick();
                }
                Ok(())
            }
        }
    }

    /// Leaves everything as it should stay.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Json(out) => out.flush(),
            Self::Transcript { answer, status, .. } => {
                status.make_way();
                answer.finish()
            }
        }
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
                    answer.make_room()?;
                    tell(&line);
                }
            }
            Self::Live { live, paint } => {
                answer.make_room()?;
                show_live(live, frame, *paint);
            }
        }
        Ok(())
    }

    fn stop(&mut self, answer: &mut Answer<Stdout>) -> io::Result<()> {
        match self {
            Self::Silent => return Ok(()),
            Self::Plain(_) => {
                answer.make_room()?;
                tell(STOPPING);
            }
            Self::Live { live, .. } => {
                answer.make_room()?;
                live.stop();
                live.draw();
            }
        }
        Ok(())
    }

    /// Before anything is written to standard output, what is redrawn is gone.
    fn make_way(&mut self) {
        if let Self::Live { live, .. } = self {
            live.erase();
        }
    }
}

/// What is final goes above the block, what is not into it.
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
