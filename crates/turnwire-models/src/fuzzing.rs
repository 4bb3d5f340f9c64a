//! Entry points for fuzzing: the answer of each provider, in pieces.

use crate::{
    anthropic_messages, chat_completions, openai_responses,
    provider_error::fault_of_status,
    translator::{Dialect, Translator},
};

/// An answer in the Chat Completions format.
pub fn chat_completions(bytes: &[u8]) {
    translate(chat_completions::dialect(), bytes);
}

/// An answer in the format of Anthropic's Messages API.
pub fn anthropic_messages(bytes: &[u8]) {
    translate(anthropic_messages::dialect(), bytes);
}

/// An answer in the format of OpenAI's Responses API.
pub fn openai_responses(bytes: &[u8]) {
    translate(openai_responses::dialect(), bytes);
}

/// The body of an error response.
pub fn error_body(bytes: &[u8]) {
    drop(fault_of_status(400, None, &String::from_utf8_lossy(bytes)));
}

/// The first byte chooses the size of the pieces.
fn translate<D: Dialect>(dialect: D, bytes: &[u8]) {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let mut translator = Translator::new(dialect);
    for piece in bytes.chunks(usize::from(size).max(1) * 8) {
        drop(translator.push(piece));
    }
    drop(translator.finish("the connection ended"));
}
