//! The checks of `turnwire doctor`, one per part of the settings.

use std::{net::SocketAddr, path::Path, sync::Arc};

use futures::future::{join, join_all, join4, join5};
use tokio::net::TcpListener;
use turnwire_contract::{Tool, ToolError};
use turnwire_models::{
    probe::{ModelListFormat, ProbeError, models_at},
    vendors::Api,
};
use turnwire_stores::{EncryptionStatus, Store, StoreOptions, reach_fanout};
use turnwire_tools::{McpServers, SearchProvider, WebSearchOptions};

use super::report::{Finding, Report};
use crate::{
    environment::Environment,
    settings::{
        Kind, ModelSettings, OtherNames, Provider, ServeSettings, UpstreamSettings, did_you_mean,
    },
    wiring,
};

/// Query that is sent to the search engine.
const QUESTION: &str = "weather";
/// What to do about a receiver of OTLP.
const CHECK_RECEIVER: &str = "check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS";
/// Variables for HTTP proxies.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Maximum number of model names to print.
const MODELS_NAMED: usize = 5;

/// Runs all checks concurrently.
pub(super) async fn everything(settings: &ServeSettings, environment: &Environment) -> Report {
    let looking = join4(
        Box::pin(models(settings)),
        Box::pin(tool_servers(settings)),
        Box::pin(store(settings.store.as_ref())),
        Box::pin(join5(
            web_search(settings),
            identity_provider(settings),
            traces(settings),
            metrics(settings),
            listen(settings.listen),
        )),
    );
    let (models, tool_servers, store, others) = looking.await;
    let (web_search, identity_provider, traces, metrics, listen) = others;
    let mut findings = vec![read_settings(settings)];
    findings.extend(models);
    findings.extend(tool_servers);
    findings.extend(store);
    findings.extend(web_search);
    findings.extend(identity_provider);
    findings.extend(traces);
    findings.extend(metrics);
    findings.extend(secret_keys(settings));
    findings.extend(way_out(settings));
    findings.push(listen);
    findings.extend(proxies(environment));
    Report(findings)
}

/// Names the keys for secrets of requests, so that those of several servers can be compared.
fn secret_keys(settings: &ServeSettings) -> Option<Finding> {
    let ids: Vec<&str> = settings.secret_keys.as_ref()?.ids().collect();
    Some(Finding::ok("secrets", format!("keys, the first of which encrypts: {}", ids.join(", "))))
}

/// Asks the identity provider for its keys.
async fn identity_provider(settings: &ServeSettings) -> Option<Finding> {
    let options = settings.oidc.as_ref()?;
    let subject = "identity provider";
    let checked = match wiring::oidc(options) {
        Ok(oidc) => oidc.check().await,
        Err(problem) => return Some(Finding::broken(subject, problem.to_string())),
    };
    Some(match checked {
        Ok(n_keys) => Finding::ok(subject, format!("{}: usable keys: {n_keys}", options.issuer)),
        Err(why) => Finding::broken(subject, why)
            .hint("check issuer under [oidc]: it is the address that the provider calls itself"),
    })
}

/// Sends an empty batch of spans to their receiver.
async fn traces(settings: &ServeSettings) -> Option<Finding> {
    let options = settings.traces.as_ref()?;
    let receiver = options.receiver.shown();
    Some(match turnwire_otel::check(options).await {
        Ok(()) => Finding::ok("traces", format!("{receiver} accepts spans")),
        Err(error) => {
            Finding::broken("traces", format!("{receiver}: {error}")).hint(CHECK_RECEIVER)
        }
    })
}

/// Sends a request without metrics to their receiver.
async fn metrics(settings: &ServeSettings) -> Option<Finding> {
    let options = settings.metrics.as_ref()?;
    let receiver = options.receiver.shown();
    Some(match turnwire_otel::check_metrics(options).await {
        Ok(()) => Finding::ok("metrics", format!("{receiver} accepts metrics")),
        Err(error) => Finding::broken("metrics", format!("{receiver}: {error}"))
            .hint(CHECK_RECEIVER)
            .hint("or export none with OTEL_METRICS_EXPORTER=none; /metrics has them anyway"),
    })
}

fn read_settings(settings: &ServeSettings) -> Finding {
    match settings.warnings.as_slice() {
        [] => Finding::ok("settings", "they can be used"),
        warnings => Finding::warning("settings", warnings.join("\n")),
    }
}

async fn models(settings: &ServeSettings) -> Vec<Finding> {
    let served = &settings.models;
    let named = served.named.iter().map(|(name, model)| (name.as_str(), model));
    // The provider for other names is among the named models, unless it comes from the environment.
    let passed_on = match &served.others {
        OtherNames::PassedOn(provider) => {
            let default = served.default_name.as_ref();
            let default = default.filter(|default| !served.named.contains_key(*default));
            default.map(|name| (name.as_str(), ModelSettings::Provider(provider.clone())))
        }
        OtherNames::AnsweredBy(_) | OtherNames::Refused => None,
    };
    let passed_on = passed_on.iter().map(|(name, model)| (*name, model));
    let findings = join_all(named.chain(passed_on).map(|(name, model)| one_model(name, model)));
    findings.await.into_iter().flatten().collect()
}

