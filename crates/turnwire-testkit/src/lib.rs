//! Support for the tests of every crate.
//!
//! * [`test_bench`] executes a scripted run in simulated time and returns its journal;
//! * [`fake_tools`] are tools with every behaviour;
//! * [`fake_servers`] are tool servers with every behaviour;
//! * [`forwarding`] is a store that is slow or broken where a test wants it;
//! * [`hostile_mcp`] is an MCP server that means harm;
//! * [`identity_provider`] signs tokens;
//! * [`scenarios`] are the recorded runs that every surface renders;
//! * [`golden`] compares with golden files, or writes them;
//! * [`surfaces`] renders a journal for each surface;
//! * [`invariants`] checks a journal, and [`ag_ui_order`] a stream of AG-UI;
//! * [`scripts`] generates random runs;
//! * [`mcp_server`] is an MCP server with every behaviour;
//! * [`services`] starts a real PostgreSQL and a real Redis;
//! * [`stopwatch`] times what a benchmark does;
//! * [`stub_server`] gives one answer over HTTP;
//! * [`conformance`] has one test per guarantee of a port;
//! * [`upstreams`] are the servers behind a gateway, on loopback;
//! * [`vendors`] are strict doubles of model providers.
//!
//! Only tests depend on this crate.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

pub mod ag_ui_order;
pub mod conformance;
pub mod fake_servers;
pub mod fake_tools;
pub mod forwarding;
pub mod golden;
pub mod hostile_mcp;
pub mod identity_provider;
pub mod invariants;
pub mod mcp_ledger;
pub mod mcp_server;
mod mcp_tool;
pub mod scenarios;
pub mod scripts;
pub mod services;
pub mod stopwatch;
pub mod stub_server;
pub mod surfaces;
pub mod test_bench;
pub mod upstreams;
pub mod vendors;

pub use fake_servers::FakeServers;
pub use fake_tools::{Behaviour, FakeTool};
pub use forwarding::{Broken, Forwarding, StoreCall, Watcher};
pub use hostile_mcp::HostileMcp;
pub use identity_provider::IdentityProvider;
pub use stub_server::{Reply, StubServer};
pub use test_bench::{Act, Played, TestBench};
