//! The conversation before the run, as messages of the list.
//!
//! A conversation is stored as items, because models read items; users see messages, each with its
//! calls. No frames are sent about these messages.

use turnwire_contract::{
    Content, Failure, Image, Item, Role, ToolKind, ToolOutcome, ToolOutput, ToolRef,
};

use crate::{
    clean::clean,
    message::{Message, MessageState, ToolBlock},
    partial_json::PartialJson,
    preview::label,
};

/// The messages of a conversation so far.
pub(crate) fn messages_of(history: &[Item]) -> Vec<Message> {
    let mut list: Vec<Message> = Vec::new();
    // Whether the last message is the model's and more of the same turn may follow.
    let mut turn_is_open = false;
    for item in history {
        let is_the_models = !matches!(item, Item::Message { role: Role::User | Role::System, .. });
        if matches!(item, Item::CallResult { .. }) {
            turn_is_open = false;
            end_earlier_block(&mut list, item);
            continue;
        }
        if !(is_the_models && turn_is_open) {
            let role = if is_the_models { Role::Assistant } else { role_of(item) };
            let id = format!("earlier_{}", list.len() + 1);
            list.push(Message::new(id, role, MessageState::Complete));
        }
        turn_is_open = is_the_models;
        if let Some(message) = list.last_mut() {
            add(message, item);
        }
    }
    list
}

fn add(message: &mut Message, item: &Item) {
    match item {
        Item::Message { content, .. } => {
            message.content.extend(content.iter().map(|content| clean(words_of(content))));
        }
        Item::Reasoning { text, .. } => message.reasoning.push_str(&clean(text)),
        Item::Call { call_id, name, arguments, .. } => {
            let tool = ToolRef { name: name.clone(), kind: ToolKind::Function, server: None };
            let mut read = PartialJson::new();
            read.push(arguments);
            message.tool_blocks.push(ToolBlock {
                parameters: arguments.clone(),
                compact_params: label(&[], &read),
                ..ToolBlock::new(call_id.clone(), tool)
            });
        }
        Item::CallResult { .. } => {}
    }
}

/// Ends the block that `item` is the result of, if it is one.
pub(crate) fn end_earlier_block(list: &mut [Message], item: &Item) {
    let Item::CallResult { call_id, output, images, failed, .. } = item else { return };
    let mut blocks = list.iter_mut().rev().flat_map(|message| &mut message.tool_blocks);
    if let Some(block) = blocks.find(|block| block.id == *call_id) {
        block.end(&outcome_of(output, images, *failed), 0);
    }
}

/// The outcome of the call, as far as the item shows it.
fn outcome_of(output: &str, images: &[Image], failed: bool) -> ToolOutcome {
    if failed {
        let message = output.strip_prefix("Error: ").unwrap_or(output);
        return ToolOutcome::Failed { failure: Failure::new("tool_failed", message) };
    }
    let output = ToolOutput { images: images.to_vec(), ..ToolOutput::text(output) };
    ToolOutcome::Succeeded { output }
}

fn role_of(item: &Item) -> Role {
    match item {
        Item::Message { role, .. } => *role,
        Item::Reasoning { .. } | Item::Call { .. } | Item::CallResult { .. } => Role::Assistant,
    }
}

/// The text of a part; empty for an image or a file.
pub(crate) fn words_of(content: &Content) -> &str {
    match content {
        Content::Text { text } | Content::Refusal { text } => text,
        Content::Image { .. } | Content::File { .. } => "",
    }
}

#[cfg(test)]
#[path = "earlier_tests.rs"]
mod tests;