/// Checks each upstream of a model.
async fn one_model(name: &str, model: &ModelSettings) -> Vec<Finding> {
    let subject = format!("model {name}");
    let Provider { kind, upstreams, .. } = match model {
        ModelSettings::Scripted(_) => {
            return vec![Finding::ok(subject, "scripted, needs no server")];
        }
        ModelSettings::Provider(provider) => provider,
    };
    let looking = upstreams.iter().map(|upstream| {
        let subject = match upstreams.len() {
            1 => subject.clone(),
            _ => format!("{subject}, upstream {}", upstream.name),
        };
        one_upstream(subject, name, *kind, upstream)
    });
    join_all(looking).await
}

async fn one_upstream(
    subject: String,
    name: &str,
    kind: Kind,
    upstream: &UpstreamSettings,
) -> Finding {
    let UpstreamSettings { base_url, api_key, model, .. } = upstream;
    let speaks = match kind.api() {
        Api::ChatCompletions | Api::OpenAiResponses => ModelListFormat::OpenAi,
        Api::AnthropicMessages => ModelListFormat::Anthropic,
    };
    match models_at(base_url, api_key.as_ref(), speaks).await {
        Ok(known) => listed(subject, base_url, model.as_deref().unwrap_or(name), &known),
        Err(error @ ProbeError::OutOfReach) => {
            Finding::broken(subject, format!("{base_url}: {error}"))
                .hint("start it, or repair base_url in the settings or OPENAI_BASE_URL")
        }
        Err(error @ ProbeError::KeyRefused(_)) => {
            Finding::broken(subject, format!("{base_url}: {error}"))
                .hint("check the variable that api_key_env names, or the usual one")
        }
        Err(error @ ProbeError::NoList(_)) => {
            Finding::warning(subject, format!("{base_url}: {error}"))
                .hint("does base_url end where /models begins, often with /v1?")
        }
    }
}

/// A model that the server does not list is probably a mistake. Some servers list only part of
/// their models.
fn listed(subject: String, base_url: &str, wanted: &str, known: &[String]) -> Finding {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if known.contains(&wanted) {
        return Finding::ok(subject, format!("{base_url} has `{wanted}`"));
    }
    let message = format!("{base_url} answers, and does not list `{wanted}`");
    let shown = known.get(..MODELS_NAMED.min(known.len())).unwrap_or_default();
    match known.as_slice() {
        [] => Finding::warning(subject, message),
        known if known.len() <= MODELS_NAMED => {
            Finding::warning(subject, message).hint(did_you_mean(wanted, known))
        }
        known => {
            let advice = did_you_mean(wanted, known);
            let is_guess = advice.starts_with("did you mean");
            let first = format!("the first of {}: {}", known.len(), shown.join(", "));
            Finding::warning(subject, message).hint(if is_guess { advice } else { first })
        }
    }
}

async fn tool_servers(settings: &ServeSettings) -> Vec<Finding> {
    let servers = McpServers::new(settings.tool_servers.clone());
    let connected = servers.connect_all().await;
    servers.shut_down().await;
    let finding = |(label, tools): (String, Result<Vec<Arc<dyn Tool>>, ToolError>)| {
        let subject = format!("tool server {label}");
        match tools {
            Ok(tools) if tools.is_empty() => Finding::warning(subject, "it has no tools"),
            Ok(tools) => Finding::ok(subject, format!("tools: {}", tools.len())),
            Err(error) => Finding::broken(subject, error.to_string()).hint(format!(
                "check [mcp_servers.{label}] in the settings; TURNWIRE_LOG=debug tells more"
            )),
        }
    };
    connected.into_iter().map(finding).collect()
}

async fn store(options: Option<&StoreOptions>) -> Vec<Finding> {
    let Some(options) = options else {
        let message = "runs are stored in memory, and lost when the process ends";
        return vec![Finding::warning("store", message)];
    };
    let fanout = async {
        let url = options.fanout.as_deref()?;
        Some(match reach_fanout(url).await {
            Ok(()) => Finding::ok("fanout", "Redis answers"),
            Err(error) => Finding::broken("fanout", format!("Redis does not respond: {error}"))
                .hint("check [fanout] in the settings; without it, notifications between nodes are slower"),
        })
    };
    let (store, fanout) = join(database(options), fanout).await;
    [store].into_iter().chain(fanout).collect()
}

