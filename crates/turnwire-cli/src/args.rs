//! The command line, as it was typed. What it means is decided in `settings` and `terminal`.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::settings::{listen_address, page_origin};

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
    /// Try everything that the settings name: what works, what does not, what to do
    Doctor(DoctorArguments),
    /// Copy the store into a file, also while a server works with it
    Backup(BackupArguments),
    /// The text of a PDF; for `serve`, which starts it with limits
    #[command(hide = true)]
    ReadPdf,
    /// Check a stream of /v1/responses, of any vendor, for faults in its lifecycle
    Check(CheckArguments),
    /// See which MCP servers there are, and try them
    #[command(subcommand)]
    Mcp(McpCommand),
}

/// What follows the options in `turnwire run --help`.
const RUN_HELP: &str = "\
Examples:
  turnwire run --model scripted \"multiply 5 and 4\"     a demo that needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire run --model qwen3:8b \"Why is the sky blue?\"
  cat report.md | turnwire run \"Sum this up.\"         what is piped in comes before the question
  turnwire run < question.txt > answer.txt

On a terminal you are asked before calls that the settings want allowed ([approvals],
require_approval): yes, no, always, or with other arguments ($VISUAL or $EDITOR opens them). Where
there is no terminal, and with --json, such calls are denied, and the model is told.

Settings: turnwire.toml, then the environment (TURNWIRE_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY,
ANTHROPIC_API_KEY, NO_COLOR, TURNWIRE_A11Y, TURNWIRE_LOG, VISUAL, EDITOR), then these options.

Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage or settings, 130 stopped by Ctrl-C,
143 stopped by SIGTERM.";

#[derive(Debug, Default, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArguments {
    /// What to ask. `-` reads it from stdin, and so does nothing at all. A pipe or a file on stdin
    /// is put before the question
    pub(crate) question: Option<String>,
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
    /// A file with `mcpServers`, as other programs keep them; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
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
next start, tool servers are ended. A second one ends it at once. SIGHUP is ignored: settings are
read at the start.

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
    /// A file with `mcpServers`, as other programs keep them; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// The model for requests that name none: one from the settings, or a name the default
    /// provider knows
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// A web page that may call the server, such as `http://localhost:5173`, beside its own; may be
    /// given several times
    #[arg(long, value_name = "ORIGIN", value_parser = page_origin)]
    pub(crate) origin: Vec<String>,
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

/// What follows the options in `turnwire doctor --help`.
const DOCTOR_HELP: &str = "\
Looks at the settings, the models, the MCP servers, the store, the fan-out, the web search, the
address to listen at and the proxies of the environment. A store is opened as `serve` opens it, one
question is asked of the search engine, and models are asked for their list.

Exit codes: 0 nothing is broken, 1 something is, 2 wrong usage.";

#[derive(Debug, Default, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArguments {
    /// The settings file [default: turnwire.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The model for requests that name none, as for `serve`
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Look at everything but models, which are scripted
    #[arg(long, conflicts_with = "model")]
    pub(crate) demo: bool,
    /// Print one line of JSON: {"ok":…,"checks":[{"subject":…,"status":"ok|warning|broken",…}]}
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWish,
}

/// What follows the options in `turnwire backup --help`.
const BACKUP_HELP: &str = "\
The copy is a store like any other: TURNWIRE_STORE_URL=sqlite://FILE turnwire serve

For PostgreSQL: pg_dump --format=custom --file=turnwire.dump DATABASE_URL

Exit codes: 0 done, 1 the copy could not be made, 2 wrong usage or settings.";

#[derive(Debug, Args)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct BackupArguments {
    /// The file to make; it must not be there yet
    pub(crate) file: PathBuf,
    /// The settings file [default: turnwire.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWish,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the MCP servers of the settings with their tools
    List(McpListArguments),
    /// Connect to one server, list its tools, and perhaps call one
    Test(McpTestArguments),
    /// Log in to a server that wants to know who uses it, in a browser
    Login(McpLoginArguments),
}

/// What follows the options in `turnwire mcp list --help`.
const MCP_LIST_HELP: &str = "\
Exit codes: 0 all servers can be used, 1 some cannot, 2 wrong usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_LIST_HELP)]
pub(crate) struct McpListArguments {
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

/// What follows the options in `turnwire mcp test --help`.
const MCP_TEST_HELP: &str = "\
Examples:
  turnwire mcp test docs
  turnwire mcp test docs --call search --args '{\"query\": \"streams\"}'

Exit codes: 0 it works, 1 it does not, 2 wrong usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_TEST_HELP)]
pub(crate) struct McpTestArguments {
    /// The server
    pub(crate) name: String,
    /// Call this tool of it; nobody is asked first
    #[arg(long, value_name = "TOOL")]
    pub(crate) call: Option<String>,
    /// The arguments of the call, a JSON object
    #[arg(long = "args", value_name = "JSON", requires = "call")]
    pub(crate) arguments: Option<String>,
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

/// What follows the options in `turnwire mcp login --help`.
const MCP_LOGIN_HELP: &str = "\
Prints the address of a page. Whoever opens it and says yes is sent back to a port of this machine,
and the tokens are kept for `serve` and `run`.

Exit codes: 0 logged in, 1 not, 2 wrong usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_LOGIN_HELP)]
pub(crate) struct McpLoginArguments {
    /// The server, which has `oauth` in its settings
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

#[derive(Debug, Default, Args)]
pub(crate) struct McpArguments {
    /// The settings file [default: turnwire.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file with `mcpServers`, as other programs keep them; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWish,
}

/// What follows the options in `turnwire check --help`.
const CHECK_HELP: &str = "\
Examples:
  turnwire check recorded.sse
  curl -sN … | turnwire check -
  turnwire check 'http://127.0.0.1:7878/v1/responses/resp_…?stream=true&starting_after=17' --resumed
  turnwire check http://localhost:8000/v1 --ask \"Why is the sky blue?\" --model qwen3:8b

Reads server-sent events, one JSON event per line, or a JSON list of events. docs/check.md lists
what can be found.

Exit codes: 0 fine, 1 faults found, 2 could not be read, or wrong usage.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArguments {
    /// A file, an address, or `-` for stdin
    #[arg(default_value = "-", value_name = "FILE|URL")]
    pub(crate) source: String,
    /// It is the rest of a stream, taken up with `starting_after`
    #[arg(long)]
    pub(crate) resumed: bool,
    /// A header for an address; ${NAME} in its value is taken from the environment
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Post this question to the Responses API at an address, and check the answer
    #[arg(long, value_name = "QUESTION", requires = "model")]
    pub(crate) ask: Option<String>,
    /// The model that --ask asks
    #[arg(short, long, value_name = "NAME", requires = "ask")]
    pub(crate) model: Option<String>,
    /// The variable that has the key for the address [default with --ask: `OPENAI_API_KEY`]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// How long an address may take; what came by then is checked
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(crate) timeout: NonZeroU64,
    /// Print what was found as JSON
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
