//! What the model of a double says: a plan in the last user message that has one.
//!
//! A plan is a list of answers, and an answer a list of words: `think`, `say`, the name of a tool,
//! or how the answer fails. So a scenario is data.

use serde_json::{Value, json};

/// One answer of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) end: End,
}

/// A part of an answer, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Think(String),
    Say(String),
    Call { id: String, name: String, arguments: Value },
}

/// How an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// Nothing more is sent, and the connection stays open.
    Hangs,
    /// The vendor says that it ended for a reason that others do not have.
    Odd,
    /// The connection ends.
    Cut,
    /// An error is sent in the stream.
    Breaks,
    /// An error is sent instead of the answer.
    Fails(String),
}

/// Returns the user message that makes a double give these answers, one after another.
pub fn plan(answers: &[&[&str]]) -> String {
    json!({ "plan": answers }).to_string()
}

/// Where a request is in its plan.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// The words of the present answer.
    words: Vec<String>,
    /// The message and the number of answers since it.
    pub(super) position: (String, usize),
}

impl Place {
    /// Finds the plan in the messages. Each is a user's text, or `None` for an answer of the model.
    pub(super) fn of(messages: &[Option<String>]) -> Self {
        let plan_of = |text: &str| -> Option<Vec<Vec<String>>> {
            let plan: Value = serde_json::from_str(text).ok()?;
            serde_json::from_value(plan.get("plan")?.clone()).ok()
        };
        let found = messages.iter().enumerate().rev().find_map(|(at, message)| {
            let text = message.as_deref()?;
            Some((at, text, plan_of(text)?))
        });
        let Some((at, text, plan)) = found else { return Self::default() };
        let step = messages.iter().skip(at).filter(|message| message.is_none()).count();
        let words = plan.into_iter().nth(step).unwrap_or_default();
        Self { words, position: (text.to_owned(), step) }
    }

    /// Returns the answer. What fails does so only in the first attempt. `id_of` makes the ids of
    /// calls, and `nonce` differs between requests.
    pub(super) fn answer(
        &self,
        attempt: usize,
        thinks: bool,
        nonce: u64,
        id_of: impl Fn(usize) -> String,
    ) -> Answer {
        let mut pieces = Vec::new();
        let mut end = End::Whole;
        for (at, word) in self.words.iter().enumerate() {
            match (word.as_str(), word.split_once(':')) {
                ("think", _) if thinks => {
                    pieces.push(Piece::Think(format!("It is step {at} of {nonce:x}.")));
                }
                ("say", _) => pieces.push(Piece::Say("Done, all of it.".to_owned())),
                ("hang", _) => end = End::Hangs,
                ("odd", _) if attempt == 0 => end = End::Odd,
                ("cut", _) if attempt == 0 => end = End::Cut,
                ("break", _) if attempt == 0 => end = End::Breaks,
                ("think" | "odd" | "cut" | "break", _) => {}
                (_, Some(("say", text))) => pieces.push(Piece::Say(text.to_owned())),
                (_, Some(("error", class))) if attempt == 0 => end = End::Fails(class.to_owned()),
                (_, Some(_)) => {}
                (name, None) => pieces.push(Piece::Call {
                    id: id_of(at),
                    name: name.to_owned(),
                    arguments: json!({ "n": at }),
                }),
            }
        }
        let is_silent = !pieces.iter().any(|piece| !matches!(piece, Piece::Think(_)));
        if is_silent && end == End::Whole {
            pieces.push(Piece::Say("Done.".to_owned()));
        }
        Answer { pieces, end }
    }
}
