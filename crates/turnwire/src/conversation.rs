//! A conversation with an agent.

use std::{collections::BTreeMap, sync::Arc};

use turnwire_contract::{ConversationId, ConversationRecord, Entry, Item, TenantId};

use crate::{
    agent::Agent,
    chat::{Input, StreamChat},
    error::Error,
    run::Run,
};

/// A series of inputs that share a history. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Conversation {
    agent: Agent,
    id: ConversationId,
}

impl Agent {
    /// Starts a conversation. Each input in it has the previous ones as history.
    pub fn conversation(&self) -> Conversation {
        self.continue_conversation(self.runs.new_conversation_id())
    }

    /// Continues a conversation from the run store.
    pub fn continue_conversation(&self, id: ConversationId) -> Conversation {
        Conversation { agent: self.clone(), id }
    }
}

impl Conversation {
    /// Returns the ID, which can be used to continue the conversation later.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Sends input. Fails while another run of this conversation is in progress.
    pub fn stream_chat(&self, input: impl Into<Input>) -> StreamChat {
        StreamChat::new(self.agent.clone(), Some(self.id.clone()), input.into())
    }

    /// Returns all items so far.
    pub async fn history(&self) -> Result<Vec<Item>, Error> {
        let entries = self.agent.runs.store().history(&TenantId::default(), &self.id).await?;
        Ok(entries.into_iter().map(|entry| Arc::unwrap_or_clone(entry.item)).collect())
    }

    /// Replaces the history with one that was stored elsewhere. Calls no callbacks.
    pub async fn restore(&self, items: Vec<Item>) -> Result<(), Error> {
        let runs = &self.agent.runs;
        let entries = items.into_iter().map(|item| Entry::new(runs.new_id("item"), item)).collect();
        let conversation = ConversationRecord {
            id: self.id.clone(),
            created_at: runs.now(),
            metadata: BTreeMap::new(),
        };
        Ok(runs.store().restore(&TenantId::default(), conversation, entries).await?)
    }

    /// Starts a run without callbacks.
    pub async fn start(&self, input: impl Into<Input>) -> Result<Run, Error> {
        self.stream_chat(input).start().await
    }
}
