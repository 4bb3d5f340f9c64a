//! What is known about a tool, and what it returns.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{BlobId, LibraryAddress};

/// Everything the model, the engine and the surfaces need to know about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, as the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// What kind of tool it is.
    pub kind: ToolKind,
    /// Whether the provider holds the model to `parameters`; its own choice if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// What the input of a custom tool looks like; any text if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<InputFormat>,
    /// The server it lives on, or the namespace that the client has put it into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What the namespace is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace_description: String,
    /// What may happen after a crash in the middle of a call.
    pub effect: Effect,
    /// Whether it may run beside other calls of the same answer.
    pub parallel: bool,
    /// Whether a person must allow each call.
    #[serde(default)]
    pub needs_approval: bool,
    /// Whether the operator has said that nobody need be asked about this tool, whatever holds
    /// for others of its effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exempt: bool,
    /// How long a person may take to allow a call; the run's own limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_expiry: Option<Duration>,
    /// What it says of itself now, withheld from the model, if its definition is not the one
    /// that was trusted before: a person must allow it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// How long it may stay silent; the engine's own limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How long a call may take altogether, whatever it reports; the run's own limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// How many calls of it one process carries out at the same time; any number if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_at_once: Option<u32>,
    /// How many calls of all tools of its server one process carries out at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_most_at_once: Option<u32>,
    /// Which arguments say best what a call is about, most telling first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub telling_arguments: Vec<String>,
    /// What a request says about this tool, handed to it with every call.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub settings: Value,
}

impl ToolSpec {
    /// A function with no arguments, run by the server, with the most careful settings:
    /// it is never called twice, and never beside another.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: serde_json::json!({ "type": "object", "properties": {} }),
            kind: ToolKind::Function,
            strict: None,
            format: None,
            server: None,
            namespace_description: String::new(),
            effect: Effect::Once,
            parallel: false,
            needs_approval: false,
            exempt: false,
            approval_expiry: None,
            changed: None,
            timeout: None,
            deadline: None,
            most_at_once: None,
            server_most_at_once: None,
            telling_arguments: Vec::new(),
            settings: Value::Null,
        }
    }

    /// Whether a person must allow each call, for whatever reason.
    pub fn is_guarded(&self) -> bool {
        self.needs_approval || self.changed.is_some()
    }

    /// The facts that every event and frame about this tool repeats.
    pub fn reference(&self) -> ToolRef {
        ToolRef { name: self.name.clone(), kind: self.kind, server: self.server.clone() }
    }
}

/// Which tool, and of what kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolRef {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ToolKind,
    /// The server it lives on, or its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl ToolRef {
    /// The name its server or its client knows it by: where two servers have a tool of the same
    /// name, the model is offered both as `server__name`.
    pub fn own_name(&self) -> &str {
        Self::own_name_of(&self.name, self.server.as_deref().unwrap_or_default())
    }

    /// What is left of `name` without the name of its `server` before it.
    pub fn own_name_of<'a>(name: &'a str, server: &str) -> &'a str {
        let own = name.strip_prefix(server).and_then(|rest| rest.strip_prefix("__"));
        own.filter(|_| !server.is_empty()).unwrap_or(name)
    }
}

/// What kind of tool, which decides how surfaces speak of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A function that the server runs.
    #[default]
    Function,
    /// A function that the client runs: the run ends with the call, and goes on in another.
    Client,
    /// A custom tool: the client runs it as it does a function, but its input is plain text.
    Custom,
    /// A tool of an MCP server.
    Mcp,
    /// The built-in web search.
    WebSearch,
    /// The built-in file search.
    FileSearch,
}

impl ToolKind {
    /// Whether the client carries out the calls: the run ends with them.
    pub fn is_run_by_client(self) -> bool {
        match self {
            Self::Client | Self::Custom => true,
            Self::Function | Self::Mcp | Self::WebSearch | Self::FileSearch => false,
        }
    }
}

/// What the input of a custom tool looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputFormat {
    /// Any text.
    Text,
    /// Text that fits a grammar.
    Grammar {
        /// The language of the definition, such as `lark` or `regex`.
        syntax: String,
        /// The grammar.
        definition: String,
    },
}

/// What a call does to the world, and so what may happen when its worker dies half-way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: call it again.
    Pure,
    /// The same thing, however often it is called with the same key: call it again.
    Idempotent,
    /// Something that must not happen twice: never call it again, say the outcome is unknown.
    Once,
}

/// What a tool returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolOutput {
    /// The result as text; only its beginning when [`Self::rest`] is set.
    pub text: String,
    /// The result as data, if the tool gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured: Option<Value>,
    /// Pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The result in a few words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Where the whole text is, when it was too big for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<BlobRef>,
}

impl ToolOutput {
    /// A result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// How many bytes the whole text has, wherever it is kept.
    pub fn total_bytes(&self) -> u64 {
        self.rest.as_ref().map_or(self.text.len() as u64, |rest| rest.bytes)
    }
}

/// A text kept beside the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlobRef {
    /// Where the whole text is.
    #[schema(value_type = String)]
    pub blob: BlobId,
    /// How many bytes it has.
    pub bytes: u64,
}

/// A picture a tool returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64; or, of one that is kept, its [`LibraryAddress`].
    pub base64: String,
}

impl Image {
    /// The picture by address: one that carries it along, or one in the library.
    pub fn data_url(&self) -> String {
        if LibraryAddress::of(&self.base64).is_some() {
            return self.base64.clone();
        }
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}
