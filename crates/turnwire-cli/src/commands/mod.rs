//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod encryption;
pub(crate) mod follow;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod mcp;
mod on_store;
mod output;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
mod table;
pub(crate) mod watched;
