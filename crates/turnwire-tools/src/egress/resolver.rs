//! Looks up a name and checks every address it has, in the same step that the connection is made
//! in: what is checked is what is connected to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tracing::warn;

use super::rules::{Refusal, Rules};

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All of its addresses.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Looks names up as this machine does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What the HTTP client asks for the addresses of a name.
pub(super) struct Guarded {
    rules: Arc<Rules>,
    lookup: Arc<dyn Lookup>,
}

impl Guarded {
    pub(super) fn new(rules: Arc<Rules>, lookup: Arc<dyn Lookup>) -> Self {
        Self { rules, lookup }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, lookup) = (Arc::clone(&self.rules), Arc::clone(&self.lookup));
        Box::pin(async move {
            let found = checked(&rules, &*lookup, name.as_str()).await?;
            // The port is the URL's.
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// All addresses of a name, or none: one that is closed closes the name, because nobody can say
/// which of them would be taken.
async fn checked(rules: &Rules, lookup: &dyn Lookup, name: &str) -> Result<Vec<IpAddr>, Refusal> {
    let found = lookup.addresses(name).await.map_err(|error| {
        warn!(name, %error, "DNS lookup failed");
        Refusal::NoSuchHost
    })?;
    if found.is_empty() {
        return Err(Refusal::NoSuchHost);
    }
    for address in &found {
        rules.check_address(*address).inspect_err(|_| {
            warn!(name, %address, "address refused, network not allowed");
        })?;
    }
    Ok(found)
}
