//! How output is displayed.

use clap::{Args, ValueEnum};

/// How a run is displayed.
#[derive(Debug, Default, Args)]
pub(crate) struct DisplayArguments {
    /// Print each event of the run as one line of JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the answer
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print one line per change, without a spinner
    #[arg(long)]
    pub(crate) plain: bool,
    /// How much to show of tool calls: nothing, a line each, or also arguments and results
    #[arg(long, value_name = "HOW", default_value = "summary")]
    pub(crate) tools: ToolsShown,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// How much is shown of tool calls.
// The variants have no doc comments, because clap would put them into the help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsShown {
    None,
    #[default]
    Summary,
    Full,
}

/// When to use colours. `auto` uses them on terminals that support them.
// The variants have no doc comments, because clap would put them into the help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}
