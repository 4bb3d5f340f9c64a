//! The sections of `turnwire.toml`, each validated by its own module.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use toml::{Table, Value};
use turnwire_engine::QuotaOptions;
use turnwire_oidc::OidcOptions;
use turnwire_stores::StoreOptions;
use turnwire_tools::EgressOptions;

use super::{
    approvals::{ApprovalSettings, approvals},
    audit::AuditSection,
    egress::egress,
    embeddings::EmbeddingsSection,
    file::{RawTable, SettingsFile, all_of, read_table, table_of},
    functions::{NamedFunction, named_functions},
    limits::{LimitsSection, limits},
    mcp::{McpSection, mcp},
    models::{NamedModel, complete_timeouts, named_models},
    oidc::oidc,
    quotas::quotas,
    secrets::SecretsSection,
    server::ServerSection,
    store::StoreSection,
    tool_servers::{NamedServer, named_servers},
    web_search::WebSearchSection,
    webhooks::{NamedWebhook, named_webhooks},
};
use crate::{environment::Environment, exit::Problem};

#[derive(Default)]
pub(super) struct Sections {
    pub(super) models: BTreeMap<String, NamedModel>,
    pub(super) server: ServerSection,
    /// Whose tokens are accepted in place of keys.
    pub(super) oidc: Option<OidcOptions>,
    /// Keys for secrets of requests.
    pub(super) secrets: Option<SecretsSection>,
    pub(super) tool_servers: BTreeMap<String, NamedServer>,
    /// Files with further servers.
    pub(super) mcp: McpSection,
    pub(super) functions: BTreeMap<String, NamedFunction>,
    pub(super) web_search: Option<WebSearchSection>,
    pub(super) egress: EgressOptions,
    pub(super) webhooks: Vec<NamedWebhook>,
    pub(super) embeddings: Option<EmbeddingsSection>,
    pub(super) limits: LimitsSection,
    pub(super) approvals: ApprovalSettings,
    pub(super) store: StoreSection,
    pub(super) audit: AuditSection,
    pub(super) quotas: QuotaOptions,
}

impl Sections {
    pub(super) fn read(
        file: Option<&SettingsFile>,
        mistakes: &mut Vec<String>,
    ) -> Result<Self, Problem> {
        let Some(file) = file else { return Ok(Self::default()) };
        let RawSettings {
            models,
            server,
            oidc: provider,
            secrets,
            mcp_servers,
            mcp: of_others,
            functions,
            web_search: search,
            egress: way_out,
            webhooks,
            embeddings,
            limits: most,
            approvals: asking,
            store,
            fanout,
            audit,
            quotas: most_used,
        } = read_table("", file.table()?, mistakes);
        let mut section = |name: &str, value| table_of(name, value, mistakes);
        let models = section("models", models);
        let server = section("server", server);
        let provider = section("oidc", provider);
        let secrets = section("secrets", secrets);
        let servers = section("mcp_servers", mcp_servers);
        let of_others = section("mcp", of_others);
        let functions = section("functions", functions);
        let search = section("web_search", search);
        let way_out = section("egress", way_out);
        let embeddings = section("embeddings", embeddings);
        let most = section("limits", most);
        let asking = section("approvals", asking);
        let (store, fanout) = (section("store", store), section("fanout", fanout));
        let audit = section("audit", audit);
        let most_used = section("quotas", most_used);
        let mut sections = Self {
            models: named_models(models.unwrap_or_default(), mistakes),
            server: ServerSection::read(server.unwrap_or_default(), mistakes),
            oidc: provider.and_then(|table| oidc(table, mistakes)),
            secrets: secrets.and_then(|table| SecretsSection::read(table, file, mistakes)),
            tool_servers: named_servers(servers.unwrap_or_default(), mistakes),
            mcp: mcp(of_others.unwrap_or_default(), file, mistakes),
            functions: named_functions(functions.unwrap_or_default(), file, mistakes),
            web_search: search.and_then(|table| WebSearchSection::read(table, mistakes)),
            egress: egress(way_out.unwrap_or_default(), mistakes),
            embeddings: embeddings.and_then(|table| EmbeddingsSection::read(table, mistakes)),
            limits: limits(most.unwrap_or_default(), mistakes),
            approvals: approvals(asking.unwrap_or_default(), mistakes),
            store: StoreSection::read(store, fanout, mistakes),
            audit: AuditSection::read(audit.unwrap_or_default(), mistakes),
            quotas: quotas(most_used.unwrap_or_default(), mistakes),
            webhooks: Vec::new(),
        };
        sections.webhooks =
            named_webhooks(webhooks.unwrap_or_default(), &sections.egress, mistakes);
        complete_timeouts(&mut sections.models, sections.limits.runs.model_silence, mistakes);
        Ok(sections)
    }
}

/// Reads the store from environment and file, for commands that need nothing else. `None`: it is
/// in memory.
pub(super) fn store_alone(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<StoreOptions>, Problem> {
    let file = SettingsFile::find(file)?;
    let (mut in_file, mut in_environment) = (Vec::new(), Vec::new());
    let sections = Sections::read(file.as_ref(), &mut in_file)?;
    let store = sections.store.options(false, environment, &mut in_file, &mut in_environment);
    if in_file.is_empty() && in_environment.is_empty() {
        return Ok(store);
    }
    Err(all_of(in_file, in_environment, file.as_ref()))
}

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSettings {
    models: Option<Value>,
    server: Option<Value>,
    oidc: Option<Value>,
    secrets: Option<Value>,
    mcp_servers: Option<Value>,
    mcp: Option<Value>,
    functions: Option<Value>,
    web_search: Option<Value>,
    egress: Option<Value>,
    webhooks: Option<Vec<Table>>,
    embeddings: Option<Value>,
    limits: Option<Value>,
    approvals: Option<Value>,
    store: Option<Value>,
    fanout: Option<Value>,
    audit: Option<Value>,
    quotas: Option<Value>,
}

impl RawTable for RawSettings {
    const KEYS: &'static [&'static str] = &[
        "models",
        "server",
        "oidc",
        "secrets",
        "mcp_servers",
        "mcp",
        "functions",
        "web_search",
        "egress",
        "webhooks",
        "embeddings",
        "limits",
        "approvals",
        "store",
        "fanout",
        "audit",
        "quotas",
    ];
}
