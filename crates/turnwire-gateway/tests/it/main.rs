//! The gateway from outside: a real server on a real socket, a scripted model behind it.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fall over"
)]

mod access;
mod ag_ui;
mod ai_sdk;
mod approvals;
mod audit;
mod auth;
mod bounds;
mod chat;
mod chat_choices;
mod chat_completions;
mod closing;
mod costs;
mod custom_tools;
mod disconnect;
mod draining;
mod durable_stream;
mod ephemeral;
mod failed_runs;
mod fairness;
mod faults;
mod file_inputs;
mod files;
mod health;
mod idempotency;
mod identity_provider;
mod lifecycle;
mod mcp_servers;
mod metrics;
mod native;
mod openapi;
mod progress;
mod quotas;
mod reading;
mod refusals;
mod request_fields;
mod responses;
mod responses_socket;
mod run_list;
mod shares;
mod stored;
mod stuck;
mod tenants;
mod text;
mod upstream;
mod webhooks;
mod world;
mod ws_chat;
