//! Shortens old tool results in the prompt.
//!
//! Old results are most of the size of a long conversation and are rarely needed in full. The model
//! sees the start of each and a note that it is shortened. Stored items do not change, and no item
//! is dropped, so every call keeps its result.
//!
//! Results are shortened in batches, because each change of the prompt's beginning costs the
//! provider's cache and the reasoning that is signed over it.

use std::sync::Arc;

use turnwire_contract::{Item, Role};

use crate::tool_result::prefix;

/// Bytes of an old result that stay in the prompt.
const SHOWN: usize = 400;

/// Returns `items`, the conversation before the current user message, with the oldest results
/// shortened. The results of the last `n_turns` user messages are whole, the current one included;
/// those before them are shortened when there are `n_turns` more.
pub(crate) fn compacted(items: Vec<Arc<Item>>, n_turns: u32) -> Vec<Arc<Item>> {
    let is_question = |item: &Arc<Item>| matches!(**item, Item::Message { role: Role::User, .. });
    let questions = items.iter().enumerate().filter(|(_, item)| is_question(item));
    let questions: Vec<usize> = questions.map(|(place, _)| place).collect();
    let batch = usize::try_from(n_turns).unwrap_or(usize::MAX).max(1);
    let old = (questions.len() + 1).saturating_sub(batch);
    let first_whole = match old / batch * batch {
        0 => 0,
        n_shortened => questions.get(n_shortened).copied().unwrap_or(items.len()),
    };
    let shown = |(place, item)| if place < first_whole { shortened(item) } else { item };
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
