//! The HTTP client that all adapters start from: how it introduces itself, whom it trusts, and how
//! answers are read up to a limit.
//!
//! The certificates of the system decide which servers are trusted. An empty container has none;
//! there, the certificate authorities that Mozilla trusts are used, as of the build of this
//! program. Whoever names certificates with `SSL_CERT_FILE` or `SSL_CERT_DIR` gets these and no
//! others, and an error if there are none in them.

mod answer;
mod event_size;

use std::{env, iter::successors, net::IpAddr, sync::LazyLock};

use reqwest::{Certificate, Client, ClientBuilder, Url};
use tracing::info;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

pub use self::{
    answer::{ReadError, read_at_most},
    event_size::EventSize,
};

/// Variables with which an operator names the trusted certificates.
const CHOSEN_BY: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Whether the certificates of the system are used. Found out once, because it reads them all.
static TRUSTS_SYSTEM: LazyLock<bool> = LazyLock::new(|| {
    let is_chosen = CHOSEN_BY.iter().any(|name| env::var_os(name).is_some());
    // A client cannot be built without any certificate.
    let trusts = is_chosen || Client::builder().no_proxy().build().is_ok();
    if !trusts {
        info!("the system has no CA certificates, using the bundled ones");
    }
    trusts
});

/// Starts to build a client.
pub fn client() -> ClientBuilder {
    client_trusting(*TRUSTS_SYSTEM)
}

fn client_trusting(system: bool) -> ClientBuilder {
    let client = Client::builder().user_agent(concat!("turnwire/", env!("CARGO_PKG_VERSION")));
    if system { client } else { client.tls_certs_only(bundled()) }
}

fn bundled() -> impl Iterator<Item = Certificate> {
    TLS_SERVER_ROOT_CERTS.iter().filter_map(|der| Certificate::from_der(der).ok())
}

/// Whether a server is on this machine, where a proxy cannot reach it.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Formats an error and all its causes. In `reqwest` the last one has the details.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
