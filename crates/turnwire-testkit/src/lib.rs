//! What the tests of every crate lean on.
//!
//! * [`test_bench`] plays a scripted run in simulated time and returns its journal;
//! * [`fake_tools`] are tools that behave in every way a tool can;
//! * [`fake_servers`] are tool servers of the same kind;
//! * [`scenarios`] are the recorded runs that every surface is shown;
//! * [`golden`] compares with what is written down, or writes it down;
//! * [`surfaces`] writes down what each surface shows of a journal;
//! * [`invariants`] reads a journal and says what is wrong with it;
//! * [`scripts`] makes up random runs;
//! * [`mcp_server`] is an MCP server that behaves in every way a server can;
//! * [`services`] are a real PostgreSQL and a real Redis;
//! * [`conformance`] has one test per promise of a port;
//! * [`upstreams`] are the servers behind a gateway, on loopback.
//!
//! Only tests depend on this crate.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

pub mod conformance;
pub mod fake_servers;
pub mod fake_tools;
pub mod golden;
pub mod invariants;
pub mod mcp_ledger;
pub mod mcp_server;
pub mod scenarios;
pub mod scripts;
pub mod services;
pub mod surfaces;
pub mod test_bench;
pub mod upstreams;

pub use fake_servers::FakeServers;
pub use fake_tools::{Behaviour, FakeTool};
pub use test_bench::{Act, Played, TestBench};
