//! The sections of `turnwire.toml`, each validated by its own module.

use std::{collections::BTreeMap, path::Path};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_engine::QuotaOptions;
use turnwire_oidc::OidcOptions;
use turnwire_stores::StoreOptions;
use turnwire_tools::EgressOptions;

use super::{
    approvals::{ApprovalSettings, RawApprovals, approvals},
    audit::{AuditSection, RawAudit},
    egress::{RawEgress, egress},
    embeddings::{EmbeddingsSection, RawEmbeddings},
    file::{SettingsFile, all_of, read_table},
    functions::{NamedFunction, RawFunction, named_functions},
    limits::{LimitsSection, RawLimits, limits},
    mcp::{McpSection, RawMcp, mcp},
    models::{NamedModel, RawModel, check_fallback, complete_timeouts, named_models},
    oidc::{RawOidc, oidc},
    quotas::{RawQuotas, quotas},
    schema::{TableSchema, schema_of},
    secrets::{KeysSection, RawEncryption, RawSecrets},
    server::{RawServer, ServerSection},
    store::{RawFanout, RawStore, StoreSection},
    tool_servers::{NamedServer, RawToolServer, named_servers},
    web_search::{RawWebSearch, WebSearchSection},
    webhooks::{NamedWebhook, RawWebhook, named_webhooks},
};
use crate::{environment::Environment, exit::Result};

#[derive(Default)]
pub(super) struct Sections {
    /// The file is not TOML, and nothing is known of what it says.
    pub(super) is_unreadable: bool,
    pub(super) models: BTreeMap<String, NamedModel>,
    pub(super) server: ServerSection,
    /// Whose tokens are accepted in place of keys.
    pub(super) oidc: Option<OidcOptions>,
    /// Keys for secrets of requests.
    pub(super) secrets: Option<KeysSection>,
    /// Keys for the keys of tenants.
    pub(super) encryption: Option<KeysSection>,
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
    /// Reads the sections, and reports what is wrong. Returns nothing but defaults if the file is
    /// not TOML.
    pub(super) fn read(file: Option<&SettingsFile>, mistakes: &mut Vec<String>) -> Self {
        let Some(file) = file else { return Self::default() };
        let Some(table) = file.table(mistakes) else {
            return Self { is_unreadable: true, ..Self::default() };
        };
        // Checks the shape of the whole file. What is left of it is checked by section.
        let raw: RawSettings = read_table("", table, mistakes);
        let mut sections = Self {
            is_unreadable: false,
            models: named_models(raw.models, mistakes),
            server: ServerSection::read(raw.server, mistakes),
            oidc: raw.oidc.and_then(|table| oidc(table, mistakes)),
            secrets: raw.secrets.and_then(|table| KeysSection::secrets(table, file, mistakes)),
            encryption: raw
                .encryption
                .and_then(|table| KeysSection::encryption(table, file, mistakes)),
            tool_servers: named_servers(raw.mcp_servers, mistakes),
            mcp: mcp(raw.mcp, file, mistakes),
            functions: named_functions(raw.functions, file, mistakes),
            web_search: raw.web_search.map(|table| WebSearchSection::read(table, mistakes)),
            egress: egress(raw.egress, mistakes),
            embeddings: raw.embeddings.map(|table| EmbeddingsSection::read(table, mistakes)),
            limits: limits(raw.limits, mistakes),
            approvals: approvals(raw.approvals, mistakes),
            store: StoreSection::read(raw.store, raw.fanout, mistakes),
            audit: AuditSection::read(raw.audit, mistakes),
            quotas: quotas(raw.quotas, mistakes),
            webhooks: Vec::new(),
        };
        sections.webhooks = named_webhooks(raw.webhooks, &sections.egress, mistakes);
        complete_timeouts(&mut sections.models, sections.limits.runs.model_silence, mistakes);
        check_fallback(sections.server.rest.fallback_model.as_deref(), &sections.models, mistakes);
        sections
    }
}

/// Reads the store from environment and file, for commands that need nothing else. `None`: it is
/// in memory. The keys of its tenants are read with it if `reads_keys`.
pub(super) fn store_alone(
    file: Option<&Path>,
    environment: &Environment,
    reads_keys: bool,
) -> Result<Option<StoreOptions>> {
    let file = SettingsFile::find(file)?;
    let (mut in_file, mut in_environment) = (Vec::new(), Vec::new());
    let sections = Sections::read(file.as_ref(), &mut in_file);
    let store = sections.store.options(false, environment, &mut in_file, &mut in_environment);
    let encryption = sections.encryption.as_ref().filter(|_| reads_keys);
    let encryption = encryption.and_then(|keys| keys.keys(environment, &mut in_file));
    let store = store.map(|store| StoreOptions { encryption, ..store });
    if in_file.is_empty() && in_environment.is_empty() {
        return Ok(store);
    }
    Err(all_of(in_file, in_environment, file.as_ref()))
}

/// The schema of the whole file.
pub(crate) fn settings_schema() -> serde_json::Value {
    let mut schema = TableSchema::clone(&schema_of::<RawSettings>());
    schema.insert("title".to_owned(), "turnwire.toml".into());
    schema.into()
}

/// The settings of Turnwire.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSettings {
    #[schemars(with = "RawServer")]
    server: Table,
    #[schemars(with = "Option<RawOidc>")]
    oidc: Option<Table>,
    #[schemars(with = "Option<RawSecrets>")]
    secrets: Option<Table>,
    #[schemars(with = "Option<RawEncryption>")]
    encryption: Option<Table>,
    #[schemars(with = "BTreeMap<String, RawModel>")]
    models: Table,
    #[schemars(with = "BTreeMap<String, RawToolServer>")]
    mcp_servers: Table,
    #[schemars(with = "RawMcp")]
    mcp: Table,
    #[schemars(with = "BTreeMap<String, RawFunction>")]
    functions: Table,
    #[schemars(with = "RawApprovals")]
    approvals: Table,
    #[schemars(with = "Option<RawWebSearch>")]
    web_search: Option<Table>,
    #[schemars(with = "RawEgress")]
    egress: Table,
    #[schemars(with = "Vec<RawWebhook>")]
    webhooks: Vec<Table>,
    #[schemars(with = "Option<RawEmbeddings>")]
    embeddings: Option<Table>,
    #[schemars(with = "RawStore")]
    store: Table,
    #[schemars(with = "RawFanout")]
    fanout: Table,
    #[schemars(with = "RawAudit")]
    audit: Table,
    #[schemars(with = "RawQuotas")]
    quotas: Table,
    #[schemars(with = "RawLimits")]
    limits: Table,
}
