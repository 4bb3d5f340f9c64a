//! One turn of the model: request, stream, append part by part.
//!
//! A model that is unreachable, or fails before its first output, is retried. After the first
//! output it is not, because a client may have seen it.

use std::{
    collections::HashMap,
    future::poll_fn,
    mem,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use futures::{FutureExt, StreamExt, future::join};
use tokio::time::{Instant, sleep};
use tracing::{Span, error, instrument, warn};
use turnwire_contract::{
    CallId, Completeness, Event, Finish, ItemId, ModelError, ModelPart, ModelStream, RunOutcome,
    ToolKind, ToolOutcome, ToolRef, Usage,
};

use crate::{
    Result, failures,
    gathering::CountedAnswer,
    live_run::LiveRun,
    model_wait::{ModelWait, WaitOutcome},
    output,
    prompt_files::FileError,
    retry,
    run_context::{RunContext, StepOutcome},
    run_state::{RunState, Step, item_prefix},
    tool_result::prefix,
    trace_context,
};

/// Maximum number of parts per batch when the model is faster than the journal.
const MAX_PARTS_AT_ONCE: usize = 64;

/// A model that has this many parts ready at once does not wait for more.
const ENOUGH_PARTS: usize = 16;

/// A turn may announce so many times the calls that its run may execute; those beyond the limit are
/// skipped one by one, which takes time that is quadratic in their number.
const ANNOUNCED_PER_ALLOWED: u32 = 8;

/// Result of calls in an answer with an unreadable part.
const CALLED_WITH_A_GAP: &str = "a part of the answer with this call could not be read, so the \
                                 call was not carried out; make it again";

/// Requests the next turn and records the model's output.
///
/// A model failure ends the run and is not an error here. On a stop this returns early: the loop
/// checks for it and closes whatever is open.
#[instrument(skip_all, fields(turn))]
pub(crate) async fn ask_model(run: &LiveRun, context: &RunContext) -> Result<StepOutcome> {
    let turn = run.state().turn() + 1;
    Span::current().record("turn", turn);
    let max_attempts = run.state().limits().model_attempts;
    let mut recorder = TurnRecorder::new(run, context, turn);
    // The request has no side effects, so it need not wait for the append.
    let (started, mut asked) = join(run.record(Event::TurnStarted { turn }), recorder.ask()).await;
    started?;

    let mut attempt = 1;
    loop {
        let error = match recorder.listen(asked).await? {
            TurnOutcome::Finished | TurnOutcome::Stopped => return Ok(StepOutcome::Continue),
            TurnOutcome::EndedRun(outcome) => return Ok(StepOutcome::End(outcome)),
            TurnOutcome::Failed(error) => error,
        };
        error.log(attempt);
        let failure = error.failure();
        attempt += 1;
        if recorder.has_spoken || !error.is_retryable() || attempt > max_attempts {
            return Ok(StepOutcome::End(RunOutcome::Failed { failure }));
        }
        let delay = retry::wait_before(attempt, error.retry_after());
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        run.record(Event::TurnRetried { turn, attempt, reason: failure, delay_ms }).await?;
        tokio::select! {
            biased;
            () = run.stopped() => return Ok(StepOutcome::Continue),
            () = run.handover_requested() => return Ok(StepOutcome::Continue),
            () = sleep(delay) => {}
        }
        let used_before = recorder.usage();
        recorder = TurnRecorder { used_before, ..TurnRecorder::new(run, context, turn) };
        asked = recorder.ask().await;
    }
}

enum TurnOutcome {
    /// The model finished its answer.
    Finished,
    /// The model finished its answer, and the run ended with it.
    EndedRun(RunOutcome),
    /// The run stops or is handed over.
    Stopped,
    Failed(TurnError),
}

/// Why a turn failed.
#[derive(Debug)]
enum TurnError {
    Error(ModelError),
    TimedOut,
    /// The request was not sent: a file is not available.
    File(FileError),
}

impl TurnError {
    /// Logs the error at a level that depends on its kind.
    fn log(&self, attempt: u32) {
        match self {
            Self::Error(error @ ModelError::Misconfigured { .. }) => {
                error!(%error, attempt, "model request failed");
            }
            Self::Error(error) => warn!(%error, attempt, "model request failed"),
            Self::TimedOut => warn!(attempt, "model request timed out"),
            Self::File(problem) => warn!(?problem, attempt, "file not available to the model"),
        }
    }

    fn failure(&self) -> turnwire_contract::Failure {
        match self {
            Self::Error(error) => failures::of_model(error),
            Self::TimedOut => failures::model_silent(),
            Self::File(FileError::Deleted(file_id)) => failures::file_gone(file_id),
            Self::File(FileError::TooLarge(max_bytes)) => failures::files_too_large(*max_bytes),
            Self::File(FileError::Unavailable(_)) => failures::files_unavailable(),
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Self::Error(error) => retry::is_retryable(error),
            Self::TimedOut => true,
            Self::File(problem) => matches!(problem, FileError::Unavailable(_)),
        }
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Error(error) => retry::retry_after(error),
            Self::TimedOut | Self::File(_) => None,
        }
    }
}

