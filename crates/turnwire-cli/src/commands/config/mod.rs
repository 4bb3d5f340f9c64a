//! `turnwire config`: writes, checks and prints the settings.

mod check;
mod init;
mod print;

use std::io::{self, IsTerminal};

use turnwire_surfaces::wire_json_pretty;

use super::output::print_line;
use crate::{
    args::{ColorChoice, ConfigCommand},
    environment::Environment,
    exit::{Exit, Result},
    settings::settings_schema,
    terminal::Paint,
};

pub(crate) fn config(command: &ConfigCommand, environment: &Environment) -> Exit {
    match command {
        ConfigCommand::Init(arguments) => {
            shown(init::init(arguments, environment), arguments.color, environment)
        }
        ConfigCommand::Check(arguments) => check::check(arguments, environment),
        ConfigCommand::Print(arguments) => {
            shown(print::print(arguments, environment), arguments.color, environment)
        }
        ConfigCommand::Schema => {
            print_line(&wire_json_pretty(&settings_schema()));
            Exit::Done
        }
    }
}

/// Prints what a command returns, or shows its error.
fn shown(text: Result<String>, color: ColorChoice, environment: &Environment) -> Exit {
    match text {
        Ok(text) => {
            print_line(&text);
            Exit::Done
        }
        Err(problem) => {
            problem.shown(Paint::choose(color, environment, io::stderr().is_terminal()))
        }
    }
}
