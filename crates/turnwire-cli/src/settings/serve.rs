//! Settings of `turnwire serve`.

use std::{collections::BTreeMap, net::SocketAddr};

use turnwire::Limits;
use turnwire_engine::{AccessRules, QuotaOptions};
use turnwire_gateway::{AuditLevel, AuthOptions};
use turnwire_oidc::OidcOptions;
use turnwire_otel::{MetricOptions, TraceOptions, VariableError};
use turnwire_stores::{SecretKeys, StoreOptions};
use turnwire_tools::{
    EgressOptions, EmbeddingsOptions, HttpFunctionOptions, McpServerOptions, UrlRule,
    WebSearchOptions,
};

use super::{
    access::access_rules,
    approvals::ApprovalSettings,
    file::{SettingsFile, all_of, located},
    functions::functions,
    limits::ServerLimits,
    mcp_files::servers,
    models::{SCRIPTED, ServedModels, WATCHED_DEMO, demo, missing_for_all},
    sections::Sections,
    server::{RawServer, listen_of},
    webhooks::{WebhookSettings, with_secrets},
    words::is_told,
};
use crate::{
    addresses::DEFAULT_LISTEN,
    args::ServeArguments,
    environment::Environment,
    exit::{Problem, Result},
};

/// The validated settings of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct ServeSettings {
    pub(crate) listen: SocketAddr,
    /// Without the identity provider, which is in `oidc`.
    pub(crate) auth: AuthOptions,
    /// Whose tokens are accepted in place of keys.
    pub(crate) oidc: Option<OidcOptions>,
    /// Keys for secrets that requests bring; without them, such requests are refused.
    pub(crate) secret_keys: Option<SecretKeys>,
    /// What the audit log records.
    pub(crate) audit: AuditLevel,
    /// Instructions for `/chat` and `/ws/chat`.
    pub(crate) instructions: Option<String>,
    pub(crate) models: ServedModels,
    /// Who may use models and tools, besides the tenants of models and of tool servers.
    pub(crate) access: AccessRules,
    pub(crate) tool_servers: BTreeMap<String, McpServerOptions>,
    /// URL rules for tool servers from requests.
    pub(crate) on_request: Vec<UrlRule>,
    pub(crate) functions: Vec<HttpFunctionOptions>,
    pub(crate) web_search: Option<WebSearchOptions>,
    /// Allowed targets for URLs from a model or a request.
    pub(crate) egress: EgressOptions,
    /// What is sent to receivers of webhooks.
    pub(crate) webhooks: WebhookSettings,
    /// Where spans go; nowhere if not set.
    pub(crate) traces: Option<TraceOptions>,
    /// Where metrics go, besides `/metrics`; nowhere if not set.
    pub(crate) metrics: Option<MetricOptions>,
    /// Embeddings model for file search.
    pub(crate) embeddings: Option<EmbeddingsOptions>,
    pub(crate) limits: Limits,
    pub(crate) server_limits: ServerLimits,
    /// What tenants and holders of keys may use.
    pub(crate) quotas: QuotaOptions,
    /// Additional address for health checks.
    pub(crate) health_listen: Option<SocketAddr>,
    pub(crate) approvals: ApprovalSettings,
    /// The store; in memory if not set.
    pub(crate) store: Option<StoreOptions>,
    /// SHA-256 of the settings file.
    pub(crate) digest: Option<String>,
    /// Warnings about valid but questionable settings.
    pub(crate) warnings: Vec<String>,
}

impl ServeSettings {
    /// Reads the settings from flags, environment and file.
    pub(crate) fn read(arguments: &ServeArguments, environment: &Environment) -> Result<Self> {
        let file = SettingsFile::find(arguments.config.as_deref())?;
        Self::of(arguments, environment, file.as_ref())
    }

