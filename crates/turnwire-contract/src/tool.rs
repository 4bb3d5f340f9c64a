//! The description of a tool, and its output.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{BlobId, LibraryAddress, json_size};

/// Description of a tool, for the model, the engine and the surfaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name of the tool, as the model calls it.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Whether the provider enforces `parameters`. The provider decides if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Format of a custom tool's input; any text if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<InputFormat>,
    /// Name of the tool on its server, if [`ToolRef::own_name`] does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_name: Option<String>,
    /// Label of the tool's server, or the namespace assigned by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Description of the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace_description: String,
    /// Whether a call may be repeated after a crash.
    pub effect: Effect,
    /// Whether the tool may run concurrently with other calls of the same answer.
    pub parallel: bool,
    /// Whether each call needs approval.
    #[serde(default)]
    pub needs_approval: bool,
    /// Whether the operator exempted this tool from the approval rules for its effect class.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exempt: bool,
    /// Time after which an unanswered approval request is denied; the run's limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_expiry: Option<Duration>,
    /// The tool's current description, if its definition differs from the trusted one. It is
    /// withheld from the model, and calls need approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// Maximum time without a report from the tool; the run's limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum duration of a call, regardless of progress; the run's limit if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Maximum number of concurrent calls of this tool per process; unlimited if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_at_once: Option<u32>,
    /// Maximum number of concurrent calls of all tools of its server per process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_most_at_once: Option<u32>,
    /// Names of the arguments to use in labels, most significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub telling_arguments: Vec<String>,
    /// Title for display, as its server names the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool's server claims about the tool. The engine does not rely on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<ToolClaims>,
    /// Settings of the tool in the request, passed to every call.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub settings: Value,
}

impl ToolSpec {
    /// Creates a function without arguments, executed by the server. The defaults are conservative:
    /// calls are never repeated and never concurrent.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: serde_json::json!({ "type": "object", "properties": {} }),
            kind: ToolKind::Function,
            strict: None,
            format: None,
            own_name: None,
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
            title: None,
            claims: None,
            settings: Value::Null,
        }
    }

    /// Whether each call needs approval, for any reason.
    pub fn is_guarded(&self) -> bool {
        self.needs_approval || self.changed.is_some()
    }

    /// Returns the name of the tool on its server or client.
    pub fn own_name(&self) -> &str {
        let in_name =
            || ToolRef::own_name_of(&self.name, self.server.as_deref().unwrap_or_default());
        self.own_name.as_deref().unwrap_or_else(in_name)
    }

    /// Returns the size of what a tool server says of the tool: description, schema and titles.
    pub fn catalogue_bytes(&self) -> usize {
        let texts = [Some(&self.name), Some(&self.description), self.title.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        texts + json_size(&self.parameters, usize::MAX).unwrap_or(usize::MAX)
    }

    /// Returns the fields that every event and frame about this tool contains.
    pub fn reference(&self) -> ToolRef {
        ToolRef { name: self.name.clone(), kind: self.kind, server: self.server.clone() }
    }
}

/// Name and kind of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolRef {
    /// Name of the tool.
    pub name: String,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the tool's server, or its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl ToolRef {
    /// Name of the tool on its server or client, without the prefix of `server__name`: that is how
    /// the model is offered a tool whose name is taken.
    pub fn own_name(&self) -> &str {
        Self::own_name_of(&self.name, self.server.as_deref().unwrap_or_default())
    }

    /// Removes the prefix of `server` from `name`.
    pub fn own_name_of<'a>(name: &'a str, server: &str) -> &'a str {
        let own = name.strip_prefix(server).and_then(|rest| rest.strip_prefix("__"));
        own.filter(|_| !server.is_empty()).unwrap_or(name)
    }
}

/// Kind of a tool. It decides how surfaces present the tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A function that the server executes.
    #[default]
    Function,
    /// A function that the client executes. The run ends with the call and continues in another
    /// run.
    Client,
    /// A custom tool. The client executes it like a function, but its input is plain text.
    Custom,
    /// A tool of an MCP server.
    Mcp,
    /// The built-in web search.
    WebSearch,
    /// The built-in file search.
    FileSearch,
}

impl ToolKind {
    /// Whether the client executes the calls. The run ends with them.
    pub fn is_run_by_client(self) -> bool {
        match self {
            Self::Client | Self::Custom => true,
            Self::Function | Self::Mcp | Self::WebSearch | Self::FileSearch => false,
        }
    }
}

/// Format of a custom tool's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputFormat {
    /// Any text.
    Text,
    /// Text that matches a grammar.
    Grammar {
        /// Language of the definition, such as `lark` or `regex`.
        syntax: String,
        /// The grammar.
        definition: String,
    },
}

/// What a tool's server claims about the tool. Nobody has verified it: it is shown to people beside
/// the effect class, which the operator sets. A claim that the server does not make is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ToolClaims {
    /// The tool changes nothing (`readOnlyHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite something (`destructiveHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// A repeated call has no further effect (`idempotentHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool reaches beyond its server, for example the web (`openWorldHint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// Effect class of a tool: whether a call may be repeated after its worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No side effects. The call is repeated.
    Pure,
    /// Repeating the call with the same idempotency key has no further effect. The call is
    /// repeated.
    Idempotent,
    /// The call must not happen twice. It is never repeated, and its outcome is reported as
    /// unknown.
    Once,
}

/// Result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolOutput {
    /// The result as text; only its beginning if `rest` is set.
    pub text: String,
    /// The result as structured data, if the tool returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured: Option<Value>,
    /// Images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Short description of the result for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Where the full text is stored, if it is too large for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<BlobRef>,
}

impl ToolOutput {
    /// Creates a text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns the size of the full text in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.rest.as_ref().map_or(self.text.len() as u64, |rest| rest.bytes)
    }
}

/// Reference to a text that is stored as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlobRef {
    /// ID of the blob.
    #[schema(value_type = String)]
    pub blob: BlobId,
    /// Size in bytes.
    pub bytes: u64,
}

/// An image returned by a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// The image in base64, or the `turnwire-file:` URL of a stored image.
    pub base64: String,
}

impl Image {
    /// Returns a URL: a `data:` URL, or the address in the library.
    pub fn data_url(&self) -> String {
        if LibraryAddress::of(&self.base64).is_some() {
            return self.base64.clone();
        }
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}
