//! Commands about the settings.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};

use super::{ColorChoice, ServeArguments};
use crate::addresses::{listen_address, page_origin};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a small settings file that fits the environment
    Init(ConfigInitArguments),
    /// Report every mistake in the settings, with its line
    Check(ConfigCheckArguments),
    /// Print the settings in force, and where each value comes from
    Print(ConfigPrintArguments),
    /// Print the JSON Schema of the settings file, for editors
    Schema,
}

/// Shown after the options in `turnwire config init --help`.
const INIT_HELP: &str = "\
The file names a model by what the environment has: OPENAI_BASE_URL, OPENAI_API_KEY or
ANTHROPIC_API_KEY, else a local server. No key is written into it. An existing file is not changed.

Exit codes: 0 written, 1 the file cannot be written, 2 invalid usage, or there is a file already.";

#[derive(Debug, Default, Args)]
#[command(after_help = INIT_HELP)]
pub(crate) struct ConfigInitArguments {
    /// The file to create; it must not exist [default: turnwire.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// What the settings are read from, as by `serve`.
#[derive(Debug, Default, Args)]
pub(crate) struct ServedArguments {
    /// Settings file [default: turnwire.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON file with `mcpServers`, in the format other MCP clients use; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// The model for requests that name none, as for `serve`
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// As for `serve --demo`, which needs no model
    #[arg(long, conflicts_with = "model")]
    pub(crate) demo: bool,
}

impl ServedArguments {
    /// The arguments of a server with the same settings.
    pub(crate) fn as_served(&self) -> ServeArguments {
        ServeArguments {
            config: self.config.clone(),
            mcp_config: self.mcp_config.clone(),
            model: self.model.clone(),
            demo: self.demo,
            ..ServeArguments::default()
        }
    }
}

/// Shown after the options in `turnwire config check --help`.
const CHECK_HELP: &str = "\
Reads the file and the environment as `serve` does, and starts nothing. Mistakes are printed to
stdout, one per line: turnwire.toml:12: server.listen: …

Exit codes: 0 no mistakes, 2 mistakes in the settings, or invalid usage.";

#[derive(Debug, Default, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct ConfigCheckArguments {
    #[command(flatten)]
    pub(crate) served: ServedArguments,
    /// Print JSON: {"ok":…,"mistakes":[{"file":…,"line":…,"path":…,"message":…}],"warnings":[…]}
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// Shown after the options in `turnwire config print --help`.
const PRINT_HELP: &str = "\
The output is TOML. A comment after each value names its source: the line of the file, an
environment variable, a flag, or `default`. Secrets are printed as ***.

Exit codes: 0 printed, 2 mistakes in the settings, or invalid usage.";

#[derive(Debug, Default, Args)]
#[command(after_help = PRINT_HELP)]
pub(crate) struct ConfigPrintArguments {
    #[command(flatten)]
    pub(crate) served: ServedArguments,
    /// Address to listen on, as for `serve`
    #[arg(short, long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Additional origin of web pages, as for `serve`; repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = page_origin)]
    pub(crate) origin: Vec<String>,
    /// Print JSON: {"settings":[{"path":…,"value":…,"source":{"kind":…}}]}
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}
