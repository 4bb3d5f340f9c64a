//! Addresses on the command line and in the settings.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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
