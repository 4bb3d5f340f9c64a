//! `[store]` and `[fanout]`: storage of runs, and notifications between nodes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_stores::StoreOptions;

use super::{file::read_table, words::not_set};
use crate::environment::Environment;

/// Default store: a file in the working directory.
const DEFAULT_STORE: &str = "sqlite://turnwire.db";
/// URL of the store in memory.
pub(super) const MEMORY: &str = "memory:";
const STORE_URL: &str = "TURNWIRE_STORE_URL";
const FANOUT_URL: &str = "TURNWIRE_FANOUT_URL";
/// A shorter lease expires on short delays; a longer one delays takeovers.
const LEASES_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
const COMPACT_TOO_SOON: std::ops::Range<u32> = 1..60;
const DAY: Duration = Duration::from_hours(24);

/// Where runs, conversations and files are stored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawStore {
    /// `sqlite://FILE`, `postgres://user@host/database` or `memory:`
    #[schemars(extend("default" = DEFAULT_STORE, "x-turnwire-variable" = STORE_URL))]
    url: Option<String>,
    /// The variable with the URL, if it contains a password
    url_env: Option<String>,
    /// The duration of a worker's lease: how long the runs of a dead node wait for a takeover, 100
    /// to 60,000
    #[schemars(range(min = *LEASES_MS.start(), max = *LEASES_MS.end()), extend("default" = usual().lease.as_secs() * 1_000))]
    lease_ms: Option<u64>,
    /// How long finished runs are stored; 0: for ever
    #[schemars(extend("default" = days(usual().retention)))]
    retention_days: Option<u32>,
    /// How long unused conversations are stored; 0: for ever. A conversation with an active run is
    /// not deleted
    #[schemars(extend("default" = days(usual().conversation_retention)))]
    conversation_retention_days: Option<u32>,
    /// How long after its end the journal of a run is stored in fewer rows, at least 60; 0: never
    #[schemars(extend("default" = usual().compact_after.map_or(0, |after| after.as_secs())))]
    compact_after_seconds: Option<u32>,
    /// Maximum number of connections to PostgreSQL, in addition to three permanent ones
    #[schemars(range(min = 2), extend("default" = usual().connections))]
    connections: Option<u32>,
    /// A role of PostgreSQL as which statements for one tenant run, so that row-level security
    /// applies to them
    tenant_role: Option<String>,
}

/// The options of a store for which the file says nothing.
fn usual() -> StoreOptions {
    StoreOptions::at(DEFAULT_STORE)
}

/// A retention as it is written in the file: 0 is for ever.
fn days(retention: Option<Duration>) -> u64 {
    retention.map_or(0, |retention| retention.as_secs() / DAY.as_secs())
}

/// Delivers events to other nodes faster than PostgreSQL does, and counts the quotas of minutes.
/// Only useful with several nodes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFanout {
    /// `redis://host:6379/`
    #[schemars(extend("x-turnwire-variable" = FANOUT_URL))]
    url: Option<String>,
    /// The variable with the URL
    url_env: Option<String>,
}

/// Both sections, validated without the environment. URLs may contain passwords, so they are not
/// printed.
#[derive(Default)]
pub(super) struct StoreSection {
    store: RawStore,
    fanout: RawFanout,
}

impl StoreSection {
    pub(super) fn read(store: Table, fanout: Table, mistakes: &mut Vec<String>) -> Self {
        let store: RawStore = read_table("store", store, mistakes);
        let fanout: RawFanout = read_table("fanout", fanout, mistakes);
        if let Some(url) = &store.url
            && !is_store(url)
        {
            mistakes.push(format!("store.url: {NOT_A_STORE}"));
        }
        if store.compact_after_seconds.is_some_and(|after| COMPACT_TOO_SOON.contains(&after)) {
            let too_soon =
                "at least 60, because a statement can be in flight for a minute; 0: never";
            mistakes.push(format!("store.compact_after_seconds: {too_soon}"));
        }
        if let Some(url) = &fanout.url
            && !is_fanout(url)
        {
            mistakes.push(format!("fanout.url: {NOT_A_FANOUT}"));
        }
        Self { store, fanout }
    }