/// Returns the next part if it has arrived. The task of an HTTP connection passes on one piece of
/// the body at a time, so this yields once to let it pass on the next.
async fn next_if_arrived(parts: &mut ModelStream) -> Option<Option<Result<ModelPart, ModelError>>> {
    if let Some(part) = parts.next().now_or_never() {
        return Some(part);
    }
    yield_once().await;
    parts.next().now_or_never()
}

/// Lets the tasks run that are ready. Unlike [`tokio::task::yield_now`] this does not wait for the
/// I/O driver.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Turns the parts of one answer into events.
struct TurnRecorder<'a> {
    run: &'a LiveRun,
    context: &'a RunContext,
    turn: u32,
    waiting: ModelWait<'a>,
    answer: CountedAnswer,
    /// Whether any output was recorded that a client may have seen.
    has_spoken: bool,
    open_block: OpenBlock,
    calls: HashMap<u32, OpenCall>,
    /// Usage of this attempt, as far as it is known.
    usage: Usage,
    /// Usage of the attempts before it. The provider charges for them, too.
    used_before: Usage,
    /// Number of unreadable parts.
    n_skipped: u32,
    to_record: Vec<Event>,
    /// Remaining bytes of the answer.
    remaining_bytes: usize,
    /// How the answer ends here: it is too long, or has more calls than the run may execute. The
    /// rest is discarded.
    cut: Option<Finish>,
}

/// A call whose arguments are being streamed.
struct OpenCall {
    call_id: CallId,
    n_bytes: usize,
    /// Whether the arguments exceeded the limit and were truncated.
    is_cut: bool,
}

/// The open block. At most one is open, apart from calls.
#[derive(PartialEq)]
enum OpenBlock {
    Nothing,
    Message(ItemId),
    Reasoning(ItemId),
}

impl<'a> TurnRecorder<'a> {
    fn new(run: &'a LiveRun, context: &'a RunContext, turn: u32) -> Self {
        let state = run.state();
        Self {
            waiting: ModelWait::new(run, state.limits()),
            run,
            context,
            answer: context.gathering.begin(run.tenant()),
            turn,
            has_spoken: false,
            open_block: OpenBlock::Nothing,
            calls: HashMap::new(),
            usage: Usage::default(),
            used_before: Usage::default(),
            n_skipped: 0,
            to_record: Vec::new(),
            remaining_bytes: state.remaining_turn_bytes(),
            cut: None,
        }
    }

    async fn ask(&mut self) -> WaitOutcome<Result<ModelStream, TurnError>> {
        let (request, mut prompt) = {
            let state = self.run.state();
            (Arc::clone(state.request()), state.prompt())
        };
        prompt.trace = trace_context::of_turn(self.run, self.context, self.turn).map(Box::new);
        // Waiting for file permits does not count as silence of the model.
        let filled = tokio::select! {
            biased;
            () = self.run.stopped() => return WaitOutcome::Stopped,
            () = self.run.handover_requested() => return WaitOutcome::Stopped,
            filled = self.context.files.fill(&request, &mut prompt) => filled,
        };
        let permit = match filled {
            Ok(permit) => permit,
            Err(problem) => return WaitOutcome::Ready(Err(TurnError::File(problem))),
        };
        let model = self.context.model.for_turn(&request.model);
        let asked = self.waiting.wait_for(model.stream(prompt)).await;
        drop(permit);
        match asked {
            WaitOutcome::Ready(answer) => WaitOutcome::Ready(answer.map_err(TurnError::Error)),
            WaitOutcome::TimedOut => WaitOutcome::TimedOut,
            WaitOutcome::Stopped => WaitOutcome::Stopped,
        }
    }

