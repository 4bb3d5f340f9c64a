//! Tool results that are too large for the journal. The full text goes to the blob store.

use std::{
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tracing::warn;
use turnwire_contract::{BlobId, Tool, ToolOutcome, ToolOutput, tool::BlobRef};

use crate::{
    depth::is_too_deep, failures, live_run::LiveRun, run_context::RunContext, tool_result::prefix,
};

/// Maximum total size of the images in a result, in base64 bytes.
const MAX_PICTURE_BYTES: usize = 8 * 1024 * 1024;

/// Moves an oversized result to the blob store and keeps the tool's own summary in the event.
pub(crate) async fn store_large_output(
    run: &LiveRun,
    context: &RunContext,
    tool: &dyn Tool,
    outcome: ToolOutcome,
) -> ToolOutcome {
    let ToolOutcome::Succeeded { mut output } = outcome else { return outcome };
    let limit = run.state().limits().output_in_journal;
    drop_oversized(&mut output, limit);
    if output.short.is_none() {
        output.short = text_or_none(|| tool.short_result(&output));
    }
    if output.text.len() > limit {
        let blob = BlobId::new(run.new_id("blob"));
        let head = prefix(&output.text, limit).to_owned();
        let whole = std::mem::replace(&mut output.text, head);
        let bytes = whole.len() as u64;
        let put = || context.blobs.put(run.tenant(), run.id(), &blob, whole.clone());
        match run.retry_until_stored(put).await {
            Some(Ok(())) => output.rest = Some(BlobRef { blob, bytes }),
            kept => {
                warn!(?kept, bytes, "large result not stored");
                return ToolOutcome::Failed { failure: failures::output_lost() };
            }
        }
    }
    ToolOutcome::Succeeded { output }
}

/// Data and images cannot go to the blob store. Oversized ones are dropped, with a note.
fn drop_oversized(output: &mut ToolOutput, limit: usize) {
    if output.structured.as_ref().is_some_and(is_too_deep) {
        output.structured = None;
        output.text.push_str("\n[the data of this result was nested too deeply and is left out]");
    }
    let data = output.structured.as_ref().map_or(0, |data| data.to_string().len());
    if data > limit {
        output.structured = None;
        output.text.push_str("\n[the data of this result was too big and is left out]");
    }
    let mut remaining = MAX_PICTURE_BYTES;
    let n_pictures = output.images.len();
    output.images.retain(|image| {
        let fits = image.base64.len() <= remaining;
        remaining -= if fits { image.base64.len() } else { 0 };
        fits
    });
    let left_out = n_pictures - output.images.len();
    if left_out > 0 {
        let _ = write!(output.text, "\n[{left_out} pictures were too big and are left out]");
    }
}

/// Returns the tool's display text, or `None` if the tool panics.
pub(crate) fn text_or_none(say: impl FnOnce() -> Option<String>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(say)).unwrap_or_else(|_| {
        warn!("tool panicked while describing a call");
        None
    })
}
