//! `turnwire login` and `turnwire logout`: the key of a server, saved for later commands.

use std::io::{self, BufRead, IsTerminal};

use super::watched::runtime;
use crate::{
    addresses::{ServerAddress, usual_server},
    args::{LoginArguments, LogoutArguments},
    environment::Environment,
    exit::{Exit, Problem, Result},
    server_client::{Credentials, ServerClient, named_server},
    terminal::{Colour, Paint, read_secret, tell},
};

pub(crate) fn login(arguments: &LoginArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stderr().is_terminal());
    shown(log_in(arguments, environment, paint), paint)
}

pub(crate) fn logout(arguments: &LogoutArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stderr().is_terminal());
    shown(log_out(arguments, environment), paint)
}

fn shown(done: Result<()>, paint: Paint) -> Exit {
    match done {
        Ok(()) => Exit::Done,
        Err(problem) => problem.shown(paint),
    }
}

fn log_in(arguments: &LoginArguments, environment: &Environment, paint: Paint) -> Result<()> {
    let server = server_of(arguments.server.server.as_ref(), environment)?;
    let mut credentials = Credentials::read(environment)?;
    let key = read_key(&server)?;
    let client = ServerClient::new(&server, Some(&key))?;
    // A key that does not work is not saved.
    let one = [("limit", "1".to_owned())];
    runtime()?.block_on(client.get(&["v1", "runs"], &one))?;
    let path = credentials.save(&server, key)?;
    let mark = paint.colour(Colour::Green, "✓");
    tell(&format!("{mark} the key for {} is saved in {}", server.origin(), path.display()));
    Ok(())
}

fn log_out(arguments: &LogoutArguments, environment: &Environment) -> Result<()> {
    let server = server_of(arguments.server.server.as_ref(), environment)?;
    let had_one = Credentials::read(environment)?.remove(&server)?;
    let origin = server.origin();
    tell(&if had_one {
        format!("the key for {origin} is forgotten")
    } else {
        format!("there was no key for {origin}")
    });
    Ok(())
}

fn server_of(argument: Option<&ServerAddress>, environment: &Environment) -> Result<ServerAddress> {
    match named_server(argument, environment)? {
        Some(server) => Ok(server),
        None => ServerAddress::parse(&usual_server()).map_err(Problem::usage),
    }
}

/// Reads the key from the terminal without echo, or the first line of a pipe.
fn read_key(server: &ServerAddress) -> Result<String> {
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => {
            Problem { exit: Exit::Interrupted, ..Problem::usage("no key was saved") }
        }
        _ => Problem::usage(format!("the key cannot be read: {error}")),
    };
    let key = if io::stdin().is_terminal() {
        read_secret(&format!("API key for {}: ", server.origin())).map_err(unread)?
    } else {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(unread)?;
        line
    };
    match key.trim() {
        "" => Err(Problem::usage("the key is empty")),
        key => Ok(key.to_owned()),
    }
}