    async fn listen(
        &mut self,
        asked: WaitOutcome<Result<ModelStream, TurnError>>,
    ) -> Result<TurnOutcome> {
        let mut parts = match asked {
            WaitOutcome::Ready(Ok(parts)) => parts,
            WaitOutcome::Ready(Err(error)) => return Ok(TurnOutcome::Failed(error)),
            WaitOutcome::TimedOut => return Ok(TurnOutcome::Failed(TurnError::TimedOut)),
            WaitOutcome::Stopped => return Ok(TurnOutcome::Stopped),
        };
        let mut n_taken = 0;
        let mut not_before = Instant::now();
        loop {
            // A model that was faster than the window is likely to be so again.
            if n_taken > 1 && self.waiting.pause_until(not_before).await {
                return Ok(TurnOutcome::Stopped);
            }
            let mut next = match self.waiting.wait_for(parts.next()).await {
                WaitOutcome::Ready(next) => Some(next),
                WaitOutcome::TimedOut => return Ok(TurnOutcome::Failed(TurnError::TimedOut)),
                WaitOutcome::Stopped => return Ok(TurnOutcome::Stopped),
            };
            if self.waiting.pause_until(not_before).await {
                return Ok(TurnOutcome::Stopped);
            }
            // Parts that arrived during the append or the pause go into the next batch.
            n_taken = 0;
            while let Some(part) = next.take() {
                match part {
                    Some(Ok(ModelPart::Finished(Finish::Interrupted))) => {
                        let message = "the model was interrupted".to_owned();
                        return self.fail_turn(ModelError::Broken { message }).await;
                    }
                    Some(Ok(ModelPart::Finished(finish))) => return self.finish(finish).await,
                    Some(Ok(ModelPart::Unreadable { bytes })) => {
                        self.skip(bytes);
                        if self.n_skipped > self.run.state().limits().max_skipped_parts {
                            let message = "too much of the answer could not be read".to_owned();
                            return self.fail_turn(ModelError::Broken { message }).await;
                        }
                    }
                    Some(Ok(part)) => {
                        self.take(part).await?;
                        if let Some(finish) = self.cut {
                            return self.finish(finish).await;
                        }
                    }
                    Some(Err(error)) => return self.fail_turn(error).await,
                    None => {
                        let message = "the stream ended without a finish".to_owned();
                        return self.fail_turn(ModelError::Broken { message }).await;
                    }
                }
                n_taken += 1;
                if n_taken < MAX_PARTS_AT_ONCE {
                    next = next_if_arrived(&mut parts).await;
                }
            }
            not_before = Instant::now();
            self.record_taken().await?;
            if n_taken < ENOUGH_PARTS {
                not_before += self.answer.window();
            }
        }
    }

    async fn take(&mut self, part: ModelPart) -> Result<()> {
        match part {
            ModelPart::Text(text) => {
                if let Some(text) = self.fitting(text) {
                    let item_id = self.message().await?;
                    self.add(Event::TextAdded { item_id, text });
                }
            }
            ModelPart::Logprobs(logprobs) if !logprobs.is_empty() => {
                let item_id = self.message().await?;
                let event = Event::LogprobsAdded { item_id, logprobs };
                self.add_whole(event);
            }
            ModelPart::Refusal(text) => {
                if let Some(text) = self.fitting(text) {
                    let item_id = self.message().await?;
                    self.add(Event::RefusalAdded { item_id, text });
                }
            }
            ModelPart::Reasoning(text) => {
                if let Some(text) = self.fitting(text) {
                    let item_id = self.reasoning().await?;
                    self.add(Event::ReasoningAdded { item_id, text });
                }
            }
            ModelPart::EncryptedContent(content) => self.add_encrypted_content(content).await?,
            ModelPart::Annotation(annotation) => {
                let item_id = self.message().await?;
                let event = Event::AnnotationAdded { item_id, annotation };
                self.add_whole(event);
            }
            ModelPart::CallStarted { key, id, name } => self.announce(key, id, name).await?,
            ModelPart::CallArguments { key, text } => {
                if let Some(text) = self.fitting(text) {
                    self.add_arguments(key, text);
                }
            }
            ModelPart::Usage(usage) => {
                self.usage = usage;
                self.run.state().note_usage(self.usage());
            }
            ModelPart::Logprobs(_) | ModelPart::Unreadable { .. } | ModelPart::Finished(_) => {}
        }
        Ok(())
    }

