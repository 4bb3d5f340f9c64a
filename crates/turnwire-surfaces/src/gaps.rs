//! The parts of an answer that could not be read, in one sentence at its end, for the official
//! formats, which have no event about them.

/// The gaps in the answer of a run.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// The turn of each part that was skipped.
    turns: Vec<u32>,
}

impl Gaps {
    /// A part of this turn was skipped.
    pub(crate) fn add(&mut self, turn: u32) {
        self.turns.push(turn);
    }

    /// The model is asked again: nothing that it said in this turn is part of the answer.
    pub(crate) fn forget(&mut self, turn: u32) {
        self.turns.retain(|skipped_in| *skipped_in != turn);
    }

    /// What a client has to know, if there is a gap.
    pub(crate) fn warning(&self) -> Option<String> {
        match self.turns.len() {
            0 => None,
            1 => Some(
                "model_unreadable: a part of the model's answer could not be read and is missing"
                    .to_owned(),
            ),
            n => Some(format!(
                "model_unreadable: {n} parts of the model's answer could not be read and are missing"
            )),
        }
    }
}
