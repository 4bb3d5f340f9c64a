//! `[[webhooks]]`: receivers of events of runs, each for one tenant.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_contract::{ApiKey, TenantId, WebhookEvent, WebhookRoute};
use turnwire_tools::{EgressOptions, SigningSecret, WebhookReceiver};

use super::{
    file::read_table,
    words::{did_you_mean, missing, not_set, quoted_url},
};
use crate::environment::Environment;

const EXAMPLE_URL: &str = "https://example.com/turnwire";
/// Usual and maximum time for an answer, in seconds.
const USUAL_SEC: u64 = 15;
const LONGEST_SEC: u64 = 60;
/// Maximum length of an address. A database can index no much longer one.
const MAX_URL: usize = 2_000;

/// Receivers of events of runs (webhooks.md). They need a database.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWebhook {
    /// The address of the receiver; `[egress]` must allow it
    #[schemars(extend("x-required" = true))]
    url: Option<String>,
    /// The variable with the secret, `whsec_…`, or with several, separated by commas
    #[schemars(extend("x-required" = true))]
    secret_env: Option<String>,
    /// `response.completed`, `response.failed`, `response.incomplete`, `response.cancelled`,
    /// `run.approval_requested`
    #[schemars(extend("items" = { "enum": WebhookEvent::ALL.map(WebhookEvent::as_str), "type": "string" }))]
    events: Option<Vec<String>>,
    /// The tenant whose runs it hears of
    #[schemars(extend("default" = TenantId::default().as_str()))]
    tenant: Option<String>,
    /// How long it has to answer, 1 to 60
    #[schemars(range(min = 1, max = LONGEST_SEC), extend("default" = USUAL_SEC))]
    timeout_sec: Option<u64>,
}

/// A validated receiver, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedWebhook {
    /// Number in the list.
    place: usize,
    route: WebhookRoute,
    /// Always set, unless a mistake was reported.
    secret_env: Option<String>,
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
    let webhooks: Vec<NamedWebhook> =
        tables.map(|(n, table)| named_webhook(n, table, way_out, mistakes)).collect();
    let mut seen = HashSet::new();
    for NamedWebhook { place, route, .. } in &webhooks {
        if !route.url.is_empty() && !seen.insert((&route.tenant, &route.url)) {
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
) -> NamedWebhook {
    let path = format!("webhooks[{place}]");
    let raw: RawWebhook = read_table(&path, table, mistakes);
    if raw.url.is_none() {
        let why = format!("missing; it should look like {EXAMPLE_URL}");
        missing(&format!("{path}.url"), &why, mistakes);
    }
    if raw.secret_env.is_none() {
        let why = "missing; name the variable that has the secret, `whsec_…`";
        missing(&format!("{path}.secret_env"), why, mistakes);
    }
    let mut tell = |key: &str, why: String| mistakes.push(format!("{path}.{key}: {why}"));
    match raw.url.as_deref() {
        Some(url) if url.len() > MAX_URL => tell("url", format!("longer than {MAX_URL} bytes")),
        Some(url) => {
            if let Err(why) = way_out.check(url) {
                tell("url", format!("{}: {why}; [egress] says what is allowed", quoted_url(url)));
            }
        }
        None => {}
    }
    let mut events = BTreeSet::new();
    for (n, word) in raw.events.iter().flatten().enumerate() {
        match word.parse::<WebhookEvent>() {
            Ok(event) => drop(events.insert(event)),
            Err(why) => {
                let advice = did_you_mean(word, &WebhookEvent::ALL.map(WebhookEvent::as_str));
                tell(&format!("events[{n}]"), format!("{why}; {advice}"));
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
    let tenant = raw.tenant.map_or_else(TenantId::default, TenantId::new);
    NamedWebhook {
        place,
        route: WebhookRoute { tenant, url: raw.url.unwrap_or_default(), events },
        secret_env: raw.secret_env,
        timeout: Duration::from_secs(timeout),
    }
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
        let Some(secret_env) = secret_env else { continue };
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