    /// What all attempts at this turn have used, as far as it is known.
    fn usage(&self) -> Usage {
        let mut usage = self.used_before;
        usage += self.usage;
        usage
    }

    /// Counts an unreadable part. It is not output, so the turn can still be retried.
    fn skip(&mut self, bytes: u64) {
        self.n_skipped += 1;
        self.context.skipped_parts.fetch_add(1, Ordering::Relaxed);
        let reason = failures::model_unreadable();
        self.to_record.push(Event::PartSkipped { turn: self.turn, bytes, reason });
    }

    /// Returns the part of `text` within the limit, or `None` if nothing is left. Discarded output
    /// counts too.
    fn fitting(&mut self, mut text: String) -> Option<String> {
        let fits = prefix(&text, self.remaining_bytes).len();
        if fits < text.len() {
            self.cut = Some(Finish::Length);
        }
        self.remaining_bytes -= fits;
        text.truncate(fits);
        (!text.is_empty()).then_some(text)
    }

    fn add_arguments(&mut self, key: u32, mut text: String) {
        let max_arguments = self.run.state().limits().max_arguments;
        let Some(call) = self.calls.get_mut(&key) else { return };
        let fits = prefix(&text, max_arguments - call.n_bytes).len();
        call.is_cut |= fits < text.len();
        if call.is_cut && fits == 0 {
            return;
        }
        text.truncate(fits);
        call.n_bytes += fits;
        let call_id = call.call_id.clone();
        self.add(Event::ArgumentsAdded { call_id, text });
    }

    /// Reserves bytes for an event that cannot be truncated.
    fn consume(&mut self, event: &Event) {
        let n_bytes = output::output_bytes(event);
        if n_bytes > self.remaining_bytes {
            self.cut = Some(Finish::Length);
        }
        self.remaining_bytes = self.remaining_bytes.saturating_sub(n_bytes);
    }

    fn add_whole(&mut self, event: Event) {
        self.consume(&event);
        self.add(event);
    }

    fn add(&mut self, event: Event) {
        self.has_spoken = true;
        self.to_record.push(event);
    }

    async fn record_taken(&mut self) -> Result<()> {
        if !self.to_record.is_empty() {
            self.run.record_all(mem::take(&mut self.to_record)).await?;
        }
        Ok(())
    }

    /// Returns the open message, or opens one.
    async fn message(&mut self) -> Result<ItemId> {
        if let OpenBlock::Message(item_id) = &self.open_block {
            return Ok(item_id.clone());
        }
        self.close_text(None).await?;
        let item_id = ItemId::new(self.run.new_id("msg"));
        self.add(Event::MessageStarted { item_id: item_id.clone() });
        self.open_block = OpenBlock::Message(item_id.clone());
        Ok(item_id)
    }

    /// Returns the open reasoning block, or opens one.
    async fn reasoning(&mut self) -> Result<ItemId> {
        if let OpenBlock::Reasoning(item_id) = &self.open_block {
            return Ok(item_id.clone());
        }
        self.close_text(None).await?;
        let item_id = ItemId::new(self.run.new_id("rs"));
        self.open_block = OpenBlock::Reasoning(item_id.clone());
        Ok(item_id)
    }

    /// Closes the open block. Pending text is recorded first, because the closing event is built
    /// from the state.
    async fn close_text(&mut self, content: Option<String>) -> Result<()> {
        self.record_taken().await?;
        self.open_block = OpenBlock::Nothing;
        let mut closing = self.run.state().close_text(Completeness::Complete);
        if let Some(event @ Event::ReasoningFinished { .. }) = closing.first_mut() {
            if let Event::ReasoningFinished { encrypted_content, .. } = event {
                *encrypted_content = content;
            }
            self.consume(event);
        }
        self.to_record.extend(closing);
        Ok(())
    }

    /// Some providers send encrypted reasoning without text.
    async fn add_encrypted_content(&mut self, encrypted_content: String) -> Result<()> {
        if matches!(self.open_block, OpenBlock::Reasoning(_)) {
            return self.close_text(Some(encrypted_content)).await;
        }
        self.close_text(None).await?;
        let item_id = ItemId::new(self.run.new_id("rs"));
        let (text, completeness) = (String::new(), Completeness::Complete);
        let event = Event::ReasoningFinished {
            item_id,
            text,
            encrypted_content: Some(encrypted_content),
            completeness,
        };
        self.add_whole(event);
        Ok(())
    }

