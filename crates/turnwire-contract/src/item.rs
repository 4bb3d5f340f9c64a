//! What a conversation is made of, as the model is shown it.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{CallId, FileId, ItemId, ToolKind};

/// An item with the name it goes by in its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub id: ItemId,
    /// What it is. Shared, because a long conversation is read many times.
    pub item: Arc<Item>,
}

impl Entry {
    /// `item` under the name `id`.
    pub fn new(id: impl Into<Arc<str>>, item: Item) -> Self {
        Self { id: ItemId::new(id), item: Arc::new(item) }
    }
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Somebody said something.
    Message {
        /// Who.
        role: Role,
        /// What.
        content: Vec<Content>,
    },
    /// The model thought something; handed back to the provider that made it.
    Reasoning {
        /// The readable part.
        text: String,
        /// The provider's opaque proof.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<String>,
    },
    /// The model asked for a tool.
    Call {
        /// The call.
        call_id: CallId,
        /// The tool's name.
        name: String,
        /// A JSON object as text, always legal JSON, whatever the model wrote. Of a custom tool,
        /// its input as it is.
        arguments: String,
        /// What kind of tool it is.
        #[serde(default)]
        kind: ToolKind,
        /// The server it lives on, or the namespace that the client has put it into.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    /// What came of a call. Every [`Item::Call`] in a history has one.
    CallResult {
        /// The call.
        call_id: CallId,
        /// What the model is told.
        output: String,
        /// Pictures the tool returned.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<crate::Image>,
        /// Whether the tool failed.
        failed: bool,
        /// Whether a client has sent it as the result of a custom tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        custom: bool,
    },
}

impl Item {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::Message { role: Role::User, content: vec![Content::text(text)] }
    }

    /// A message of the assistant.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Message { role: Role::Assistant, content: vec![Content::text(text)] }
    }

    /// A call of a function.
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

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The application.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A refusal in the model's words.
    Refusal {
        /// The words.
        text: String,
    },
    /// A picture, by address; `data:` addresses carry it along, and a [`LibraryAddress`] names one
    /// that is kept.
    Image {
        /// Where it is.
        url: String,
        /// How closely to look at it, in the provider's words; its own choice if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A file, by address; `data:` addresses carry it along, and a [`LibraryAddress`] names one
    /// that is kept.
    File {
        /// What it is called.
        name: String,
        /// Where it is.
        url: String,
    },
}

impl Content {
    /// Plain words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A picture, looked at as closely as the provider likes.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into(), detail: None }
    }
}

/// How likely a token of an answer was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Logprob {
    /// The token.
    pub token: String,
    /// The logarithm of its probability.
    pub logprob: f64,
    /// Its bytes, if the provider told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// What else might have stood there, likeliest first. These have no alternatives of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub top: Vec<Logprob>,
}

/// The address of a file in the library, in place of what is in it. A conversation only names the
/// files it is about; they are read when the model is asked, however often that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryAddress {
    /// Which file.
    pub file_id: FileId,
    /// Its media type, such as `image/png`.
    pub media_type: String,
}

impl LibraryAddress {
    const SCHEME: &'static str = "turnwire-file:";

    /// Reads an address, if it is one of a file in the library.
    pub fn of(url: &str) -> Option<Self> {
        let (file_id, media_type) = url.strip_prefix(Self::SCHEME)?.split_once(';')?;
        Some(Self { file_id: FileId::from(file_id), media_type: media_type.to_owned() })
    }
}

impl fmt::Display for LibraryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{};{}", Self::SCHEME, self.file_id, self.media_type)
    }
}

/// Where a statement comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Annotation {
    /// The kind of source, such as `url_citation` or `file_citation`.
    pub kind: String,
    /// The facts of that kind.
    #[schema(value_type = Object)]
    pub source: Value,
}

/// Whether something was said to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    /// The model finished it.
    Complete,
    /// It was cut: by a limit, a cancel or a broken connection.
    Cut,
    /// Its worker died; what follows replaces it.
    Superseded,
}
