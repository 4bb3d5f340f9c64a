//! The store from outside, on real servers: one file per subject.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fall over"
)]

mod journal;
mod journals;
mod notifications;
mod proxy;