    async fn announce(&mut self, key: u32, id: Option<String>, name: String) -> Result<()> {
        self.close_text(None).await?;
        let max_calls =
            self.run.state().limits().max_tool_calls.saturating_mul(ANNOUNCED_PER_ALLOWED);
        if u32::try_from(self.calls.len()).unwrap_or(u32::MAX) >= max_calls {
            self.cut = Some(Finish::CalledTools);
            return Ok(());
        }
        let call_id = self.free_call_id(id);
        let spec = self.run.state().spec(&name).map(turnwire_contract::ToolSpec::reference);
        let tool = spec.unwrap_or(ToolRef { name, kind: ToolKind::Function, server: None });
        let item_id = ItemId::new(self.run.new_id(item_prefix(tool.kind)));
        let open = OpenCall { call_id: call_id.clone(), n_bytes: 0, is_cut: false };
        self.calls.insert(key, open);
        let event = Event::CallAnnounced { call_id, item_id, tool };
        self.add_whole(event);
        Ok(())
    }

    /// Returns the provider's call id if it is unique. Some providers send none, or always the same
    /// one.
    fn free_call_id(&self, id: Option<String>) -> CallId {
        let theirs = id.filter(|id| !id.is_empty()).map(CallId::new);
        let is_free = |id: &CallId| {
            !self.run.state().knows_call(id)
                && !self.calls.values().any(|known| known.call_id == *id)
        };
        theirs.filter(is_free).unwrap_or_else(|| CallId::new(self.run.new_id("call")))
    }

    /// Records what the model said last, the end of its turn, and the end of the run if nothing
    /// follows, in one append.
    async fn finish(&mut self, finish: Finish) -> Result<TurnOutcome> {
        let mut after = self.run.state().clone();
        for event in &self.to_record {
            after.apply(event);
        }
        let has_gap = finish == Finish::CalledTools && self.n_skipped > 0;
        if has_gap && after.calls_client() {
            let message = "a part of an answer with calls could not be read".to_owned();
            return self.fail_turn(ModelError::Broken { message }).await;
        }
        let completeness = match finish {
            Finish::Answered | Finish::CalledTools => Completeness::Complete,
            Finish::Length | Finish::ContentFilter | Finish::Interrupted => Completeness::Cut,
        };
        let mut ends = after.close_text(completeness);
        ends.extend(after.close_arguments(completeness));
        for event in &mut ends {
            if let Event::ArgumentsFinished { call_id, completeness, .. } = event
                && self.calls.values().any(|call| call.is_cut && call.call_id == *call_id)
            {
                *completeness = Completeness::Cut;
            }
        }
        ends.push(Event::TurnFinished { turn: self.turn, finish, usage: self.usage() });
        if has_gap {
            ends.extend(calls_not_carried_out(&after));
        }
        for event in &ends {
            after.apply(event);
        }
        self.to_record.extend(ends);
        let events = mem::take(&mut self.to_record);
        if let Step::Finish(outcome) = after.next_step()
            && self.run.stopped_by().is_none()
        {
            if self.run.record_last(events, after, outcome.clone()).await? {
                return Ok(TurnOutcome::EndedRun(outcome));
            }
        } else {
            self.run.record_all(events).await?;
        }
        Ok(TurnOutcome::Finished)
    }

    async fn fail_turn(&mut self, error: ModelError) -> Result<TurnOutcome> {
        self.record_taken().await?;
        Ok(TurnOutcome::Failed(TurnError::Error(error)))
    }
}

/// Failed ends for calls whose arguments may lack a part and are still valid. They are recorded in
/// one batch with the end of the turn, so that no worker executes the calls.
fn calls_not_carried_out(state: &RunState) -> Vec<Event> {
    let message = CALLED_WITH_A_GAP.to_owned();
    let outcome = ToolOutcome::InvalidArguments { message };
    let end = |call_id: &CallId| Event::ToolFinished {
        call_id: call_id.clone(),
        outcome: outcome.clone(),
        duration_ms: 0,
    };
    state.call_ids().map(end).collect()
}
