//! Old results, shortened.
//!
//! What a tool brought ten questions ago is rarely needed word for word, and it is most of what
//! a long conversation weighs. So the model is shown the beginning of old results and told that
//! there was more. Nothing is changed in what is kept, no item is left out, and so no call is
//! ever parted from its result.

use std::sync::Arc;

use turnwire_contract::{Item, Role};

use crate::tool_result::prefix;

/// How many bytes of an old result are shown.
const SHOWN: usize = 400;

/// `items` with the results shortened that are older than the last `n_turns` messages of the
/// user.
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
            // The guard saw to it that something is left out, so it is said.
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
