//! The lines that are printed when the gateway listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use turnwire_stores::StoreOptions;
use turnwire_surfaces::clean;

use crate::{
    demo,
    settings::{DEFAULT_MODEL, OtherNames, ServeSettings, ServedModels},
    terminal::Paint,
    wiring::FINISHED_RUNS_KEPT,
};

/// What the lines tell beyond the settings.
#[derive(Debug, Default)]
pub(super) struct Served<'a> {
    pub(super) tools: Vec<&'a str>,
    /// Whether requests need a key, of the settings or of the store.
    pub(super) needs_key: bool,
}

pub(super) fn lines(
    address: SocketAddr,
    settings: &ServeSettings,
    served: &Served<'_>,
    paint: Paint,
) -> Vec<String> {
    let place = reachable(address);
    let version = env!("CARGO_PKG_VERSION");
    let heading = format!("turnwire {version} listens on http://{address}");
    let row = |name: &str, what: String| format!("  {name:<13}{}", clean(&what));
    let mut lines = vec![
        paint.strong(&heading),
        row("Web view", format!("http://{place}/")),
        row("Responses", format!("http://{place}/v1/responses")),
        row("Chat", format!("http://{place}/chat and http://{place}/chat/stream")),
        row("WebSocket", format!("ws://{place}/ws/chat")),
        row("Runs", format!("http://{place}/v1/runs")),
        row("OpenAPI", format!("http://{place}/openapi.json")),
        row("Models", models(&settings.models)),
        row("Tools", served.tools.join(", ")),
    ];
    let demo = settings.models.demo().map(|_| demo::SERVERS);
    let demo = demo.into_iter().flatten();
    let demo = demo.filter(|(label, _)| !settings.tool_servers.contains_key(*label));
    let demo = demo.map(|(label, tool)| format!("{label} ({tool})"));
    let connecting = settings.tool_servers.keys().map(|label| format!("{label} (connecting)"));
    let servers: Vec<String> = demo.chain(connecting).collect();
    if !servers.is_empty() {
        lines.push(row("Tool servers", servers.join(", ")));
    }
    lines.push(row("Keys", keys(settings.auth.api_keys.len(), served.needs_key)));
    if let Some(provider) = &settings.oidc {
        lines.push(row("Tokens", format!("of {}", provider.issuer)));
    }
    lines.push(row("Kept", kept(settings.store.as_ref())));
    let key = if served.needs_key { "…" } else { "none" };
    lines.push(format!(
        "Point an OpenAI SDK at it: OPENAI_BASE_URL=http://{place}/v1 OPENAI_API_KEY={key}"
    ));
    if settings.models.demo().is_some() {
        lines.push(format!("Open the web view and ask: {}", demo::QUESTION));
    }
    lines
}

/// Describes the store, without its password.
fn kept(store: Option<&StoreOptions>) -> String {
    let Some(store) = store else {
        return format!("in memory: the last {FINISHED_RUNS_KEPT} runs, until this process ends");
    };
    let (scheme, place) = store.url.split_once("://").unwrap_or_default();
    let place = place.split('?').next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let place = match scheme {
        "sqlite" => format!("in the file {place}"),
        _ => format!("in PostgreSQL at {place}"),
    };
    let fanout = if store.fanout.is_some() { ", notifications by Redis" } else { "" };
    match store.retention {
        Some(time) => {
            format!("{place}{fanout}; finished runs for {} days", time.as_secs() / 86_400)
        }
        None => format!("{place}{fanout}; finished runs for ever"),
    }
}

/// Returns an address for local clients if the gateway listens on all interfaces.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn models(models: &ServedModels) -> String {
    let ServedModels { named, others, default_name, .. } = models;
    let more = named.keys().filter(|name| Some(*name) != default_name.as_ref()).cloned();
    let default = default_name.iter().map(|name| format!("{name} (default)"));
    let names: Vec<String> = default.chain(more).collect();
    let names = names.join(", ");
    match others {
        OtherNames::Refused if default_name.is_none() => {
            format!("{names}; a request has to name one")
        }
        OtherNames::Refused => names,
        OtherNames::AnsweredBy(model) => format!("{names}; `{model}` answers for any other name"),
        OtherNames::PassedOn(provider)
            if default_name.as_deref() == Some(DEFAULT_MODEL) && named.is_empty() =>
        {
            let url = provider.addresses();
            format!(
                "every name goes to {url}; requests without one ask for `{DEFAULT_MODEL}`, \
                     unless --model names another"
            )
        }
        OtherNames::PassedOn(provider) => {
            format!("{names}; any other name goes to {}", provider.addresses())
        }
    }
}

fn keys(n_keys: usize, needs_key: bool) -> String {
    match n_keys {
        0 if needs_key => "those of the store: `turnwire keys list`".to_owned(),
        0 => "none: every program on this machine may use it".to_owned(),
        1 => "1: send it as `Authorization: Bearer KEY`".to_owned(),
        n_keys => format!("{n_keys}: send one as `Authorization: Bearer KEY`"),
    }
}

#[cfg(test)]
#[path = "greeting_tests.rs"]
mod tests;
