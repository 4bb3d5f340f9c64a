//! Addresses on the command line and in the settings.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use reqwest::Url;

/// Default address; reachable only from this machine.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7878);
pub(crate) const NOT_AN_ORIGIN: &str = "is not the origin of a web page; it should look like \
                             https://chat.example.com";

/// Parses an address to listen on, for the file, the environment and the command line.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let local =
        text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    let address = local.as_deref().unwrap_or(text).parse();
    address
        .map_err(|_| format!("not an address to listen on; it should look like {DEFAULT_LISTEN}"))
}

/// Parses the origin of a web page, for the command line.
pub(crate) fn page_origin(text: &str) -> Result<String, String> {
    if is_origin(text) { Ok(text.to_owned()) } else { Err(NOT_AN_ORIGIN.to_owned()) }
}

/// Whether the text is a scheme and a host, as browsers send it.
pub(crate) fn is_origin(text: &str) -> bool {
    let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    place.is_some_and(is_host)
}

pub(crate) fn is_host(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    !text.is_empty() && text.chars().all(fits)
}

/// The base address of a server: `http://host:7878`, or with a path, behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(Url);

impl ServerAddress {
    /// Parses an address as people write it. A `/v1` at its end, as in `OPENAI_BASE_URL`, is left
    /// out.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not the address of a server; it should look like {}",
                usual_server()
            )
        };
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

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

/// The server on this machine.
pub(crate) fn usual_server() -> String {
    format!("http://{DEFAULT_LISTEN}")
}
