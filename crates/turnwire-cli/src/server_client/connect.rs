//! Which server is meant, and which key it gets.

use super::{Credentials, ServerClient};
use crate::{
    addresses::{ServerAddress, usual_server},
    environment::Environment,
    exit::{Problem, Result},
    terminal::{Paint, warn},
};

/// Variables with the address of a server, and with the key for it.
const SERVER: &str = "TURNWIRE_SERVER";
const API_KEY: &str = "TURNWIRE_API_KEY";

/// The server that the command line or the environment names.
pub(crate) fn named_server(
    argument: Option<&ServerAddress>,
    environment: &Environment,
) -> Result<Option<ServerAddress>> {
    match (argument, environment.get(SERVER)) {
        (Some(address), _) => Ok(Some(address.clone())),
        (None, Some(text)) => {
            let address = ServerAddress::parse(text);
            address.map(Some).map_err(|why| Problem::usage(format!("{SERVER}: {why}")))
        }
        (None, None) => Ok(None),
    }
}

/// A client of the named server; none if none is named.
pub(crate) fn connect_if_named(
    argument: Option<&ServerAddress>,
    environment: &Environment,
    paint: Paint,
) -> Result<Option<ServerClient>> {
    let named = named_server(argument, environment)?;
    named.map(|address| client_of(address, environment, paint)).transpose()
}

/// A client of the named server, or of the only one with a login, or of the one on this machine.
pub(crate) fn connect(
    argument: Option<&ServerAddress>,
    environment: &Environment,
    paint: Paint,
) -> Result<ServerClient> {
    let address = if let Some(address) = named_server(argument, environment)? {
        address
    } else {
        let only = Credentials::read(environment)?.only_server();
        ServerAddress::parse(&only.unwrap_or_else(usual_server)).map_err(Problem::usage)?
    };
    client_of(address, environment, paint)
}

fn client_of(
    address: ServerAddress,
    environment: &Environment,
    paint: Paint,
) -> Result<ServerClient> {
    let key = match environment.get(API_KEY) {
        Some(key) => Some(key.trim().to_owned()),
        None => Credentials::read(environment)?.key_of(&address).map(str::to_owned),
    };
    let client = ServerClient::new(&address, key.as_deref())?;
    if client.sends_key_in_the_clear() {
        warn(paint, "the API key is sent without encryption; use an https:// address");
    }
    Ok(client)
}
