//! What can be asked of the harness.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Kills gateways while they work, and checks that nobody could tell.
#[derive(Debug, Clone, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(name = "torture", version)]
pub struct Options {
    /// How many gateways.
    #[arg(long, default_value_t = 3)]
    pub nodes: usize,
    /// How many gateways to kill while they have work.
    #[arg(long, default_value_t = 200)]
    pub kills: u64,
    /// How long it may take to get there.
    #[arg(long, default_value_t = 900)]
    pub seconds_max: u64,
    /// For how long there is load at least.
    #[arg(long, default_value_t = 0)]
    pub seconds: u64,
    /// What all chance follows from; any number if not set.
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many runs there are at any time.
    #[arg(long, default_value_t = 40)]
    pub runs_at_once: usize,
    /// What is done beside the kills.
    #[arg(long, value_delimiter = ',', default_values = ["kill", "stop", "term", "store", "redis", "cut"])]
    pub nemesis: Vec<Nemesis>,
    /// The shortest pause between two deeds, in milliseconds; the longest is four times that.
    #[arg(long, default_value_t = 60)]
    pub pause_ms: u64,
    /// How long a worker's runs stay its own, in milliseconds.
    #[arg(long, default_value_t = 500)]
    pub lease_ms: u64,
    /// How long runs get to end when everything is over, in seconds.
    #[arg(long, default_value_t = 60)]
    pub settle: u64,
    /// Gateways that keep everything in memory: no database, so no kills.
    #[arg(long)]
    pub in_memory: bool,
    /// No Redis: nodes listen to PostgreSQL.
    #[arg(long)]
    pub no_redis: bool,
    /// The gateway's program.
    #[arg(long)]
    pub gateway: Option<PathBuf>,
    /// The program of every second gateway, of another version.
    #[arg(long)]
    pub other_gateway: Option<PathBuf>,
    /// Where the programs `upstreams` and `mcp-props` are; beside this one if not set.
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Writes a report in Markdown.
    #[arg(long)]
    pub report: Option<PathBuf>,
    /// Prints the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Keeps logs and settings in this directory.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Store outages of up to so many seconds, in turn.
    #[arg(long, value_name = "SECONDS")]
    pub outage: Option<u64>,
    /// So many rolling restarts under load.
    #[arg(long, value_name = "N")]
    pub rolling: Option<u64>,
    /// So many runs, read again after every frame of every surface on another node.
    #[arg(long, value_name = "N")]
    pub resume: Option<u64>,
    /// What the first word costs more than in memory, measured for so many seconds each.
    #[arg(long, value_name = "SECONDS")]
    pub first_token: Option<u64>,
    /// Gateways with this fault: succeeds if the checker finds it. `none` must find nothing.
    #[arg(long, value_name = "NAME")]
    pub negative_control: Option<String>,
    /// Names the faults.
    #[arg(long)]
    pub list_negative_controls: bool,
}

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Nemesis {
    /// `kill -9` of a node at work.
    Kill,
    /// SIGSTOP of a node for longer than its lease, then SIGCONT.
    Stop,
    /// SIGTERM of a node.
    Term,
    /// The database is killed or frozen.
    Store,
    /// Redis is flushed, killed, or tells nonsense.
    Redis,
    /// A node's way to the database is cut, goes silent, or loses the answer to a commit.
    Cut,
}
