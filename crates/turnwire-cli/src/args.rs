//! The command line, as it was typed. What it means is decided in `settings` and `terminal`.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::settings::listen_address;

/// Agent runs whose every step is visible.
#[derive(Debug, Parser)]
#[command(name = "turnwire", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask one question: the answer on stdout, the work on stderr
    Run(RunArguments),
    /// Serve runs over HTTP: the Responses API, chat, WebSocket
    Serve(ServeArguments),
}

/// What follows the options in `turnwire run --help`.
const RUN_HELP: &str = "\
Examples:
  turnwire run --model scripted \"multiply 5 and 4\"     a demo that needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire run --model qwen3:8b \"Why is the sky blue?\"
  turnwire run - < question.txt > answer.txt

Settings: turnwire.toml, then the environment (TURNWIRE_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY,
ANTHROPIC_API_KEY, NO_COLOR, TURNWIRE_A11Y, TURNWIRE_LOG), then these options.

Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage or settings, 130 stopped by Ctrl-C,
143 stopped by SIGTERM.";

#[derive(Debug, Default, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArguments {
    /// What to ask; `-` reads it from stdin
    pub(crate) question: String,
    /// A model from the settings, `scripted` for the demo, or a name the default provider knows
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// What the model is told before the question
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
    /// How often the model may be asked
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,
    /// How long the run may take
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<NonZeroU64>,
    /// The settings file [default: turnwire.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write the final answer to a file, too
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print every event of the run as a line of JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the answer only
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print one line for each change, without a spinner
    #[arg(long)]
    pub(crate) plain: bool,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWish,
}

/// What follows the options in `turnwire serve --help`.
const SERVE_HELP: &str = "\
Examples:
  turnwire serve --demo                              a scripted model that needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire serve --model qwen3:8b
  TURNWIRE_API_KEYS=$(openssl rand -hex 32) turnwire serve --listen 0.0.0.0:7878

Then point any OpenAI SDK at it: OPENAI_BASE_URL=http://127.0.0.1:7878/v1

Settings: turnwire.toml, then the environment (TURNWIRE_LISTEN, TURNWIRE_API_KEYS, TURNWIRE_MODEL,
TURNWIRE_STORE_URL, TURNWIRE_FANOUT_URL, OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY,
NO_COLOR, TURNWIRE_LOG), then these options.

Runs are kept in turnwire.db, so that they outlive the process; see [store] in the settings.

Ctrl-C or SIGTERM closes: no new requests, streams end, runs are left to other nodes or to the
next start, tool servers are ended. A second one ends it at once.

Exit codes: 0 closed when told to, 1 cannot listen or failed, 2 wrong usage or settings, 130 ended
at once by Ctrl-C, 143 ended at once by SIGTERM.";

#[derive(Debug, Default, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArguments {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:7878]
    #[arg(short, long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The settings file [default: turnwire.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The model for requests that name none: one from the settings, or a name the default
    /// provider knows
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Serve the scripted model, which can multiply and needs no key, and no other
    #[arg(long, conflicts_with = "model")]
    pub(crate) demo: bool,
    /// Print one line of JSON to stdout once it listens, {"listening":"…"}, and only warnings to
    /// stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWish,
}

/// When to use colours; `auto` is on a terminal that wants them.
// The variants have no doc comments, because clap would put them into the help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWish {
    #[default]
    Auto,
    Always,
    Never,
}
