//! The command line as typed. `settings` and `terminal` interpret it.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::addresses::{listen_address, page_origin};

mod audit;
mod config;
mod display;
mod encryption;
mod keys;
mod on_server;

pub(crate) use self::audit::{AuditCommand, AuditListArguments, AuditVerifyArguments};
pub(crate) use self::config::{
    ConfigCheckArguments, ConfigCommand, ConfigInitArguments, ConfigPrintArguments,
};
pub(crate) use self::display::{ColorChoice, DisplayArguments, ToolsShown};
pub(crate) use self::encryption::EncryptionCommand;
pub(crate) use self::keys::{
    KeyCreateArguments, KeyListArguments, KeyRevokeArguments, KeyRotateArguments, KeysCommand,
    StoreArguments,
};
pub(crate) use self::on_server::{
    ApproveArguments, ChatArguments, FollowArguments, LoginArguments, LogoutArguments,
    RunsArguments, RunsCommand, RunsListArguments, RunsOneArguments, ServerArguments,
    ShareArguments,
};

/// Runs agent turns and makes every step visible.
#[derive(Debug, Parser)]
#[command(name = "turnwire", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask one question; the answer goes to stdout, progress to stderr
    Run(RunArguments),
    /// Hold a conversation in the terminal
    Chat(ChatArguments),
    /// Watch a run of a server, live or finished
    Follow(FollowArguments),
    /// List, show, cancel, approve, share and export the runs of a server
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Save the API key of a server
    Login(LoginArguments),
    /// Forget the API key of a server
    Logout(LogoutArguments),
    /// Serve runs over HTTP: the Responses API, chat, WebSocket
    Serve(ServeArguments),
    /// Check everything the settings name and suggest fixes
    Doctor(DoctorArguments),
    /// Write, check and print settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Copy the store to a file, even while a server is using it
    Backup(BackupArguments),
    /// Create, list, rotate and revoke the API keys of a store
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List who did what, and check that nobody changed the log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show and replace the keys that encrypt what is stored
    #[command(subcommand)]
    Encryption(EncryptionCommand),
    /// Read a document; started by other commands for every file and page, with resource limits
    #[command(hide = true)]
    Read,
    /// Print shell completions
    Completions(CompletionsArguments),
    /// Print the man page, or write one page per command into a directory
    Man(ManArguments),
    /// Check a /v1/responses stream of any vendor for lifecycle faults
    Check(CheckArguments),
    /// List and test the configured MCP servers
    #[command(subcommand)]
    Mcp(McpCommand),
}

/// Shown after the options in `turnwire run --help`.
const RUN_HELP: &str = "\
Examples:
  turnwire run --model scripted \"multiply 5 and 4\"     demo, needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire run --model qwen3:8b \"Why is the sky blue?\"
  cat report.md | turnwire run \"Sum this up.\"         stdin is put before the question
  turnwire run < question.txt > answer.txt
  turnwire run --server http://127.0.0.1:7878 \"multiply 5 and 4\"

On a terminal, calls that need approval ([approvals], require_approval) are shown with a prompt:
yes, no, always, or edit the arguments (in $VISUAL or $EDITOR). Without a terminal, and with
--json, such calls are denied and the model is informed.

Settings: turnwire.toml, then the environment (TURNWIRE_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY,
ANTHROPIC_API_KEY, NO_COLOR, TURNWIRE_A11Y, TURNWIRE_LOG, VISUAL, EDITOR), then these options.
Later sources override earlier ones.

With --server (or TURNWIRE_SERVER) the run is executed by that server, with its tools; --model names
one of its models. It goes on if this process ends: Esc or Ctrl-C stops it, Ctrl-B detaches.

Keys while it runs: Esc stops, o shows the last call in full, ? shows the keys.

Exit codes: 0 completed, 1 failed or incomplete, 2 invalid usage or settings, 3 the run waits for a
person and there is no terminal (with --server), 4 the server cannot be reached, 130 stopped by
Ctrl-C, 143 stopped by SIGTERM.";

#[derive(Debug, Default, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArguments {
    /// The question. `-` or no argument reads it from stdin. With a question, the content of a pipe
    /// or a file on stdin is put before it
    pub(crate) question: Option<String>,
    /// A model from the settings, `scripted` for the demo, or a model name of the default provider
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
    /// Maximum number of model turns
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<NonZeroU32>,
    /// Maximum duration of the run
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<NonZeroU64>,
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON file with `mcpServers`, in the format other MCP clients use; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Also write the final answer to a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Which calls that need an approval are allowed without asking: none, those of tools that the
    /// settings class as pure, or all; `never` denies them
    #[arg(long, value_name = "WHICH", default_value = "ask")]
    pub(crate) approve: ApprovalPolicy,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
}

/// Shown after the options in `turnwire serve --help`.
const SERVE_HELP: &str = "\
Examples:
  turnwire serve --demo                              scripted model, needs no key
  OPENAI_BASE_URL=http://localhost:11434/v1 turnwire serve --model qwen3:8b
  TURNWIRE_API_KEYS=$(openssl rand -hex 32) turnwire serve --listen 0.0.0.0:7878

Then point any OpenAI SDK at it: OPENAI_BASE_URL=http://127.0.0.1:7878/v1

Settings: turnwire.toml, then the environment (TURNWIRE_LISTEN, TURNWIRE_API_KEYS, TURNWIRE_MODEL,
TURNWIRE_STORE_URL, TURNWIRE_FANOUT_URL, OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY,
NO_COLOR, TURNWIRE_LOG), then these options. Later sources override earlier ones.

Runs are stored in turnwire.db and survive a restart; see [store] in the settings.

Ctrl-C or SIGTERM shuts down gracefully: the server accepts no new requests, closes streams,
releases its runs to other nodes or to the next start, and stops tool servers. A second signal
exits immediately. SIGHUP reads the settings again, without ending a stream.

