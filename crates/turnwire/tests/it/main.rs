//! The SDK from outside: only what a program that depends on `turnwire` can see.
//!
//! One file per subject. `helpers` has what they share; everything else is stories.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

mod cancelling;
mod compile_fail;
mod conversations;
mod errors;
mod events;
mod helpers;
mod kept;
mod message_edges;
mod messages;
mod on_event;
mod public_names;
mod robustness;
mod stream_chat;
mod upstream;