async fn database(options: &StoreOptions) -> Finding {
    if let Some(path) = options.url.strip_prefix("sqlite://").map(Path::new)
        && !path.exists()
    {
        return not_there_yet(path);
    }
    // Notifications have a finding of their own.
    match Store::open(options.clone().beside_servers()).await {
        Ok(store) => {
            let encryption = store.encryption_status().await;
            store.close().await;
            encryption.map_or_else(|_| Finding::ok("store", "it opens"), |it| opened(&it))
        }
        Err(error) => Finding::broken("store", error.to_string())
            .hint("check [store] in the settings, or TURNWIRE_STORE_URL"),
    }
}

/// A store that opens, and whose encrypted rows can be read or not.
fn opened(status: &EncryptionStatus) -> Finding {
    let missing: Vec<&str> = status.closed().map(|closed| closed.operator_key.as_str()).collect();
    if !missing.is_empty() {
        let what = format!(
            "data of tenants is encrypted with keys that are not here: {}",
            missing.join(", ")
        );
        return Finding::broken("store", what).hint("add them to the keys of [encryption]");
    }
    match status.operator_keys.as_slice() {
        [] => Finding::ok("store", "it opens"),
        ids => Finding::ok("store", format!("it opens; keys of [encryption]: {}", ids.join(", "))),
    }
}

/// Checks a file that `serve` will create.
fn not_there_yet(path: &Path) -> Finding {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let about = std::fs::metadata(folder);
    let shown = path.display();
    match about {
        Ok(about) if about.is_dir() && !about.permissions().readonly() => {
            Finding::ok("store", format!("{shown} is not there yet; the first start makes it"))
        }
        Ok(_) | Err(_) => Finding::broken("store", format!("{shown} cannot be made"))
            .hint(format!("is {} a folder that can be written to?", folder.display())),
    }
}

async fn web_search(settings: &ServeSettings) -> Option<Finding> {
    let options = settings.web_search.as_ref()?;
    let subject = "web search";
    let search = match wiring::web_search(options, &settings.egress) {
        Ok(search) => search,
        Err(problem) => {
            return Some(Finding {
                hints: problem.hints.clone(),
                ..Finding::broken(subject, problem.message)
            });
        }
    };
    Some(match search.try_out(QUESTION).await {
        Ok(0) => {
            Finding::warning(subject, format!("{} answers, and finds nothing", options.base_url))
                .hint(format!(
                    "it was asked for `{QUESTION}`; are its own search engines reachable?"
                ))
        }
        Ok(found) => Finding::ok(subject, format!("{} answers, {found} results", options.base_url)),
        Err(error) => {
            let finding = Finding::broken(subject, format!("{}: {error}", options.base_url));
            match advice(options, &error.to_string()) {
                Some(advice) => finding.hint(advice),
                None => finding.hint("check [web_search] in the settings"),
            }
        }
    })
}

/// Returns advice for known errors.
fn advice(options: &WebSearchOptions, error: &str) -> Option<&'static str> {
    let is_json_refused = options.provider == SearchProvider::Searxng && error.contains("(403)");
    is_json_refused.then_some(
        "in the settings.yml of SearXNG:\nsearch:\n  formats:\n    - html\n    - json\nthen \
         restart it; the same status comes from its limiter (server.limiter) and from a proxy \
         before it",
    )
}

/// Lists the networks that the operator allows, as a reminder.
fn way_out(settings: &ServeSettings) -> Option<Finding> {
    let open = &settings.egress.open_networks;
    let networks: Vec<String> = open.iter().map(ToString::to_string).collect();
    (!networks.is_empty()).then(|| {
        let message = format!("models may reach {}", networks.join(", "));
        Finding::warning("egress", message)
            .hint("that is what [egress] open_networks says; take out what is not needed")
    })
}

async fn listen(address: SocketAddr) -> Finding {
    match TcpListener::bind(address).await {
        Ok(_) => Finding::ok("listen", format!("{address} is free")),
        Err(error) => Finding::warning("listen", format!("cannot listen on {address}: {error}"))
            .hint(
                "a turnwire that is running already has it; otherwise choose another with --listen",
            ),
    }
}

/// Proxies in the environment may buffer streams, and some parts ignore them.
pub(super) fn proxies(environment: &Environment) -> Option<Finding> {
    let set: Vec<&str> =
        PROXIES.into_iter().filter(|variable| environment.is_set(variable)).collect();
    if set.is_empty() {
        return None;
    }
    let but = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| environment.get(name));
    let but = but.map_or_else(String::new, |hosts| format!(", except for {hosts}"));
    let message = format!(
        "{} is set{but}: models and MCP servers elsewhere are asked through it; web search and \
         pages are not",
        set.join(", ")
    );
    Some(
        Finding::warning("proxies", message)
            .hint("put local models into NO_PROXY; a proxy that buffers holds streams back"),
    )
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
