//! ID types: one newtype per kind of object, so that the compiler tells them apart.
//!
//! All of them are cheap to clone, because every event carries several.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an ID from `text` without validation.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the ID as it appears on every wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
    };
}

id! {
    /// ID of a run: `run_…`.
    RunId
}
id! {
    /// ID of a tool call, unique within its run: `call_…`.
    CallId
}
id! {
    /// ID of an output item: `msg_…`, `rs_…`, `fc_…`.
    ItemId
}
id! {
    /// ID of a tool's request for user input: `inp_…`.
    InputId
}
id! {
    /// ID of a conversation, a series of runs that share a history: `conv_…`.
    ConversationId
}
id! {
    /// ID of a tenant. Every stored row has one.
    TenantId
}
id! {
    /// ID of a blob, a tool result too large for the journal: `blob_…`.
    BlobId
}
id! {
    /// ID of an uploaded file: `file-…`.
    FileId
}
id! {
    /// ID of a collection, a set of files that are searched together: `vs_…`.
    CollectionId
}
id! {
    /// ID of a batch, files attached to a collection together: `vsfb_…`.
    BatchId
}

impl Default for TenantId {
    fn default() -> Self {
        Self::new("default")
    }
}

/// Sequence number of an event in its run: 1, 2, 3, … without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number before the first event.
    pub const START: Self = Self(0);

    /// Returns the next sequence number.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
