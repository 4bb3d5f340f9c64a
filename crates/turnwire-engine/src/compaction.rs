//! Shortens old tool results in the prompt.
//!
//! Old results are most of the size of a long conversation and are rarely needed in full. The model
//! sees the start of each and a note that it is shortened. Stored items do not change, and no item
//! is dropped, so every call keeps its result.

use std::sync::Arc;

use turnwire_contract::{Item, Role};

use crate::tool_result::prefix;

/// Bytes of an old result that stay in the prompt.
const SHOWN: usize = 400;

/// Returns `items` with shortened results where they are older than the last `n_turns` user
/// messages.
pub(crate) fn compacted(items: Vec<Arc<Item>>, n_turns: u32) -> Vec<Arc<Item>> {
    let is_question = |item: &Arc<Item>| matches!(**item, Item::Message { role: Role::User, .. });
    let questions = items.iter().enumerate().rev().filter(|(_, item)| is_question(item));
    let n_turns = usize::try_from(n_turns).unwrap_or(usize::MAX);
    let first_whole = match n_turns.checked_sub(1) {
        Some(n_before) => questions.map(|(seq, _)| seq).nth(n_before).unwrap_or(0),
        None => items.len(),
    };
    let shown = |(seq, item)| if seq < first_whole { shortened(item) } else { item };
    items.into_iter().enumerate().map(shown).collect()
}

fn shortened(item: Arc<Item>) -> Arc<Item> {
    match &*item {
        Item::CallResult { call_id, output, images, failed, custom }
            if output.len() > SHOWN || !images.is_empty() =>
        {
            // The guard ensures that something is cut here.
            let output = format!("{}\n[shortened]", prefix(output, SHOWN));
            let (call_id, images) = (call_id.clone(), Vec::new());
            let (failed, custom) = (*failed, *custom);
            Arc::new(Item::CallResult { call_id, output, images, failed, custom })
        }
        Item::CallResult { .. }
        | Item::Message { .. }
        | Item::Reasoning { .. }
        | Item::Call { .. } => item,
    }
}
