//! Command-line options.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Kills gateways under load and checks that clients cannot tell.
#[derive(Debug, Clone, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(name = "torture", version)]
pub struct Options {
    /// Number of gateways.
    #[arg(long, default_value_t = 3)]
    pub nodes: usize,
    /// Number of gateways to kill while they execute runs.
    #[arg(long, default_value_t = 200)]
    pub kills: u64,
    /// Maximum duration in seconds.
    #[arg(long, default_value_t = 900)]
    pub seconds_max: u64,
    /// Minimum duration of the load in seconds.
    #[arg(long, default_value_t = 0)]
    pub seconds: u64,
    /// Random seed; chosen at random if not set.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 40)]
    pub runs_at_once: usize,
    /// Kinds of faults to inject.
    #[arg(long, value_delimiter = ',', default_values = ["kill", "stop", "term", "store", "redis", "cut"])]
    pub nemesis: Vec<Nemesis>,
    /// Minimum pause between two faults, in milliseconds; the maximum is four times that.
    #[arg(long, default_value_t = 60)]
    pub pause_ms: u64,
    /// Lease in milliseconds.
    #[arg(long, default_value_t = 500)]
    pub lease_ms: u64,
    /// How long runs may take to end after the load, in seconds.
    #[arg(long, default_value_t = 60)]
    pub settle: u64,
    /// Uses gateways with in-memory stores: no database, so no kills.
    #[arg(long)]
    pub in_memory: bool,
    /// Uses no Redis: nodes are notified by PostgreSQL.
    #[arg(long)]
    pub no_redis: bool,
    /// Path of the gateway.
    #[arg(long)]
    pub gateway: Option<PathBuf>,
    /// Path of another version for every second gateway.
    #[arg(long)]
    pub other_gateway: Option<PathBuf>,
    /// Directory of `upstreams` and `mcp-props`; that of this program if not set.
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Writes a Markdown report to this path.
    #[arg(long)]
    pub report: Option<PathBuf>,
    /// Prints the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Keeps logs and configuration in this directory.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Runs store outages of up to this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub outage: Option<u64>,
    /// Runs this many rolling restarts under load.
    #[arg(long, value_name = "N")]
    pub rolling: Option<u64>,
    /// Starts this many runs and resumes each after every frame of every surface on another node.
    #[arg(long, value_name = "N")]
    pub resume: Option<u64>,
    /// Measures the time to the first token against in-memory stores, for this many seconds each.
    #[arg(long, value_name = "SECONDS")]
    pub first_token: Option<u64>,
    /// Starts nothing: checks the runs of the gateway at this address once all have ended.
    #[arg(long, value_name = "URL")]
    pub inspect: Option<String>,
    /// Uses gateways with this fault: succeeds if the checker finds it. `none` must find nothing.
    #[arg(long, value_name = "NAME")]
    pub negative_control: Option<String>,
    /// Lists the seeded faults.
    #[arg(long)]
    pub list_negative_controls: bool,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Nemesis {
    /// SIGKILL of a node that executes runs.
    Kill,
    /// SIGSTOP of a node for longer than its lease, then SIGCONT.
    Stop,
    /// SIGTERM of a node.
    Term,
    /// The database is killed or frozen.
    Store,
    /// Redis is flushed, killed, or sends foreign messages.
    Redis,
    /// A node's database connections are cut, stall, or lose the response to a commit.
    Cut,
}
