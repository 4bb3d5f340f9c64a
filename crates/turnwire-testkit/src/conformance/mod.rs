//! One test per guarantee of a port. Every adapter runs the whole suite.

pub mod api_keys;
pub mod blob_store;
pub mod journal;
pub mod library;
pub mod pins;
pub mod run_listing;
pub mod run_store;
pub mod shares;
pub mod workers;
