//! The conversation of a chat.
//!
//! The ID of the conversation is derived from the tenant and the ID of the chat, so that two
//! tenants never share one, whatever their pages call their chats. A chat whose ID is that of a
//! conversation of the tenant is that conversation: a page can continue what was started elsewhere.

use turnwire_contract::{
    CallId, ConversationId, ConversationRecord, Entry, Item, ItemId, Role, RunId, StoreError,
};

use super::{
    messages::earlier_items,
    request::{ChatRequest, check_chat_id},
};
use crate::{App, Caller, Result, fingerprint::conversation_id};

/// The protocol, for the IDs of its conversations.
const PROTOCOL: &str = "ai-sdk";

/// The conversation of a chat.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chat {
    pub(super) conversation_id: ConversationId,
    /// Whether the conversation is stored.
    pub(super) exists: bool,
}

impl Chat {
    /// The conversation of the chat with this ID.
    pub(super) async fn find(app: &App, caller: &Caller, chat_id: &str) -> Result<Self> {
        check_chat_id(chat_id, "id")?;
        if chat_id.starts_with("conv_")
            && exists(app, caller, &ConversationId::from(chat_id)).await?
        {
            return Ok(Self { conversation_id: ConversationId::from(chat_id), exists: true });
        }
        let conversation_id = conversation_id(PROTOCOL, caller.tenant(), chat_id);
        let exists = exists(app, caller, &conversation_id).await?;
        Ok(Self { conversation_id, exists })
    }

    /// The conversation of a request. A request without the ID of a chat continues the conversation
    /// of its last answer.
    pub(super) async fn of(app: &App, caller: &Caller, request: &ChatRequest) -> Result<Self> {
        if let Some(chat_id) = &request.chat_id {
            return Self::find(app, caller, chat_id).await;
        }
        if let Some(conversation_id) = request.last_conversation()
            && exists(app, caller, &conversation_id).await?
        {
            return Ok(Self { conversation_id, exists: true });
        }
        Ok(Self { conversation_id: app.runs().new_conversation_id(), exists: false })
    }

    /// The run in progress, if there is one.
    pub(super) async fn active_run(&self, app: &App, caller: &Caller) -> Result<Option<RunId>> {
        let (runs, tenant) = (app.runs(), caller.tenant());
        let active = runs.store().active_run(tenant, &self.conversation_id).await?;
        let Some(run_id) = active else { return Ok(None) };
        // A run that has ended is stored a moment later.
        let head = runs.head(tenant, &run_id).await?;
        Ok((!head.is_over).then_some(run_id))
    }

    /// Stores the earlier messages of a request as the history of a new conversation.
    pub(super) async fn open_with(
        &self,
        app: &App,
        caller: &Caller,
        request: &ChatRequest,
    ) -> Result<()> {
        let items = earlier_items(&request.messages, &app.options().requests)?;
        if items.is_empty() {
            return Ok(());
        }
        let named = |item: Item| {
            let prefix = match &item {
                Item::Message { .. } => "msg",
                Item::Reasoning { .. } => "rs",
                Item::Call { .. } => "fc",
                Item::CallResult { .. } => "fco",
            };
            Entry::new(app.runs().new_id(prefix), item)
        };
        let record = ConversationRecord {
            id: self.conversation_id.clone(),
            created_at: app.runs().now(),
            metadata: std::collections::BTreeMap::new(),
        };
        let entries = items.into_iter().map(named).collect();
        match app.runs().store().restore(caller.tenant(), record, entries).await {
            // Another request of the same chat was quicker.
            Ok(()) | Err(StoreError::Exists(_)) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// The calls that the page executes and whose outputs the conversation does not have.
    pub(super) async fn open_calls(&self, app: &App, caller: &Caller) -> Result<Vec<CallId>> {
        let entries = app.runs().history(caller.tenant(), &self.conversation_id).await?;
        let mut open = Vec::new();
        for entry in &entries {
            match &*entry.item {
                Item::Call { call_id, kind, .. } if kind.is_run_by_client() => {
                    open.push(call_id.clone());
                }
                Item::CallResult { call_id, .. } => open.retain(|open| open != call_id),
                Item::Call { .. } | Item::Message { .. } | Item::Reasoning { .. } => {}
            }
        }
        Ok(open)
    }

    /// The entry of the last user message of the request, which is answered again. A run that
    /// replaces it supersedes it and everything after it.
    pub(super) async fn entry_of(
        &self,
        app: &App,
        caller: &Caller,
        request: &ChatRequest,
        input: &Item,
    ) -> Result<Option<ItemId>> {
        let entries = app.runs().history(caller.tenant(), &self.conversation_id).await?;
        let position = position_of(&entries, request.n_user_messages(), input);
        Ok(position.and_then(|position| entries.get(position)).map(|entry| entry.id.clone()))
    }
}

/// Position of the user message `input`, which is the `n`th of the page. A page that does not send
/// all of its messages counts wrong, so the last message that is the same is used then. If none is,
/// the message was edited, and the position is taken as it is.
fn position_of(entries: &[Entry], n: usize, input: &Item) -> Option<usize> {
    let is_users = |item: &Item| matches!(item, Item::Message { role: Role::User, .. });
    let positions = entries.iter().enumerate().filter(|(_, entry)| is_users(&entry.item));
    let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
    let counted = n.checked_sub(1).and_then(|n| positions.get(n)).copied();
    let is_it =
        |position: &usize| entries.get(*position).is_some_and(|entry| *entry.item == *input);
    if counted.as_ref().is_some_and(is_it) {
        return counted;
    }
    positions.iter().copied().rev().find(is_it).or(counted)
}

async fn exists(app: &App, caller: &Caller, id: &ConversationId) -> Result<bool> {
    match app.runs().store().conversation(caller.tenant(), id).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
