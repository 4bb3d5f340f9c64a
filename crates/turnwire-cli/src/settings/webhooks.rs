//! `[[webhooks]]`: receivers of events of runs, each for one tenant.

use std::{collections::BTreeSet, time::Duration};

use serde::Deserialize;
use toml::Table;
use turnwire_contract::{ApiKey, TenantId, WebhookEvent, WebhookRoute};
use turnwire_tools::{EgressOptions, SigningSecret, WebhookReceiver};

use super::{
    file::{RawTable, read_table},
    words::{did_you_mean, not_set},
};
use crate::environment::Environment;

const EXAMPLE_URL: &str = "https://example.com/turnwire";
/// Usual and maximum time for an answer, in seconds.
const USUAL_SEC: u64 = 15;
const LONGEST_SEC: u64 = 60;
/// Maximum length of an address. A database can index no much longer one.
const MAX_URL: usize = 2_000;

/// A receiver as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebhook {
    url: Option<String>,
    secret_env: Option<String>,
    events: Option<Vec<String>>,
    tenant: Option<String>,
    timeout_sec: Option<u64>,
}

impl RawTable for RawWebhook {
    const KEYS: &'static [&'static str] = &["url", "secret_env", "events", "tenant", "timeout_sec"];
}

/// A validated receiver, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedWebhook {
    /// Number in the list.
    place: usize,
    route: WebhookRoute,
    secret_env: String,
    timeout: Duration,
}

/// What is sent, and to whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WebhookSettings {
    /// What the store keeps for whom.
    pub(crate) routes: Vec<WebhookRoute>,
    /// Who gets it.
    pub(crate) receivers: Vec<WebhookReceiver>,
}

/// Reads the list. Addresses must be allowed by `way_out`, because events are sent that way.
pub(super) fn named_webhooks(
    tables: Vec<Table>,
    way_out: &EgressOptions,
    mistakes: &mut Vec<String>,
) -> Vec<NamedWebhook> {
    let tables = tables.into_iter().enumerate();
    let read = tables.filter_map(|(n, table)| named_webhook(n, table, way_out, mistakes));
    let webhooks: Vec<NamedWebhook> = read.collect();
    for (n, webhook) in webhooks.iter().enumerate() {
        let same = |other: &NamedWebhook| {
            (&other.route.tenant, &other.route.url) == (&webhook.route.tenant, &webhook.route.url)
        };
        if webhooks.iter().take(n).any(same) {
            let place = webhook.place;
            mistakes.push(format!("webhooks[{place}].url: the tenant has this receiver already"));
        }
    }
    webhooks
}

fn named_webhook(
    place: usize,
    table: Table,
    way_out: &EgressOptions,
    mistakes: &mut Vec<String>,
) -> Option<NamedWebhook> {
    let path = format!("webhooks[{place}]");
    let written = |key: &str| table.contains_key(key);
    let (had_url, had_secret) = (written("url"), written("secret_env"));
    let raw: RawWebhook = read_table(&format!("{path}."), table, mistakes);
    let mut tell = |key: &str, why: String| mistakes.push(format!("{path}.{key}: {why}"));
    match raw.url.as_deref() {
        Some(url) if url.len() > MAX_URL => tell("url", format!("longer than {MAX_URL} bytes")),
        Some(url) => {
            if let Err(why) = way_out.check(url) {
                tell("url", format!("`{url}`: {why}; [egress] says what is allowed"));
            }
        }
        // An invalid value is already reported.
        None if had_url => {}
        None => tell("url", format!("missing; it should look like {EXAMPLE_URL}")),
    }
    if raw.secret_env.is_none() && !had_secret {
        tell("secret_env", "missing; name the variable that has the secret, `whsec_…`".to_owned());
    }
    let mut events = BTreeSet::new();
    for word in raw.events.iter().flatten() {
        match word.parse::<WebhookEvent>() {
            Ok(event) => drop(events.insert(event)),
            Err(why) => {
                let advice = did_you_mean(word, &WebhookEvent::ALL.map(WebhookEvent::as_str));
                tell("events", format!("{why}; {advice}"));
            }
        }
    }
    match raw.events.as_deref() {
        None => events.extend(WebhookEvent::ALL),
        Some([]) => tell("events", "none is named; leave it out for all".to_owned()),
        Some(_) => {}
    }
    if let Some(Err(why)) = raw.tenant.as_deref().map(ApiKey::check_name) {
        tell("tenant", why);
    }
    let timeout = raw.timeout_sec.unwrap_or(USUAL_SEC);
    if !(1..=LONGEST_SEC).contains(&timeout) {
        tell("timeout_sec", format!("give a number from 1 to {LONGEST_SEC}"));
    }
    let tenant = raw.tenant.map_or_else(TenantId::default, TenantId::new);
    Some(NamedWebhook {
        place,
        route: WebhookRoute { tenant, url: raw.url?, events },
        secret_env: raw.secret_env?,
        timeout: Duration::from_secs(timeout),
    })
}

/// Adds the secrets. `has_store` says whether there is a database, which the outbox is in.
pub(super) fn with_secrets(
    webhooks: Vec<NamedWebhook>,
    has_store: bool,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> WebhookSettings {
    if let Some(first) = webhooks.first().filter(|_| !has_store) {
        let place = first.place;
        mistakes.push(format!(
            "webhooks[{place}]: events are sent from a database; give one with [store] or \
             TURNWIRE_STORE_URL"
        ));
    }
    let mut settings = WebhookSettings::default();
    for NamedWebhook { place, route, secret_env, timeout } in webhooks {
        match secrets_of(&secret_env, environment) {
            Ok(secrets) => settings.receivers.push(WebhookReceiver {
                tenant: route.tenant.clone(),
                url: route.url.clone(),
                secrets,
                timeout,
            }),
            Err(why) => mistakes.push(format!("webhooks[{place}].secret_env: {why}")),
        }
        settings.routes.push(route);
    }
    settings
}

/// Reads the secrets in a variable, separated by commas.
fn secrets_of(variable: &str, environment: &Environment) -> Result<Vec<SigningSecret>, String> {
    let text = environment.get(variable).ok_or_else(|| not_set(variable))?;
    let secrets = text.split(',').map(str::trim).filter(|secret| !secret.is_empty());
    let secrets: Vec<SigningSecret> = secrets
        .map(|secret| SigningSecret::parse(secret).map_err(|why| format!("`{variable}`: {why}")))
        .collect::<Result<_, _>>()?;
    if secrets.is_empty() {
        Err(format!("`{variable}`: there is no secret in it"))
    } else {
        Ok(secrets)
    }
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
