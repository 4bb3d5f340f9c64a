//! Kills gateways while they work, and checks that nobody could tell.
//!
//! Real processes on loopback: a PostgreSQL, a Redis, a model server, a tool server that writes
//! down all it does, and gateways ([`cluster`], [`node`]), each with a way to the database that
//! can be broken ([`proxy`]). Clients keep runs of many [`shapes`] in the air ([`workload`]) and
//! watch each of them on several surfaces at once ([`reader`]), while the [`nemesis`] does its
//! damage. Everything is written down ([`observations`]) and at the end laid beside what the
//! database has ([`evidence`]), for the [`checker`] to judge.
//!
//! All chance follows from one seed ([`dice`]); what the operating system does with it does not.

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
pub mod shapes;
pub mod sse;
pub mod tool_log;
pub mod watch;
pub mod workload;