    /// Returns the options of the store; `None` for memory, which is the default of a demo.
    pub(super) fn options(
        &self,
        is_demo: bool,
        environment: &Environment,
        in_file: &mut Vec<String>,
        in_environment: &mut Vec<String>,
    ) -> Option<StoreOptions> {
        let store = Address {
            variable: STORE_URL,
            section: "store",
            url: self.store.url.as_deref(),
            url_env: self.store.url_env.as_deref(),
            fits: is_store,
            otherwise: NOT_A_STORE,
        };
        let fanout = Address {
            variable: FANOUT_URL,
            section: "fanout",
            url: self.fanout.url.as_deref(),
            url_env: self.fanout.url_env.as_deref(),
            fits: is_fanout,
            otherwise: NOT_A_FANOUT,
        };
        let fanout = fanout.find(environment, in_file, in_environment);
        let usual = if is_demo { MEMORY } else { DEFAULT_STORE };
        let url = store.find(environment, in_file, in_environment).unwrap_or(usual.to_owned());
        if url == MEMORY {
            return None;
        }
        let url_is_postgres = url.starts_with("postgres");
        let mut options = StoreOptions::at(url);
        options.fanout = fanout;
        if let Some(lease) = self.store.lease_ms {
            options.lease = Duration::from_millis(lease);
        }
        if let Some(days) = self.store.retention_days {
            options.retention = (days > 0).then(|| DAY * days);
        }
        if let Some(days) = self.store.conversation_retention_days {
            options.conversation_retention = (days > 0).then(|| DAY * days);
        }
        if let Some(seconds) = self.store.compact_after_seconds {
            let after = Duration::from_secs(seconds.into());
            options.compact_after = (seconds > 0).then_some(after);
        }
        if let Some(most) = self.store.connections {
            options.connections = most;
        }
        if let Some(role) = &self.store.tenant_role {
            if url_is_postgres {
                options.tenant_role = Some(role.clone());
            } else {
                in_file.push("store.tenant_role: only PostgreSQL has roles".to_owned());
            }
        }
        Some(options)
    }
}

/// A URL from one of three places: our environment variable, the file, or a variable that the file
/// names.
struct Address<'a> {
    variable: &'static str,
    section: &'static str,
    url: Option<&'a str>,
    url_env: Option<&'a str>,
    fits: fn(&str) -> bool,
    otherwise: &'static str,
}

impl Address<'_> {
    fn find(
        &self,
        environment: &Environment,
        in_file: &mut Vec<String>,
        in_environment: &mut Vec<String>,
    ) -> Option<String> {
        if let Some(url) = environment.get(self.variable) {
            if !(self.fits)(url) {
                in_environment.push(format!("{}: {}", self.variable, self.otherwise));
            }
            return Some(url.to_owned());
        }
        let Some(variable) = self.url_env else { return self.url.map(str::to_owned) };
        match environment.get(variable) {
            Some(url) if (self.fits)(url) => return Some(url.to_owned()),
            Some(_) => in_file.push(format!("{}.url_env: {}", self.section, self.otherwise)),
            None => in_file.push(format!("{}.url_env: {}", self.section, not_set(variable))),
        }
        None
    }
}

const NOT_A_STORE: &str = "not the address of a store; it should look like sqlite://turnwire.db, \
                           postgres://user@host/database or memory:";
const NOT_A_FANOUT: &str =
    "not the address of a Redis server; it should look like redis://host:6379/";

fn is_store(url: &str) -> bool {
    let has_place = |scheme: &str| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    url == MEMORY || ["sqlite://", "postgres://", "postgresql://"].into_iter().any(has_place)
}

fn is_fanout(url: &str) -> bool {
    ["redis://", "rediss://", "valkey://", "valkeys://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
