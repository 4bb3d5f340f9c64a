//! Checks of URLs.
//!
//! Only addresses are checked, not names: `localhost` is denied because of its address, and an
//! internal name is allowed if the operator allows its network.

use std::net::IpAddr;

use ipnet::IpNet;
use reqwest::Url;
use thiserror::Error;

use super::address::{closed, inside};

/// Maximum length of a URL.
const MAX_LENGTH: usize = 8 * 1024;

/// Why a URL is refused. The messages are for a model and do not reveal internal addresses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlRefusal {
    /// Not a valid or not an unambiguous URL.
    #[error("that is not a plain http or https address")]
    NotAnAddress,
    /// Neither http nor https.
    #[error("only http and https addresses are allowed")]
    Scheme,
    /// The URL contains a user name or a password.
    #[error("an address with a user name or a password is not allowed")]
    Credentials,
    /// The port is not allowed.
    #[error("port {0} is not allowed")]
    Port(u16),
    /// The host is an IP address in a non-standard notation.
    #[error("the host is not in a standard form")]
    OddHost,
    /// The address is in a network that is not public.
    #[error("that host is not on the public internet ({0})")]
    Closed(&'static str),
    /// The host has no address.
    #[error("there is no such host")]
    NoSuchHost,
}

/// The rules set by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    open_networks: Vec<IpNet>,
    ports: Vec<u16>,
}

impl Rules {
    pub(super) fn new(open_networks: &[IpNet], ports: &[u16]) -> Self {
        Self { open_networks: open_networks.to_vec(), ports: ports.to_vec() }
    }

    /// Parses a URL and checks everything except the addresses of a name.
    pub(super) fn check(&self, address: &str) -> Result<Url, UrlRefusal> {
        let address = address.trim();
        check_characters(address)?;
        let url = Url::parse(address).map_err(|_| UrlRefusal::NotAnAddress)?;
        self.check_url(&url)?;
        check_host_is_plain(address, &url)?;
        Ok(url)
    }

    /// Like [`check`](Self::check), for the target of a redirect.
    pub(super) fn check_redirect(&self, from: &Url, place: &str) -> Result<Url, UrlRefusal> {
        check_characters(place)?;
        let url = from.join(place).map_err(|_| UrlRefusal::NotAnAddress)?;
        self.check_url(&url)?;
        if url.host() != from.host() {
            check_host_is_plain(place, &url)?;
        }
        Ok(url)
    }

    fn check_url(&self, url: &Url) -> Result<(), UrlRefusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlRefusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlRefusal::Credentials);
        }
        let port = url.port_or_known_default().ok_or(UrlRefusal::NotAnAddress)?;
        if let Some(address) = literal(url) {
            self.check_address(address)?;
        }
        if !self.ports.contains(&port) {
            return Err(UrlRefusal::Port(port));
        }
        Ok(())
    }

    /// Whether a connection to this address is allowed.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), UrlRefusal> {
        let is_open = |address| self.open_networks.iter().any(|net| net.contains(&address));
        let Some(why) = closed(address) else { return Ok(()) };
        if !is_open(address) {
            return Err(UrlRefusal::Closed(why));
        }
        // Allowing a translated network does not allow the embedded IPv4 address.
        match inside(address).filter(|inner| !is_open(*inner)).and_then(closed) {
            Some(why) => Err(UrlRefusal::Closed(why)),
            None => Ok(()),
        }
    }
}

/// Returns the host if it is an IP address.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Refuses characters that URL parsers interpret differently.
fn check_characters(address: &str) -> Result<(), UrlRefusal> {
    let is_doubtful = |c: char| c == '\\' || c.is_control() || c.is_whitespace();
    if address.is_empty() || address.len() > MAX_LENGTH || address.contains(is_doubtful) {
        return Err(UrlRefusal::NotAnAddress);
    }
    Ok(())
}

/// Refuses decimal, hexadecimal and shortened notations of an IP address. They are used to bypass
/// filters.
fn check_host_is_plain(written: &str, url: &Url) -> Result<(), UrlRefusal> {
    let is_plain = match literal(url) {
        Some(IpAddr::V4(address)) => written.contains(&address.to_string()),
        Some(IpAddr::V6(_)) => written.contains('['),
        None => true,
    };
    if is_plain { Ok(()) } else { Err(UrlRefusal::OddHost) }
}
