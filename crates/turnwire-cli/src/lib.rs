//! The command line of Turnwire. `main.rs` is the program; nothing else is public but what
//! `fuzzing` needs.
//!
//! `args` is the command line, `settings` combines it with the settings file and the
//! environment, `wiring` builds the agent or the gateway, `server_client` speaks to a server,
//! `commands` runs the commands, `watch` follows a run with its questions, and `terminal`
//! displays it. Everything that needs no terminal, file or environment is in other
//! crates.

mod addresses;
mod args;
mod commands;
mod demo;
mod environment;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod server_client;
mod settings;
mod signals;
mod telemetry;
mod terminal;
mod watch;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Arguments, Command},
    environment::Environment,
    exit::Exit,
};

/// Does what the arguments of this process say. Returns its exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Includes help and version, which go to standard output.
        Err(choice) => {
            let exit = if choice.use_stderr() { Exit::Usage } else { Exit::Done };
            // A closed stream is not an error.
            let _ = choice.print();
            return exit.into();
        }
    };
    let environment = Environment::of_this_process();
    match arguments.command {
        Command::Run(arguments) => commands::run::run(&arguments, &environment),
        Command::Chat(arguments) => commands::chat::chat(&arguments, &environment),
        Command::Completions(arguments) => commands::completions::completions(&arguments),
        Command::Man(arguments) => commands::completions::man(&arguments),
        Command::Follow(arguments) => commands::follow::follow(&arguments, &environment),
        Command::Runs(command) => commands::runs::runs(&command, &environment),
        Command::Login(arguments) => commands::login::login(&arguments, &environment),
        Command::Logout(arguments) => commands::login::logout(&arguments, &environment),
        Command::Serve(arguments) => commands::serve::serve(&arguments, &environment),
        Command::Doctor(arguments) => commands::doctor::doctor(&arguments, &environment),
        Command::Config(command) => commands::config::config(&command, &environment),
        Command::Backup(arguments) => commands::backup::backup(&arguments, &environment),
        Command::Keys(command) => commands::keys::keys(&command, &environment),
        Command::Audit(command) => commands::audit::audit(&command, &environment),
        Command::Encryption(command) => commands::encryption::encryption(&command, &environment),
        Command::Read => commands::read::read(),
        Command::Mcp(command) => commands::mcp::mcp(&command, &environment),
        Command::Check(arguments) => commands::check::check(&arguments, &environment),
    }
    .into()
}
