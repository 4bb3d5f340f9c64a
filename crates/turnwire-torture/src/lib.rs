//! Kills gateways under load and checks that clients cannot tell.
//!
//! Real processes on loopback: a PostgreSQL, a Redis, a model server, a tool server that logs its
//! effects, and gateways ([`cluster`], [`node`]), each with a database connection that can be
//! broken ([`proxy`]). Clients start runs of many [`shapes`] ([`workload`]) and read each on
//! several surfaces at once ([`reader`]), while the [`nemesis`] injects faults. Everything is
//! recorded ([`observations`]), compared with the database at the end ([`evidence`]), and checked
//! ([`checker`]).
//!
//! All random choices come from one seed ([`dice`]). The scheduling of the operating system does
//! not.

pub mod checker;
pub mod client;
pub mod cluster;
pub mod dice;
pub mod evidence;
pub mod figures;
pub mod journal;
pub mod modes;
pub mod nemesis;
pub mod node;
pub mod observations;
pub mod options;
pub mod proxy;
pub mod reader;
pub mod report;
pub mod seeded_fault;
pub mod shapes;
pub mod sse;
pub mod tool_log;
pub mod watch;
pub mod workload;
