//! What is typed while a run is watched, and what is asked for.

/// A key that means something while a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Escape,
    CtrlB,
    /// `o`: the last call in full.
    Open,
    /// `?`: what the keys mean.
    Help,
}

#[derive(Debug)]
pub(crate) enum Input {
    Key(Key),
    Line(Line),
}

/// An answer, and the number of the request it was typed for.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) request: u64,
    /// None if the terminal is closed or the editor failed.
    pub(crate) text: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Request {
    Line(u64),
    /// This text, edited in the editor, or typed again if there is none.
    Edited(u64, String),
    /// The last request is no longer interesting.
    Withdrawn,
}
