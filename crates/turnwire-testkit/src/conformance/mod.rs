//! One test per promise of a port. Every adapter runs the whole suite.

pub mod blob_store;
pub mod event_log;
pub mod library;
pub mod pins;
pub mod run_store;
pub mod workers;
