//! `turnwire completions` and `turnwire man`, generated from the command line.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::{
    args::{Arguments, CompletionShell, CompletionsArguments, ManArguments},
    exit::Exit,
    terminal::tell,
};

const NAME: &str = "turnwire";

pub(crate) fn completions(arguments: &CompletionsArguments) -> Exit {
    let shell = match arguments.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), NAME, &mut script);
    written(io::stdout().write_all(&script))
}

pub(crate) fn man(arguments: &ManArguments) -> Exit {
    let mut command = Arguments::command();
    command.build();
    match &arguments.output {
        Some(folder) => written(pages(&command, NAME, folder)),
        None => written(page(&command).and_then(|page| io::stdout().write_all(&page))),
    }
}

/// Writes the page of a command and of all below it.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> io::Result<()> {
    fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    let below = below.filter(|command| command.get_name() != "help");
    for command in below {
        pages(command, &format!("{name}-{}", command.get_name()), folder)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

fn written(result: io::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        // As in `turnwire man | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            tell(&format!("error: cannot write: {error}"));
            Exit::Failed
        }
    }
}
