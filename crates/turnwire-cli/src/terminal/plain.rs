//! The status as lines: for pipes, logs, screen readers and whoever wants no animation. The
//! live block uses the same lines for what is final.

use turnwire_contract::RunOutcome;
use turnwire_surfaces::{Mark, TranscriptFrame};

use super::{Colour, Paint};

/// What is said when a run is being stopped.
pub(super) const STOPPING: &str = "■ stopping…";

/// The frame as a line, painted. How a run failed is left to the error message that follows.
pub(super) fn line(frame: &TranscriptFrame, paint: Paint) -> Option<String> {
    let line = match frame {
        TranscriptFrame::Ended { outcome, totals, .. } if has_failed(outcome) => totals.words(),
        _ => frame.plain_line()?,
    };
    Some(match frame {
        TranscriptFrame::Ended { .. } => paint.dim(&line),
        TranscriptFrame::ToolEnded { mark, .. } => with_symbol(&line, colour_of(*mark), paint),
        TranscriptFrame::Notice(_) => with_symbol(&line, Colour::Yellow, paint),
        TranscriptFrame::Text(_)
        | TranscriptFrame::ToolBegan { .. }
        | TranscriptFrame::ToolNoted { .. } => with_symbol(&line, Colour::Cyan, paint),
    })
}

fn has_failed(outcome: &RunOutcome) -> bool {
    match outcome {
        RunOutcome::Failed { .. } | RunOutcome::Incomplete { .. } => true,
        RunOutcome::Completed | RunOutcome::Cancelled => false,
    }
}

fn colour_of(mark: Mark) -> Colour {
    match mark {
        Mark::Done => Colour::Green,
        Mark::Failed => Colour::Red,
        Mark::Stopped | Mark::Unknown => Colour::Yellow,
    }
}

/// Paints what comes before the first space.
fn with_symbol(line: &str, colour: Colour, paint: Paint) -> String {
    match line.split_once(' ') {
        Some((symbol, rest)) => format!("{} {rest}", paint.colour(colour, symbol)),
        None => line.to_owned(),
    }
}