Exit codes: 0 shut down gracefully, 1 cannot listen or failed, 2 invalid usage or settings,
130 forced exit by Ctrl-C, 143 forced exit by SIGTERM.";

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArguments {
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:7878]
    #[arg(short, long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON file with `mcpServers`, in the format other MCP clients use; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// The model for requests that name none: one from the settings, or a model name of the
    /// default provider
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Additional origin of web pages that may call the server, such as `http://localhost:5173`;
    /// repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = page_origin)]
    pub(crate) origin: Vec<String>,
    /// Serve only the scripted model, which can multiply and needs no key
    #[arg(long, conflicts_with = "model")]
    pub(crate) demo: bool,
    /// Print one line of JSON to stdout once the server listens, {"listening":"…"}, and only
    /// warnings to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Shown after the options in `turnwire doctor --help`.
const DOCTOR_HELP: &str = "\
Checks the settings, models, MCP servers, store, fan-out, web search, listen address and proxy
variables. It opens the store as `serve` does, sends one query to the search engine, and requests
the model list of each provider.

Exit codes: 0 nothing is broken, 1 something is broken, 2 invalid usage.";

#[derive(Debug, Default, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArguments {
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The model for requests that name none, as for `serve`
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Use the scripted model, and check everything except models
    #[arg(long, conflicts_with = "model")]
    pub(crate) demo: bool,
    /// Print one line of JSON: {"ok":…,"checks":[{"subject":…,"status":"ok|warning|broken",…}]}
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Shown after the options in `turnwire backup --help`.
const BACKUP_HELP: &str = "\
The copy is a regular store: TURNWIRE_STORE_URL=sqlite://FILE turnwire serve

For PostgreSQL: pg_dump --format=custom --file=turnwire.dump DATABASE_URL

Exit codes: 0 completed, 1 the copy failed, 2 invalid usage or settings.";

#[derive(Debug, Args)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct BackupArguments {
    /// The file to create; it must not exist
    pub(crate) file: PathBuf,
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the configured MCP servers and their tools
    List(McpListArguments),
    /// Connect to one server, list its tools, and optionally call one
    Test(McpTestArguments),
    /// Log in to a server with OAuth, in a browser
    Login(McpLoginArguments),
}

/// Shown after the options in `turnwire mcp list --help`.
const MCP_LIST_HELP: &str = "\
Exit codes: 0 all servers are usable, 1 some are not, 2 invalid usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_LIST_HELP)]
pub(crate) struct McpListArguments {
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

/// Shown after the options in `turnwire mcp test --help`.
const MCP_TEST_HELP: &str = "\
Examples:
  turnwire mcp test docs
  turnwire mcp test docs --call search --args '{\"query\": \"streams\"}'

Exit codes: 0 the server works, 1 it does not, 2 invalid usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_TEST_HELP)]
pub(crate) struct McpTestArguments {
    /// Name of the server in the settings
    pub(crate) name: String,
    /// Call this tool, without asking for approval
    #[arg(long, value_name = "TOOL")]
    pub(crate) call: Option<String>,
    /// Arguments of the call, as a JSON object
    #[arg(long = "args", value_name = "JSON", requires = "call")]
    pub(crate) arguments: Option<String>,
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

/// Shown after the options in `turnwire mcp login --help`.
const MCP_LOGIN_HELP: &str = "\
Prints the URL of a login page. After you approve access, the browser is redirected to a local
port, and the tokens are stored for `serve` and `run`.

Exit codes: 0 logged in, 1 login failed, 2 invalid usage or settings.";

#[derive(Debug, Default, Args)]
#[command(after_help = MCP_LOGIN_HELP)]
pub(crate) struct McpLoginArguments {
    /// Name of a server that has `oauth` in its settings
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: McpArguments,
}

#[derive(Debug, Default, Args)]
pub(crate) struct McpArguments {
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON file with `mcpServers`, in the format other MCP clients use; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Shown after the options in `turnwire check --help`.
const CHECK_HELP: &str = "\
Examples:
  turnwire check recorded.sse
  curl -sN … | turnwire check -
  turnwire check 'http://127.0.0.1:7878/v1/responses/resp_…?stream=true&starting_after=17' --resumed
  turnwire check http://localhost:8000/v1 --ask \"Why is the sky blue?\" --model qwen3:8b

Reads server-sent events, one JSON event per line, or a JSON array of events. docs/check.md lists
all findings.

Exit codes: 0 no faults, 1 faults found, 2 unreadable input or invalid usage.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArguments {
    /// A file, a URL, or `-` for stdin
    #[arg(default_value = "-", value_name = "FILE|URL")]
    pub(crate) source: String,
    /// The input is the rest of a stream resumed with `starting_after`
    #[arg(long)]
    pub(crate) resumed: bool,
    /// Header to send to the URL; ${NAME} in its value is replaced by that environment variable
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Post this question to the Responses API at the URL, and check the response stream
    #[arg(long, value_name = "QUESTION", requires = "model")]
    pub(crate) ask: Option<String>,
    /// The model for --ask
    #[arg(short, long, value_name = "NAME", requires = "ask")]
    pub(crate) model: Option<String>,
    /// Environment variable with the API key for the URL [default with --ask: `OPENAI_API_KEY`]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// How long to read from the URL; events received by then are checked
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(crate) timeout: NonZeroU64,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: CompletionShell,
}

// The variants have no doc comments, because clap would put them into the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ManArguments {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: Option<PathBuf>,
}

/// Which calls that need an approval are allowed without asking.
// The variants have no doc comments, because clap would put them into the help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalPolicy {
    #[default]
    Ask,
    Never,
    ReadOnly,
    All,
}
