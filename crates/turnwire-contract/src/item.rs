//! Items of a conversation, in the form that models receive.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{CallId, ItemId, RunId, ToolKind};

/// An item and its ID in the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// ID of the item.
    pub id: ItemId,
    /// The item. Shared, because a long conversation is read many times.
    pub item: Arc<Item>,
}

impl Entry {
    /// Creates an entry for `item` with the ID `id`.
    pub fn new(id: impl Into<Arc<str>>, item: Item) -> Self {
        Self { id: ItemId::new(id), item: Arc::new(item) }
    }

    /// Returns the input of the run `run_id` as entries. The IDs are deterministic.
    pub fn of_input(run_id: &RunId, input: &[Item]) -> Vec<Self> {
        let run = Self::run_part(run_id);
        let named = |(n, item): (usize, &Item)| {
            let prefix = match item {
                Item::Message { .. } => "msg",
                Item::Reasoning { .. } => "rs",
                Item::Call { kind: ToolKind::Custom, .. } => "ctc",
                Item::Call { .. } => "fc",
                Item::CallResult { custom: true, .. } => "ctco",
                Item::CallResult { .. } => "fco",
            };
            Self::new(format!("{prefix}_{run}_{n}"), item.clone())
        };
        input.iter().enumerate().map(named).collect()
    }

    /// Returns the part of a run's ID that is in the IDs of its input.
    pub fn run_part(run_id: &RunId) -> &str {
        let run = run_id.as_str();
        run.split_once('_').map_or(run, |(_, rest)| rest)
    }
}

/// An item of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// A message.
    Message {
        /// Author of the message.
        role: Role,
        /// Parts of the message.
        content: Vec<Content>,
    },
    /// Reasoning of the model. It is sent back to the provider that produced it.
    Reasoning {
        /// The readable text.
        text: String,
        /// Opaque signature or encrypted content from the provider.
        #[serde(rename = "seal", default, skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
    },
    /// A tool call by the model.
    Call {
        /// ID of the call.
        call_id: CallId,
        /// Name of the tool.
        name: String,
        /// A JSON object as text, always valid JSON, even if the model's output was not. Plain text
        /// for a custom tool.
        arguments: String,
        /// Kind of the tool.
        #[serde(default)]
        kind: ToolKind,
        /// Label of the tool's server, or the namespace assigned by the client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    /// The result of a call. Every call in a history has one.
    CallResult {
        /// ID of the call.
        call_id: CallId,
        /// Text that the model receives.
        output: String,
        /// Images returned by the tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<crate::Image>,
        /// Whether the call failed.
        failed: bool,
        /// Whether a client sent this as the result of a custom tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        custom: bool,
    },
}

impl Item {
    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::Message { role: Role::User, content: vec![Content::text(text)] }
    }

    /// Creates an assistant message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Message { role: Role::Assistant, content: vec![Content::text(text)] }
    }

    /// Creates a function call.
    pub fn call(
        call_id: impl Into<Arc<str>>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self::Call {
            call_id: CallId::new(call_id),
            name: name.into(),
            arguments: arguments.into(),
            kind: ToolKind::Function,
            server: None,
        }
    }
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The application.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A refusal by the model.
    Refusal {
        /// The text of the refusal.
        text: String,
    },
    /// An image, by URL. A `data:` URL contains the image; a `turnwire-file:` URL
    /// ([`LibraryAddress`](crate::LibraryAddress)) names a stored file.
    Image {
        /// URL of the image.
        url: String,
        /// Resolution at which the model sees the image, passed to the provider as is. The provider
        /// chooses if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A file, by URL. A `data:` URL contains the file; a `turnwire-file:` URL
    /// ([`LibraryAddress`](crate::LibraryAddress)) names a stored file.
    File {
        /// Name of the file.
        name: String,
        /// URL of the file.
        url: String,
    },
}

impl Content {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates an image part with the provider's default resolution.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into(), detail: None }
    }
}

/// Log probability of a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Logprob {
    /// The token.
    pub token: String,
    /// Natural logarithm of the token's probability.
    pub logprob: f64,
    /// UTF-8 bytes of the token, if the provider sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// The most likely alternatives at this position, most likely first. They have no alternatives
    /// of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub top: Vec<Logprob>,
}

/// A citation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Annotation {
    /// Kind of the source, such as `url_citation` or `file_citation`.
    pub kind: String,
    /// Fields of the citation, depending on its kind.
    #[schema(value_type = Object)]
    pub source: Value,
}

/// Whether the model completed an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// The model completed it.
    Complete,
    /// It was cut off by a limit, a cancellation or a broken connection.
    Cut,
    /// Its worker failed. A later item replaces it.
    Superseded,
}
