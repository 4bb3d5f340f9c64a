//! Which URLs may be asked for.
//!
//! Names decide nothing here, addresses everything: `localhost` is closed because of where it
//! leads, and an internal name is open once the operator has opened its network.

use std::net::IpAddr;

use ipnet::IpNet;
use reqwest::Url;
use thiserror::Error;

use super::address::{closed, inside};

/// Longer ones are no addresses of pages.
const MAX_LENGTH: usize = 8 * 1024;

/// Why an address is not asked for. The words are for a model: they do not say what is where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It cannot be read as a URL, or only by guessing.
    #[error("that is not a plain http or https address")]
    NotAnAddress,
    /// Neither http nor https.
    #[error("only http and https addresses can be opened")]
    Scheme,
    /// There is a name or a password in it.
    #[error("an address with a user name or a password is not opened")]
    Credentials,
    /// The port is not among those that are open.
    #[error("port {0} is not opened")]
    Port(u16),
    /// The host is an IP address in disguise.
    #[error("the host is written in an unusual way")]
    OddHost,
    /// It leads to a network that is not public.
    #[error("that host is not on the public internet ({0})")]
    Closed(&'static str),
    /// The host has no address.
    #[error("there is no such host")]
    NoSuchHost,
}

/// The rules, as the operator set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    open_networks: Vec<IpNet>,
    ports: Vec<u16>,
}

impl Rules {
    pub(super) fn new(open_networks: &[IpNet], ports: &[u16]) -> Self {
        Self { open_networks: open_networks.to_vec(), ports: ports.to_vec() }
    }

    /// Reads an address and checks all that can be told from it alone.
    pub(super) fn check(&self, address: &str) -> Result<Url, Refusal> {
        let address = address.trim();
        check_characters(address)?;
        let url = Url::parse(address).map_err(|_| Refusal::NotAnAddress)?;
        self.check_url(&url)?;
        check_host_is_plain(address, &url)?;
        Ok(url)
    }

    /// The same for where an answer points.
    pub(super) fn check_redirect(&self, from: &Url, place: &str) -> Result<Url, Refusal> {
        check_characters(place)?;
        let url = from.join(place).map_err(|_| Refusal::NotAnAddress)?;
        self.check_url(&url)?;
        if url.host() != from.host() {
            check_host_is_plain(place, &url)?;
        }
        Ok(url)
    }

    fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let port = url.port_or_known_default().ok_or(Refusal::NotAnAddress)?;
        if let Some(address) = literal(url) {
            self.check_address(address)?;
        }
        if !self.ports.contains(&port) {
            return Err(Refusal::Port(port));
        }
        Ok(())
    }

    /// Whether a connection may go to this address.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let is_open = |address| self.open_networks.iter().any(|net| net.contains(&address));
        let Some(why) = closed(address) else { return Ok(()) };
        if !is_open(address) {
            return Err(Refusal::Closed(why));
        }
        // Whoever opens a translated network has not opened what lies behind it.
        match inside(address).filter(|inner| !is_open(*inner)).and_then(closed) {
            Some(why) => Err(Refusal::Closed(why)),
            None => Ok(()),
        }
    }
}

/// The host, if it is an address.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Characters that one reader takes for an end and another does not.
fn check_characters(address: &str) -> Result<(), Refusal> {
    let is_doubtful = |c: char| c == '\\' || c.is_control() || c.is_whitespace();
    if address.is_empty() || address.len() > MAX_LENGTH || address.contains(is_doubtful) {
        return Err(Refusal::NotAnAddress);
    }
    Ok(())
}

/// A number, a hexadecimal or a shortened form is read as an IP address, and written by nobody
/// who has nothing to hide.
fn check_host_is_plain(written: &str, url: &Url) -> Result<(), Refusal> {
    let is_plain = match literal(url) {
        Some(IpAddr::V4(address)) => written.contains(&address.to_string()),
        Some(IpAddr::V6(_)) => written.contains('['),
        None => true,
    };
    if is_plain { Ok(()) } else { Err(Refusal::OddHost) }
}