    pub(super) fn of(
        arguments: &ServeArguments,
        environment: &Environment,
        file: Option<&SettingsFile>,
    ) -> Result<Self> {
        let (mut in_file, mut in_environment) = (Vec::new(), Vec::new());
        let sections = Sections::read(file, &mut in_file);
        // A server is watched by people, through its clients.
        let demo = demo(WATCHED_DEMO, environment, &mut in_environment);
        let listen = listen_of(environment, &mut in_environment);
        let api_keys = sections.server.keys(environment, &mut in_file, &mut in_environment);
        let metrics_token =
            sections.server.metrics_token(environment, &mut in_file, &mut in_environment);
        let secret_keys = sections.secrets.as_ref();
        let secret_keys = secret_keys.and_then(|keys| keys.keys(environment, &mut in_file));
        let tool_servers = servers(&sections, &arguments.mcp_config, environment, &mut in_file);
        let functions = functions(&sections.functions, environment, &mut in_file);
        let web_search = sections.web_search.as_ref();
        let web_search =
            web_search.map(|search| search.with_environment(environment, &mut in_file));
        let embeddings = sections.embeddings.as_ref();
        let embeddings = embeddings.map(|section| section.options(environment, &mut in_file));
        let traces = TraceOptions::read(|name| environment.get(name));
        let traces = usable(traces, &mut in_environment);
        let metrics = MetricOptions::read(|name| environment.get(name));
        let metrics = usable(metrics, &mut in_environment);
        let choice = arguments.model.as_deref().or(environment.get("TURNWIRE_MODEL"));
        let is_demo = arguments.demo || choice == Some(SCRIPTED);
        let store = sections.store.options(is_demo, environment, &mut in_file, &mut in_environment);
        let encryption = sections.encryption.as_ref();
        let encryption = encryption.and_then(|keys| keys.keys(environment, &mut in_file));
        let audit_retention = sections.audit.retention;
        let webhooks = sections.webhooks.clone();
        let webhooks = with_secrets(webhooks, store.is_some(), environment, &mut in_file);
        let store = store.map(|store| StoreOptions {
            audit_retention,
            webhooks: webhooks.routes.clone(),
            encryption,
            ..store
        });
        let models = if is_demo {
            Ok(ServedModels::scripted(demo))
        } else {
            missing_for_all(&sections.models, environment, &mut in_file, &mut in_environment);
            let fallback = sections.server.rest.fallback_model.as_deref();
            ServedModels::of(&sections.models, environment, choice, fallback)
        };
        if !(in_file.is_empty() && in_environment.is_empty()) {
            // With the other mistakes, so that it is not found only after they are mended.
            let has_models = !sections.is_unreadable && !is_told("models", &in_file);
            let choice = models.err().filter(|problem| has_models && is_about_choice(problem));
            in_environment.extend(choice.map(|problem| problem.message));
            return Err(all_of(in_file, in_environment, file));
        }
        let models = models.map_err(|problem| located(problem, file))?;
        let warnings = warnings(&sections, file);
        let access = access_rules(&sections, &models);
        let server = sections.server;
        let RawServer { hosts, origins, instructions, .. } = server.rest;
        let origins = origins.into_iter().chain(arguments.origin.iter().cloned()).collect();
        Ok(Self {
            listen: arguments.listen.or(listen).or(server.listen).unwrap_or(DEFAULT_LISTEN),
            auth: AuthOptions { api_keys, tokens: None, metrics_token, hosts, origins },
            oidc: sections.oidc,
            secret_keys,
            audit: sections.audit.level,
            instructions,
            models,
            access,
            tool_servers,
            on_request: sections.mcp.on_request,
            functions,
            web_search,
            egress: sections.egress,
            webhooks,
            traces,
            metrics,
            embeddings,
            server_limits: sections.limits.server,
            quotas: sections.quotas,
            health_listen: server.health_listen,
            limits: Limits {
                approval_expiry: sections.approvals.expire_after,
                ..sections.limits.runs
            },
            approvals: sections.approvals,
            store,
            digest: file.map(SettingsFile::digest),
            warnings,
        })
    }
}

/// What the standard variables of OpenTelemetry say. A mistake in one of them may concern both
/// traces and metrics, and is reported once.
fn usable<T>(read: Result<Option<T>, VariableError>, mistakes: &mut Vec<String>) -> Option<T> {
    read.unwrap_or_else(|mistake| {
        let mistake = mistake.to_string();
        if !mistakes.contains(&mistake) {
            mistakes.push(mistake);
        }
        None
    })
}

/// Whether there is no model to choose. What a chosen model lacks is reported with the models.
fn is_about_choice(problem: &Problem) -> bool {
    !["models.", "OPENAI_BASE_URL:"].iter().any(|begin| problem.message.starts_with(begin))
}

fn warnings(sections: &Sections, file: Option<&SettingsFile>) -> Vec<String> {
    let has_keys = !sections.server.api_keys.is_empty();
    let keys = has_keys.then_some(
        "server.api_keys: keys do not belong in a file; put them into a variable and name it \
             with api_keys_env",
    );
    let located = |warning: &str| file.map_or(warning.to_owned(), |file| file.located(warning));
    keys.into_iter().map(located).collect()
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
