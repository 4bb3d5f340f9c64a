//! Platforms without a controlling terminal: nobody is asked.

use std::convert::Infallible;

use super::input::{Input, Request};

#[derive(Debug)]
pub(crate) struct KeyboardOptions {
    pub(crate) editor: Option<String>,
    pub(crate) reads_keys: bool,
    pub(crate) typed_ahead: Option<TypedAhead>,
}

/// Nothing is typed ahead.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedAhead;

impl TypedAhead {
    pub(crate) fn take(&self) -> String {
        String::new()
    }
}

/// There is none.
#[derive(Debug)]
pub(crate) struct Keyboard(Infallible);

impl Keyboard {
    pub(crate) fn open(_: KeyboardOptions) -> Option<Self> {
        None
    }

    pub(crate) fn ask(&self, _: Request) {
        match self.0 {}
    }

    pub(crate) async fn next(&mut self) -> Option<Input> {
        match self.0 {}
    }
}

/// There is nothing to restore.
#[derive(Debug)]
pub(crate) struct TerminalMode;

impl TerminalMode {
    pub(crate) fn save() -> Option<Self> {
        None
    }
}
