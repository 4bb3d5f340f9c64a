//! `[egress]`: allowed targets for URLs from a model or a request.

use std::{net::IpAddr, time::Duration};

use serde::Deserialize;
use toml::Table;
use turnwire_tools::EgressOptions;

use super::file::{RawTable, read_table};

/// Maximum timeout in seconds.
const LONGEST_SEC: u64 = 120;

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEgress {
    open_networks: Option<Vec<String>>,
    ports: Option<Vec<u16>>,
    timeout_sec: Option<u64>,
}

impl RawTable for RawEgress {
    const KEYS: &'static [&'static str] = &["open_networks", "ports", "timeout_sec"];
}

pub(super) fn egress(table: Table, mistakes: &mut Vec<String>) -> EgressOptions {
    let raw: RawEgress = read_table("egress.", table, mistakes);
    let mut options = EgressOptions::default();
    for network in raw.open_networks.unwrap_or_default() {
        let parsed = network.parse().or_else(|_| network.parse::<IpAddr>().map(Into::into));
        match parsed {
            Ok(network) => options.open_networks.push(network),
            Err(_) => mistakes.push(format!(
                "egress.open_networks: `{network}` is not a network; it should look like \
                 10.1.0.0/16 or 10.1.2.3"
            )),
        }
    }
    match raw.ports {
        Some(ports) if ports.is_empty() || ports.contains(&0) => {
            mistakes.push("egress.ports: give ports from 1 to 65535".to_owned());
        }
        Some(ports) => options.ports = ports,
        None => {}
    }
    match raw.timeout_sec {
        Some(seconds @ 1..=LONGEST_SEC) => options.timeout = Duration::from_secs(seconds),
        Some(_) => {
            mistakes.push(format!("egress.timeout_sec: give a number from 1 to {LONGEST_SEC}"));
        }
        None => {}
    }
    options
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
