//! Resolves a name and checks all its addresses when the connection is made. The checked addresses
//! are those that are connected to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tracing::warn;

use super::rules::{Rules, UrlRefusal};

/// DNS resolver.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// Returns all addresses of a name.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Resolver of the HTTP client, with checks.
pub(super) struct CheckedResolver {
    rules: Arc<Rules>,
    lookup: Arc<dyn Lookup>,
}

impl CheckedResolver {
    pub(super) fn new(rules: Arc<Rules>, lookup: Arc<dyn Lookup>) -> Self {
        Self { rules, lookup }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, lookup) = (Arc::clone(&self.rules), Arc::clone(&self.lookup));
        Box::pin(async move {
            let found = checked(&rules, &*lookup, name.as_str()).await?;
            // The client takes the port from the URL.
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// Returns all addresses of a name. Fails if one of them is denied, because the client may connect
/// to any of them.
async fn checked(
    rules: &Rules,
    lookup: &dyn Lookup,
    name: &str,
) -> Result<Vec<IpAddr>, UrlRefusal> {
    let found = lookup.addresses(name).await.map_err(|error| {
        warn!(name, %error, "DNS lookup failed");
        UrlRefusal::NoSuchHost
    })?;
    if found.is_empty() {
        return Err(UrlRefusal::NoSuchHost);
    }
    for address in &found {
        rules.check_address(*address).inspect_err(|_| {
            warn!(name, %address, "address refused, network not allowed");
        })?;
    }
    Ok(found)
}
