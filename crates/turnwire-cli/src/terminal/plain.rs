//! Status lines, for pipes, logs and screen readers. The live block uses the same lines for final
//! states.

use turnwire_contract::RunOutcome;
use turnwire_surfaces::{Mark, TranscriptFrame};

use super::{Colour, Paint};

/// Line for a run that is being cancelled.
pub(super) const STOPPING: &str = "■ stopping…";

/// Formats a frame as a line. The failure of a run is printed by the error message that follows.
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

/// Colours the text before the first space.
fn with_symbol(line: &str, colour: Colour, paint: Paint) -> String {
    match line.split_once(' ') {
        Some((symbol, rest)) => format!("{} {rest}", paint.colour(colour, symbol)),
        None => line.to_owned(),
    }
}
