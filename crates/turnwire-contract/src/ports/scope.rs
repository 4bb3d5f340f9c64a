//! Scopes: what the holder of a key or token may do.
//!
//! Most of them are fixed and belong to routes. Those that begin with `use:` are names of the
//! operator's own, for models and tools that not everybody may use. A scope stays small enough to be
//! copied, so that a set of them is compared without following pointers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, Schema, Type},
    },
};

/// What the scopes of the operator's own begin with.
const USE: &str = "use:";
/// Maximum length of such a scope, in bytes.
const MAX_USE: usize = 63;
/// The form of a scope, for the OpenAPI document.
const PATTERN: &str = "^(runs:read|runs:write|approve|files|metrics|admin|operator|use:(\\*|[A-Za-z0-9._:/-]{1,59}))$";

/// What a key allows. A key may have several scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read runs, responses, conversations, models and tool servers.
    RunsRead,
    /// Start, cancel, share and delete runs, and change conversations.
    RunsWrite,
    /// Answer approval requests and the questions of tools.
    Approve,
    /// Read and change files and vector stores.
    Files,
    /// Read metrics.
    Metrics,
    /// Manage the keys of the own tenant, and read its audit log and its webhook deliveries.
    Admin,
    /// Manage the keys of every tenant, and read the whole audit log.
    Operator,
    /// Use the models and tools that name this scope.
    Use(UseScope),
    /// Use all models and tools: `use:*`.
    UseAll,
}

/// A scope of the operator's own: `use:` and a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseScope {
    /// The whole text, filled up with zeros.
    text: [u8; MAX_USE],
    len: u8,
}

impl UseScope {
    fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix(USE)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_plain);
        if text.len() > MAX_USE || !is_name {
            return None;
        }
        let mut kept = [0; MAX_USE];
        kept.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { text: kept, len: u8::try_from(text.len()).ok()? })
    }

    /// Returns the whole scope, as it is written on the wire and on the command line.
    pub fn as_str(&self) -> &str {
        let text = self.text.get(..usize::from(self.len)).unwrap_or_default();
        str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Debug for UseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Scope {
    /// All scopes: the fixed ones, and the one that stands for all others.
    pub const ALL: [Self; 8] = [
        Self::RunsRead,
        Self::RunsWrite,
        Self::Approve,
        Self::Files,
        Self::Metrics,
        Self::Admin,
        Self::Operator,
        Self::UseAll,
    ];

    /// Scopes of a key that names none: everything but the management of keys.
    pub const USUAL: [Self; 4] = [Self::RunsRead, Self::RunsWrite, Self::Approve, Self::Files];

    /// Returns the name, as it is written on the wire and on the command line.
    pub fn as_str(&self) -> &str {
        match self {
            Self::RunsRead => "runs:read",
            Self::RunsWrite => "runs:write",
            Self::Approve => "approve",
            Self::Files => "files",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Use(own) => own.as_str(),
            Self::UseAll => "use:*",
        }
    }

    /// Whether the scope is one for models and tools.
    pub fn is_for_use(&self) -> bool {
        matches!(self, Self::Use(_) | Self::UseAll)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a scope; there are runs:read, runs:write, approve, files, metrics, admin, \
     operator, and use:NAME with up to 59 letters, digits and . _ : / -"
)]
pub struct UnknownScope(pub String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        let found = found.or_else(|| UseScope::parse(text).map(Self::Use));
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl PartialSchema for Scope {
    fn schema() -> RefOr<Schema> {
        let description = "What a key allows: one of the fixed scopes, or `use:` and a name of the \
                           operator's own for models and tools that not everybody may use. \
                           `use:*` stands for all of these.";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(PATTERN))
            .description(Some(description))
            .into()
    }
}

impl ToSchema for Scope {}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
