//! A model that follows a script, so that demos need no key and tests no network.
//!
//! Everything it says is decided beforehand ([`Turn`]) or follows from the prompt alone
//! ([`Scripted::demo`], [`Scripted::by_prompt`]), so a run with it is the same run every time.
//! It keeps the prompts it was asked: what the engine shows a model is half of what a test wants
//! to know.
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
mod turn;

use std::{
    collections::VecDeque,
    future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::stream;
use turnwire_contract::{Model, ModelError, ModelStream, Prompt};

use self::turn::Step;
pub use self::turn::Turn;

/// A model that says what it was told to say.
///
/// The n-th call of [`stream`](Model::stream) plays the n-th turn; clones share the count.
#[derive(Debug, Clone)]
pub struct Scripted {
    source: Source,
    pace: Duration,
    asked: Arc<Mutex<Vec<Prompt>>>,
}

impl Scripted {
    /// Plays `turns`, one per question, and refuses any further question.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::from_source(Source::Script {
            turns: turns.into_iter().collect(),
            afterwards: Afterwards::Refuse,
        })
    }

    /// A model that needs no script: it can multiply, if it is offered a tool named
    /// `multiply`, and says of itself that it can do nothing else.
    pub fn demo() -> Self {
        Self::from_source(Source::Demo)
    }

    /// A model whose script is in the prompt, so that one server can play another part for each
    /// of its clients.
    ///
    /// The last message of the user is looked at. If all of it is a JSON object with a list
    /// `turns`, the turn is played whose place is the number of answers the model has given
    /// since (calls of one answer and all their results are one answer); a script that has no
    /// such turn, or makes no sense, is refused. Any other message is repeated: `You said: …`.
    /// It keeps no prompts.
    ///
    /// ```json
    /// {"turns": [
    ///   {"text": "Let me see. ", "calls": [{"name": "add", "arguments": {"a": 5, "b": 4}}]},
    ///   {"text": ["It is ", "{results}."]}
    /// ]}
    /// ```
    ///
    /// Each field of a turn may be left out. What it says comes in the order of this list:
    ///
    /// | field | means |
    /// |---|---|
    /// | `reasoning`, `text`, `refusal` | a text, or a list of its pieces; `{results}` in `text` is what the last calls returned |
    /// | `calls` | each with its `name`, perhaps an `id`, and `arguments` (an object), `raw` (a text or a list of pieces that need not be JSON) or `input` (the same, for a custom tool) |
    /// | `finish` | `stop`, `tool_calls`, `length`, `content_filter`; `silent` ends without a word, `never` does not end |
    /// | `pause_ms`, `pace_ms` | how long to wait at the beginning, and before each piece |
    /// | `error` | `unavailable`, `rejected` (both before the stream begins) or `broken` (in the stream) |
    /// | `retry_after_ms` | how long the unavailable model asks to wait |
    /// | `after` | the error comes in the stream, after so many pieces; the name of a call is a piece, and so is each piece of its arguments |
    pub fn by_prompt() -> Self {
        Self::from_source(Source::ByPrompt)
    }

    /// Begins again with the first turn when the script is over.
    pub fn looping(self) -> Self {
        self.afterwards(Afterwards::StartAgain)
    }

    /// Plays the last turn again and again when the script is over.
    pub fn repeat_last(self) -> Self {
        self.afterwards(Afterwards::RepeatLast)
    }

    /// Waits for `pace` before each part, so that people can watch.
    pub fn paced(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Everything it was asked so far, in order.
    pub fn prompts(&self) -> Vec<Prompt> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn from_source(source: Source) -> Self {
        Self { source, pace: Duration::ZERO, asked: Arc::default() }
    }

    fn afterwards(mut self, wish: Afterwards) -> Self {
        if let Source::Script { afterwards, .. } = &mut self.source {
            *afterwards = wish;
        }
        self
    }

    /// Keeps the prompt and returns how many came before it.
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
            Source::Script { turns, afterwards } => {
                let n = self.remember(&prompt);
                afterwards.turn(turns, n).cloned()
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
    Script { turns: Arc<[Turn]>, afterwards: Afterwards },
    Demo,
    ByPrompt,
}

/// What to do when the script is over.
#[derive(Debug, Clone, Copy)]
enum Afterwards {
    Refuse,
    StartAgain,
    RepeatLast,
}

impl Afterwards {
    fn turn(self, turns: &[Turn], n: usize) -> Option<&Turn> {
        let place = match self {
            Self::Refuse => n,
            Self::StartAgain => n.checked_rem(turns.len())?,
            Self::RepeatLast => n.min(turns.len().checked_sub(1)?),
        };
        turns.get(place)
    }
}

fn play(steps: VecDeque<Step>, pace: Duration) -> ModelStream {
    Box::pin(stream::unfold(steps, move |mut steps| async move {
        loop {
            match steps.pop_front()? {
                Step::Say(part) => {
                    if !pace.is_zero() {
                        tokio::time::sleep(pace).await;
                    }
                    return Some((Ok(part), steps));
                }
                Step::Pause(length) => tokio::time::sleep(length).await,
                Step::WaitForever => future::pending().await,
                Step::Fail(error) => return Some((Err(error), VecDeque::new())),
            }
        }
    }))
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
