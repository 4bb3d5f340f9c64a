//! `[egress]`: allowed targets for URLs from a model or a request.

use std::{net::IpAddr, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_tools::EgressOptions;

use super::file::read_table;

/// Maximum timeout in seconds.
const LONGEST_SEC: u64 = 120;

/// Which addresses Turnwire may connect to when a model or a request names them, and where
/// receivers of webhooks may be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEgress {
    /// Networks that are allowed in addition to the public internet, such as `10.1.0.0/16`
    open_networks: Option<Vec<String>>,
    /// The allowed ports
    #[schemars(with = "Option<Vec<std::num::NonZeroU16>>", extend("default" = EgressOptions::default().ports))]
    ports: Option<Vec<u16>>,
    /// How long loading a page may take, 1 to 120
    #[schemars(range(min = 1, max = LONGEST_SEC), extend("default" = EgressOptions::default().timeout.as_secs()))]
    timeout_sec: Option<u64>,
}

pub(super) fn egress(table: Table, mistakes: &mut Vec<String>) -> EgressOptions {
    let raw: RawEgress = read_table("egress", table, mistakes);
    let mut options = EgressOptions::default();
    for (n, network) in raw.open_networks.unwrap_or_default().into_iter().enumerate() {
        let parsed = network.parse().or_else(|_| network.parse::<IpAddr>().map(Into::into));
        match parsed {
            Ok(network) => options.open_networks.push(network),
            Err(_) => mistakes.push(format!(
                "egress.open_networks[{n}]: `{network}` is not a network; it should look like \
                 10.1.0.0/16 or 10.1.2.3"
            )),
        }
    }
    match raw.ports {
        Some(ports) if ports.is_empty() => {
            mistakes
                .push("egress.ports: none is named; leave it out for the usual ones".to_owned());
        }
        Some(ports) => options.ports = ports,
        None => {}
    }
    if let Some(seconds) = raw.timeout_sec {
        options.timeout = Duration::from_secs(seconds);
    }
    options
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
