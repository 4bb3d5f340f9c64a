//! The `turnwire` binary: settings, wiring, terminal.
//!
//! Everything that can be decided without a terminal, a file or an environment is decided in
//! the other crates; this one reads what the person wants, puts the parts together and shows
//! what happens. Reading order: [`args`] is the command line, [`settings`] what follows from it
//! together with the file and the environment, [`wiring`] the agent or the gateway that is made of
//! that, [`commands`] what is done with it, and [`terminal`] how it looks.

mod args;
mod commands;
mod demo;
mod environment;
mod exit;
mod settings;
mod signals;
mod telemetry;
mod terminal;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Arguments, Command},
    environment::Environment,
    exit::Exit,
};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version come this way too, and go to standard output.
        Err(choice) => {
            let exit = if choice.use_stderr() { Exit::Usage } else { Exit::Done };
            // Whoever closed the stream does not want to read it.
            let _ = choice.print();
            return exit.into();
        }
    };
    let environment = Environment::of_this_process();
    match arguments.command {
        Command::Run(arguments) => commands::run::run(&arguments, &environment),
        Command::Serve(arguments) => commands::serve::serve(&arguments, &environment),
        Command::Doctor(arguments) => commands::doctor::doctor(&arguments, &environment),
        Command::Backup(arguments) => commands::backup::backup(&arguments, &environment),
        Command::ReadPdf => commands::read_pdf::read_pdf(),
        Command::Mcp(command) => commands::mcp::mcp(&command, &environment),
        Command::Check(arguments) => commands::check::check(&arguments, &environment),
    }
    .into()
}
