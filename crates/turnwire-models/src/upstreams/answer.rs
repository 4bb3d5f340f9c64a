//! The answer of an upstream, from its first content on.
//!
//! Until then nothing was shown to anyone, so that another upstream can answer instead.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{Stream, StreamExt};
use turnwire_contract::{Finish, ModelError, ModelPart, ModelStream};

use super::{is_fault, pool::UpstreamPermit};

/// Maximum number of parts without content that are held back.
const MAX_HELD: usize = 32;

/// Waits for the first content, and returns it with what came before it.
pub(super) async fn until_content(
    parts: &mut ModelStream,
) -> Result<VecDeque<ModelPart>, ModelError> {
    let mut held = VecDeque::new();
    while let Some(part) = parts.next().await {
        let part = part?;
        if part == ModelPart::Finished(Finish::Interrupted) {
            let message = "the answer was interrupted before its first content".to_owned();
            return Err(ModelError::Broken { message });
        }
        let is_content = !matches!(part, ModelPart::Usage(_) | ModelPart::Unreadable { .. });
        held.push_back(part);
        if is_content || held.len() >= MAX_HELD {
            return Ok(held);
        }
    }
    let message = "the stream ended before its first content".to_owned();
    Err(ModelError::Broken { message })
}

/// An answer that holds the permit of its upstream.
pub(super) struct Answer {
    held: VecDeque<ModelPart>,
    parts: ModelStream,
    upstream: UpstreamPermit,
}

impl Answer {
    pub(super) fn new(
        held: VecDeque<ModelPart>,
        parts: ModelStream,
        upstream: UpstreamPermit,
    ) -> Self {
        Self { held, parts, upstream }
    }
}

impl Stream for Answer {
    type Item = Result<ModelPart, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(part) = self.held.pop_front() {
            return Poll::Ready(Some(Ok(part)));
        }
        let next = ready!(self.parts.poll_next_unpin(context));
        match &next {
            Some(Err(error)) if is_fault(error) => self.upstream.fail(error),
            None | Some(Ok(ModelPart::Finished(_))) => self.upstream.release(),
            Some(_) => {}
        }
        Poll::Ready(next)
    }
}
