//! Which server is meant, and which key it gets.

use reqwest::Url;

use super::{Credentials, ServerClient};
use crate::{
    addresses::DEFAULT_LISTEN,
    environment::Environment,
    exit::Problem,
    terminal::{Paint, warn},
};

/// Variables with the address of a server, and with the key for it.
const SERVER: &str = "TURNWIRE_SERVER";
const API_KEY: &str = "TURNWIRE_API_KEY";

/// The base address of a server: `http://host:7878`, or with a path, behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(Url);

impl ServerAddress {
    /// Parses an address as people write it. A `/v1` at its end, as in `OPENAI_BASE_URL`, is left
    /// out.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not the address of a server; it should look like {}", usual());
        let mut url = Url::parse(text.trim()).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address must have no password; use TURNWIRE_API_KEY".to_owned());
        }
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The address under which the key of a server is stored.
    pub(crate) fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(crate) fn client(self, key: Option<&str>) -> Result<ServerClient, Problem> {
        ServerClient::new(self.0, key)
    }
}

fn usual() -> String {
    format!("http://{DEFAULT_LISTEN}")
}

/// The server that the command line or the environment names.
pub(crate) fn named_server(
    argument: Option<&ServerAddress>,
    environment: &Environment,
) -> Result<Option<ServerAddress>, Problem> {
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
) -> Result<Option<ServerClient>, Problem> {
    let named = named_server(argument, environment)?;
    named.map(|address| client_of(address, environment, paint)).transpose()
}

/// A client of the named server, or of the only one with a login, or of the one on this machine.
pub(crate) fn connect(
    argument: Option<&ServerAddress>,
    environment: &Environment,
    paint: Paint,
) -> Result<ServerClient, Problem> {
    let address = if let Some(address) = named_server(argument, environment)? {
        address
    } else {
        let only = Credentials::read(environment)?.only_server();
        ServerAddress::parse(&only.unwrap_or_else(usual)).map_err(Problem::usage)?
    };
    client_of(address, environment, paint)
}

fn client_of(
    address: ServerAddress,
    environment: &Environment,
    paint: Paint,
) -> Result<ServerClient, Problem> {
    let key = match environment.get(API_KEY) {
        Some(key) => Some(key.trim().to_owned()),
        None => Credentials::read(environment)?.key_of(&address).map(str::to_owned),
    };
    let client = address.client(key.as_deref())?;
    if client.sends_key_in_the_clear() {
        warn(paint, "the API key is sent without encryption; use an https:// address");
    }
    Ok(client)
}
