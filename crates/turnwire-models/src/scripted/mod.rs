//! A scripted model, for demos without a key and tests without a network.
//!
//! Its output is defined by [`Turn`]s or follows from the prompt alone ([`Scripted::demo`],
//! [`Scripted::by_prompt`]), so runs are reproducible. It records its prompts, so that tests can
//! check what the engine sends.
//!
//! ```
//! use serde_json::json;
//! use turnwire_models::{Scripted, Turn};
//!
//! let model = Scripted::new([
//!     Turn::new().text("Let me see. ").call("multiply", json!({ "a": 5, "b": 4 })),
//!     Turn::new().text_in(["The answer ", "is 20."]),
//! ]);
//! # assert!(model.prompts().is_empty());
//! ```

mod by_prompt;
mod demo;
mod story;
mod turn;

use std::{
    collections::VecDeque,
    future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::stream;
use tokio::time::{Instant, sleep_until};
use turnwire_contract::{Model, ModelError, ModelStream, Prompt};

use self::turn::Step;
pub use self::turn::Turn;

/// A model with predefined output.
///
/// The n-th call of [`stream`](Model::stream) plays the n-th turn. Clones share the count.
#[derive(Debug, Clone)]
pub struct Scripted {
    source: Source,
    pace: Duration,
    asked: Arc<Mutex<Vec<Prompt>>>,
}

impl Scripted {
    /// Plays `turns`, one per prompt, and rejects further prompts.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::from_source(Source::Script {
            turns: turns.into_iter().collect(),
            at_end: AtEnd::Refuse,
        })
    }

    /// The demo model. It multiplies if it is offered a tool named `multiply`, and says that it is
    /// a demo otherwise.
    pub fn demo() -> Self {
        Self::from_source(Source::Demo)
    }

    /// A model whose script is in the prompt, so that each client of a server can use its own
    /// script.
    ///
    /// If the last user message is a JSON object with a list `turns`, the model plays the turn
    /// whose index is the number of answers since that message (calls of one answer and their
    /// results are one answer). A script without such a turn, or an invalid one, is rejected. Any
    /// other message is repeated: `You said: …`. Prompts are not recorded.
    ///
    /// ```json
    /// {"turns": [
    ///   {"text": "Let me see. ", "calls": [{"name": "add", "arguments": {"a": 5, "b": 4}}]},
    ///   {"text": ["It is ", "{results}."]}
    /// ]}
    /// ```
    ///
    /// All fields of a turn are optional. Output is sent in the order of this list:
    ///
    /// * `reasoning`, `text`, `refusal`: a text, or a list of pieces. `{results}` in `text` is
    ///   replaced by the results of the last calls.
    /// * `calls`: each with a `name`, an optional `id`, and `arguments` (an object), `raw` (a text
    ///   or a list of pieces, not necessarily JSON) or `input` (the same, for a custom tool).
    /// * `finish`: `stop`, `tool_calls`, `length` or `content_filter`; `silent` ends without a
    ///   finish, `never` does not end.
    /// * `pause_ms`, `pace_ms`: delay at the beginning, and before each piece.
    /// * `error`: `unavailable`, `rejected` (both before the stream) or `broken` (in the stream).
    /// * `retry_after_ms`: delay requested by the unavailable model.
    /// * `after`: number of pieces before the error. The name of a call and each piece of its
    ///   arguments count as pieces.
    pub fn by_prompt() -> Self {
        Self::from_source(Source::ByPrompt)
    }

    /// Starts again with the first turn at the end of the script.
    pub fn looping(self) -> Self {
        self.with_end(AtEnd::StartAgain)
    }

    /// Repeats the last turn at the end of the script.
    pub fn repeat_last(self) -> Self {
        self.with_end(AtEnd::RepeatLast)
    }

    /// Waits for `pace` before each part.
    pub fn paced(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Returns the recorded prompts, in order.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn from_source(source: Source) -> Self {
        Self { source, pace: Duration::ZERO, asked: Arc::default() }
    }

    fn with_end(mut self, new: AtEnd) -> Self {
        if let Source::Script { at_end, .. } = &mut self.source {
            *at_end = new;
        }
        self
    }

    /// Records the prompt, and returns the number of earlier ones.
    fn remember(&self, prompt: &Prompt) -> usize {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(prompt.clone());
        asked.len() - 1
    }
}

#[async_trait]
impl Model for Scripted {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let turn = match &self.source {
            Source::ByPrompt => Some(by_prompt::turn_for(&prompt)?),
            Source::Demo => {
                self.remember(&prompt);
                Some(demo::turn_for(&prompt))
            }
            Source::Script { turns, at_end } => {
                let n = self.remember(&prompt);
                at_end.turn(turns, n).cloned()
            }
        };
        let turn = turn.ok_or_else(|| ModelError::Rejected {
            message: "the script has no more turns".to_owned(),
        })?;
        Ok(play(turn.into_steps(&prompt)?, self.pace))
    }
}

#[derive(Debug, Clone)]
enum Source {
    Script { turns: Arc<[Turn]>, at_end: AtEnd },
    Demo,
    ByPrompt,
}

/// What to do at the end of the script.
#[derive(Debug, Clone, Copy)]
enum AtEnd {
    Refuse,
    StartAgain,
    RepeatLast,
}

impl AtEnd {
    fn turn(self, turns: &[Turn], n: usize) -> Option<&Turn> {
        let place = match self {
            Self::Refuse => n,
            Self::StartAgain => n.checked_rem(turns.len())?,
            Self::RepeatLast => n.min(turns.len().checked_sub(1)?),
        };
        turns.get(place)
    }
}

/// Keeps its pace whether anybody listens or not, as a model behind a connection does.
fn play(steps: VecDeque<Step>, pace: Duration) -> ModelStream {
    Box::pin(stream::unfold((steps, Instant::now()), move |(mut steps, mut due)| async move {
        loop {
            match steps.pop_front()? {
                Step::Say(part) => {
                    due += pace;
                    wait_until(due).await;
                    return Some((Ok(part), (steps, due)));
                }
                Step::Pause(length) => due += length,
                Step::WaitForever => future::pending().await,
                Step::Fail(error) => {
                    wait_until(due).await;
                    return Some((Err(error), (VecDeque::new(), due)));
                }
            }
        }
    }))
}

async fn wait_until(due: Instant) {
    if due > Instant::now() {
        sleep_until(due).await;
    }
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
