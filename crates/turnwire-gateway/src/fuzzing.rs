//! Entry points for fuzzing: the bodies and messages of clients.

use serde_json::Value;

use crate::{
    ag_ui::AgentRequest, ai_sdk::ChatRequest, chat_completions::translate,
    chat_message::ChatMessage, json, limits::RequestLimits, responses::request,
    vector_stores::body as vector_store,
};

/// A body of the Responses API, which is also a message on its socket.
pub fn responses_body(bytes: &[u8]) {
    let limits = RequestLimits::default();
    let Some(body) = read(bytes, &limits) else { return };
    let Ok(created) = request::read(body, &limits) else { return };
    drop(format!("{created:?}"));
}

/// A body of Chat Completions, and the request that it becomes.
pub fn chat_completions_body(bytes: &[u8]) {
    let limits = RequestLimits::default();
    let Some(body) = read(bytes, &limits) else { return };
    let Ok(translated) = translate(body, &limits) else { return };
    drop(request::read(translated.body, &limits));
}

/// A body of `/chat`.
pub fn chat_body(bytes: &[u8]) {
    let Some(body) = read(bytes, &RequestLimits::default()) else { return };
    drop(ChatMessage::read(body));
}

/// A body of `/ai-sdk/chat`.
pub fn ai_sdk_body(bytes: &[u8]) {
    let Some(body) = read(bytes, &RequestLimits::default()) else { return };
    drop(ChatRequest::read(body));
}

/// A body of `/ag-ui`.
pub fn ag_ui_body(bytes: &[u8]) {
    let limits = RequestLimits::default();
    let Some(body) = read(bytes, &limits) else { return };
    drop(AgentRequest::read(body, &limits));
}

/// The bodies of vector stores.
pub fn vector_store_body(bytes: &[u8]) {
    let Some(body) = read(bytes, &RequestLimits::default()) else { return };
    drop(vector_store::read_store(body.clone()));
    drop(vector_store::read_batch(body.clone()));
    drop(vector_store::read_attach(body));
}

fn read(bytes: &[u8], limits: &RequestLimits) -> Option<Value> {
    json::read(bytes, &limits.json).ok()
}
