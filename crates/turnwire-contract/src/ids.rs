//! Names for things: one type each, so that a call can never be mistaken for a run.
//!
//! All of them are cheap to clone, because every event carries a few.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes `text` as it stands.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as it is written on every wire.
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
    /// One run, from input to end: `run_…`.
    RunId
}
id! {
    /// One use of a tool, unique within its run: `call_…`.
    CallId
}
id! {
    /// One piece of assistant output: `msg_…`, `rs_…`, `fc_…`.
    ItemId
}
id! {
    /// A question that a tool asked a person: `inp_…`.
    InputId
}
id! {
    /// A series of runs that share a history: `conv_…`.
    ConversationId
}
id! {
    /// Whose data this is. Every stored row carries one.
    TenantId
}
id! {
    /// A result too big for the journal, kept beside it: `blob_…`.
    BlobId
}
id! {
    /// A file somebody has handed in: `file-…`.
    FileId
}
id! {
    /// Files that are searched together: `vs_…`.
    CollectionId
}
id! {
    /// Files that were attached to a collection together: `vsfb_…`.
    BatchId
}

impl Default for TenantId {
    fn default() -> Self {
        Self::new("default")
    }
}

/// The place of an event in its run: 1, 2, 3, … without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const START: Self = Self(0);

    /// The place after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
