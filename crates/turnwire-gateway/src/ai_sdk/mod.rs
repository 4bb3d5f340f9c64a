//! `/ai-sdk/chat`: the chats of pages that use the AI SDK (`useChat` and its transports).
//!
//! A page names its chat with an ID of its own, and sends all messages it has with every request.
//! Here a chat is a conversation: the last message is new, and the conversation has the rest.
//! `request` reads what a page sends, `messages` turns its messages into items, `conversation` finds
//! the conversation of a chat, `chat` starts a run or answers approvals, `stream` sends the
//! chunks and resumes streams, and `socket` does all of it over a WebSocket.

mod chat;
mod conversation;
mod messages;
mod request;
mod socket;
mod stream;

use serde::Deserialize;
use turnwire_surfaces::ai_sdk::Dialect;
use utoipa::{IntoParams, ToSchema};

/// Key under which a run keeps the dialect of the page that started it.
const SURFACE_DATA_KEY: &str = "ai_sdk";

pub(crate) use self::request::ChatRequest;

module_routes! { [chat::chat, socket::connect] [stream::resume] [stream::stop] }

/// The version of the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct SdkParams {
    /// Major version of the `ai` package that reads the stream. A client of version 7 can read 6.
    /// Default: 6.
    #[param(inline)]
    sdk: Option<Sdk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
enum Sdk {
    #[serde(rename = "5")]
    V5,
    #[serde(rename = "6")]
    V6,
    #[serde(rename = "7")]
    V7,
}

impl From<Sdk> for Dialect {
    fn from(sdk: Sdk) -> Self {
        match sdk {
            Sdk::V5 => Self::V5,
            Sdk::V6 => Self::V6,
            Sdk::V7 => Self::V7,
        }
    }
}

impl SdkParams {
    fn dialect(self) -> Option<Dialect> {
        self.sdk.map(Into::into)
    }
}
