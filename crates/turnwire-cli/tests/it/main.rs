//! The real binary: in pipes, in a terminal, against a server on the loopback.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

mod access_log;
mod asking;
mod audit;
mod backup;
#[cfg(target_os = "linux")]
mod bounds;
mod canaries;
mod chat;
mod check;
mod choices;
mod completions;
mod config;
mod doctor;
mod echoing_servers;
mod encryption;
mod exit_codes;
mod fake_upstream;
mod follow;
#[cfg(target_os = "linux")]
mod full_disk;
mod functions;
mod keys;
mod left_out;
mod mcp;
mod odd_ids;
mod otlp_metrics;
mod otlp_receiver;
mod pipes;
mod read;
mod reload;
mod runs;
mod serve;
mod settings;
mod terminal;
mod tool_servers;
mod toy;
mod traces;
mod upstreams;
mod webhooks;
mod world;
