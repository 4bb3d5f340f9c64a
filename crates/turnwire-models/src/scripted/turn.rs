//! A turn of a script: the output in order, and its end.

use std::{collections::VecDeque, time::Duration};

use serde_json::Value;
use turnwire_contract::{Content, Finish, Item, ModelError, ModelPart, Prompt, Usage};

/// Number of characters per piece of streamed arguments.
const ARGUMENT_PIECE: usize = 5;

/// An answer of a [`Scripted`](super::Scripted) model.
///
/// By default a turn ends with [`Finish::CalledTools`] if it has calls, and with
/// [`Finish::Answered`] otherwise. Before the end it reports a [`Usage`] of one token per word,
/// unless [`usage`](Self::usage) sets another.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    steps: Vec<Step>,
    end: TurnEnd,
    next_key: u32,
    told_usage: bool,
}

impl Turn {
    /// Creates an empty turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a turn that fails before the stream starts, as when the provider rejects the
    /// request.
    pub fn fails(error: ModelError) -> Self {
        Self { end: TurnEnd::BeforeTheStream(error), ..Self::default() }
    }

    /// Adds a text in one part.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.part(ModelPart::Text(text.into()))
    }

    /// Adds a text in several parts.
    pub fn text_in(self, parts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        parts.into_iter().fold(self, Self::text)
    }

    /// Adds reasoning in one part.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.part(ModelPart::Reasoning(text.into()))
    }

    /// Adds a refusal in one part.
    pub fn refusal(self, text: impl Into<String>) -> Self {
        self.part(ModelPart::Refusal(text.into()))
    }

    /// Adds a call with the arguments in one part and without an ID.
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.add_call(None, name.into(), [arguments.to_string()])
    }

    /// Adds a call with an ID.
    pub fn call_with_id(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: Value,
    ) -> Self {
        self.add_call(Some(id.into()), name.into(), [arguments.to_string()])
    }

    /// Adds a call with raw arguments in several parts, not necessarily JSON.
    pub fn call_raw(
        self,
        name: impl Into<String>,
        raw_arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.add_call(None, name.into(), raw_arguments)
    }

    /// Adds a delay.
    pub fn pause(self, length: Duration) -> Self {
        self.step(Step::Pause(length))
    }

    /// Sends nothing more and does not end.
    pub fn wait_forever(self) -> Self {
        self.step(Step::WaitForever)
    }

    /// Sets the usage.
    pub fn usage(self, usage: Usage) -> Self {
        self.part(ModelPart::Usage(usage))
    }

    /// Adds any part, for cases without a method: encrypted content, annotations, interleaved
    /// calls.
    pub fn part(mut self, part: ModelPart) -> Self {
        match &part {
            ModelPart::CallStarted { key, .. } => {
                self.next_key = self.next_key.max(key.saturating_add(1));
            }
            ModelPart::Usage(_) => self.told_usage = true,
            ModelPart::Finished(_) => self.end = TurnEnd::Silent,
            _ => {}
        }
        self.step(Step::Say(part))
    }

    /// Ends at the maximum length.
    pub fn length_cut(self) -> Self {
        self.end(TurnEnd::Finished(Finish::Length))
    }

    /// Ends by the content filter.
    pub fn content_filter(self) -> Self {
        self.end(TurnEnd::Finished(Finish::ContentFilter))
    }

    /// Ends with a broken stream.
    pub fn breaks(self, message: impl Into<String>) -> Self {
        self.ends_with(ModelError::Broken { message: message.into() })
    }

    /// Ends with an error after the output.
    pub fn ends_with(self, error: ModelError) -> Self {
        self.end(TurnEnd::Error(error))
    }

    /// Ends without a finish, which violates the contract of a model.
    pub fn ends_silently(self) -> Self {
        self.end(TurnEnd::Silent)
    }

    pub(super) fn into_steps(self, prompt: &Prompt) -> Result<VecDeque<Step>, ModelError> {
        let default_usage = (!self.told_usage).then(|| self.usage_by_words(prompt));
        let mut steps = VecDeque::from(self.steps);
        let finish = match self.end {
            TurnEnd::BeforeTheStream(error) => return Err(error),
            TurnEnd::Error(error) => {
                steps.push_back(Step::Fail(error));
                return Ok(steps);
            }
            TurnEnd::Silent => return Ok(steps),
            TurnEnd::Finished(finish) => finish,
            TurnEnd::ByItself if self.next_key > 0 => Finish::CalledTools,
            TurnEnd::ByItself => Finish::Answered,
        };
        steps.extend(default_usage.map(|usage| Step::Say(ModelPart::Usage(usage))));
        steps.push_back(Step::Say(ModelPart::Finished(finish)));
        Ok(steps)
    }

    fn add_call(
        mut self,
        id: Option<String>,
        name: String,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let key = self.next_key;
        self = self.part(ModelPart::CallStarted { key, id, name });
        arguments
            .into_iter()
            .fold(self, |turn, text| turn.part(ModelPart::CallArguments { key, text: text.into() }))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn end(mut self, end: TurnEnd) -> Self {
        self.end = end;
        self
    }

    fn usage_by_words(&self, prompt: &Prompt) -> Usage {
        let (mut written, mut thoughts) = (0, 0);
        for step in &self.steps {
            match step {
                Step::Say(ModelPart::Reasoning(text)) => thoughts += words(text),
                Step::Say(
                    ModelPart::Text(text)
                    | ModelPart::Refusal(text)
                    | ModelPart::CallArguments { text, .. },
                ) => written += words(text),
                _ => {}
            }
        }
        Usage {
            input_tokens: words_of(prompt),
            cached_tokens: 0,
            output_tokens: written + thoughts,
            reasoning_tokens: thoughts,
            cost_nanos: None,
        }
    }
}

/// A step of a turn.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Say(ModelPart),
    Pause(Duration),
    WaitForever,
    Fail(ModelError),
}

#[derive(Debug, Clone, Default)]
enum TurnEnd {
    #[default]
    ByItself,
    Finished(Finish),
    Error(ModelError),
    Silent,
    BeforeTheStream(ModelError),
}

fn words_of(prompt: &Prompt) -> u64 {
    let instructions = prompt.instructions.as_deref().map_or(0, words);
    instructions + prompt.items.iter().map(|item| words_of_item(item)).sum::<u64>()
}

fn words_of_item(item: &Item) -> u64 {
    match item {
        Item::Message { content, .. } => content
            .iter()
            .map(|content| match content {
                Content::Text { text } | Content::Refusal { text } => words(text),
                Content::Image { .. } | Content::File { .. } => 1,
            })
            .sum(),
        Item::Reasoning { text, .. } => words(text),
        Item::Call { arguments, .. } => words(arguments),
        Item::CallResult { output, .. } => words(output),
    }
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Streams `text` word by word.
pub(super) fn say(text: &str) -> Turn {
    Turn::new().text_in(text.split_inclusive(' '))
}

/// Splits arguments, to be streamed.
pub(super) fn pieces_of(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(ARGUMENT_PIECE).map(|piece| piece.iter().collect()).collect()
}
