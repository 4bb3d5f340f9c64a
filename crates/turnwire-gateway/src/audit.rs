//! The audit log: who did what, written before it is done.
//!
//! What changes something is recorded before it takes effect, so that nothing happens unrecorded; an
//! action that then fails leaves its entry. Reading is recorded if the operator asks for it, when the
//! caller is known. A run is recorded right after it was created, because its model should not wait
//! for the log; a log that is away does not end a run, which has who asked in its journal.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, State},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use turnwire_contract::{
    Actor, AuditAction, AuditEntry, AuditQuery, AuditRecord, CallId, Decision, RunId, RunRequest,
    Share, StoreError, TenantId,
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, Json, QueryParams, Result, admin::Admin, app::AuditLevel, auth::scopes,
    fingerprint::fingerprint,
};

/// Entries of a page, unless the caller says otherwise, and at most.
const USUAL_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// What a caller does.
#[derive(Debug, Clone)]
pub(crate) struct Deed<'a> {
    action: AuditAction,
    object: &'a str,
    detail: Option<String>,
    content: Option<String>,
}

impl<'a> Deed<'a> {
    pub(crate) fn new(action: AuditAction, object: &'a str) -> Self {
        Self { action, object, detail: None, content: None }
    }

    /// About one call of a run.
    pub(crate) fn of_call(action: AuditAction, run_id: &'a RunId, call_id: &CallId) -> Self {
        Self::new(action, run_id.as_str()).detail(call_id.as_str())
    }

    pub(crate) fn detail(self, detail: &str) -> Self {
        Self { detail: Some(detail.to_owned()), ..self }
    }

    /// With the hash of what was said.
    pub(crate) fn content(self, content: &impl Serialize) -> Self {
        let json = serde_json::to_vec(content).unwrap_or_default();
        Self { content: Some(content_hash(&json)), ..self }
    }
}

/// Returns the SHA-256 of a content, in hexadecimal, as the audit log has it.
pub fn content_hash(content: &[u8]) -> String {
    fingerprint([content])
}

impl App {
    /// Records that a server started, with the hash of its settings file.
    pub async fn record_start(&self, settings: Option<String>) -> Result<(), StoreError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.record_settings(AuditAction::ServerStarted, None, Some(version), settings).await
    }

    /// Records that the settings are about to be replaced, by whom, with the hash of the new file.
    pub async fn record_reload(
        &self,
        actor: Option<Arc<Actor>>,
        settings: Option<String>,
    ) -> Result<(), StoreError> {
        self.record_settings(AuditAction::SettingsReloaded, actor, None, settings).await
    }

    async fn record_settings(
        &self,
        action: AuditAction,
        actor: Option<Arc<Actor>>,
        detail: Option<String>,
        content: Option<String>,
    ) -> Result<(), StoreError> {
        let options = self.options();
        if options.audit == AuditLevel::None {
            return Ok(());
        }
        let (at, tenant) = (self.runs().now(), TenantId::default());
        let object = options.worker.clone().unwrap_or_else(|| "server".to_owned());
        let record = AuditRecord { at, tenant, actor, action, object, detail, content };
        self.runs().audit().append(vec![record]).await
    }

    /// Records what `caller` is about to do.
    pub(crate) async fn audit(&self, caller: &Caller, deed: Deed<'_>) -> Result<()> {
        self.audit_in(caller.tenant(), caller, deed).await
    }

    /// The same for the data of another tenant.
    pub(crate) async fn audit_in(
        &self,
        tenant: &TenantId,
        caller: &Caller,
        deed: Deed<'_>,
    ) -> Result<()> {
        if self.options().audit == AuditLevel::None {
            return Ok(());
        }
        let record = self.record(tenant, caller, deed);
        Ok(self.runs().audit().append(vec![record]).await?)
    }

    fn record(&self, tenant: &TenantId, caller: &Caller, deed: Deed<'_>) -> AuditRecord {
        AuditRecord {
            at: self.runs().now(),
            tenant: tenant.clone(),
            actor: caller.actor().cloned(),
            action: deed.action,
            object: deed.object.to_owned(),
            detail: deed.detail,
            content: deed.content,
        }
    }

    /// What is to be recorded of a run that was started: the run, and the answers to approval
    /// requests that its request brought.
    pub(crate) fn records_of_run(
        &self,
        caller: &Caller,
        run_id: &RunId,
        request: &RunRequest,
    ) -> Vec<AuditRecord> {
        // A large request is not hashed in vain.
        if self.options().audit == AuditLevel::None {
            return Vec::new();
        }
        let started = Deed::new(AuditAction::RunStarted, run_id.as_str()).content(request);
        let answers = request.first_calls.iter().filter_map(|call| {
            let given = call.decision.as_ref().filter(|it| **it != Decision::unanswered())?;
            Some(Deed::of_call(AuditAction::of(given), run_id, &call.call_id).content(call))
        });
        let deeds = answers.chain([started]);
        deeds.map(|deed| self.record(caller.tenant(), caller, deed)).collect()
    }

    /// Records that somebody reads a run by a share link. The link itself is a secret.
    pub(crate) async fn audit_share(&self, caller: &Caller, share: &Share) -> Result<()> {
        if self.options().audit < AuditLevel::Reads {
            return Ok(());
        }
        let deed = Deed::new(AuditAction::Read, share.run_id.as_str());
        self.audit(caller, deed.detail(&share.share_id)).await
    }

    /// Records a request that says by its route what it does. Others are recorded where they are
    /// carried out, because several routes and messages of sockets have the same effect.
    pub(crate) async fn audit_route(&self, caller: &Caller, parts: &Parts) -> Result<()> {
        let Some(route) = parts.extensions.get::<MatchedPath>() else { return Ok(()) };
        // A search is a POST that changes nothing.
        let is_read = scopes::reads(&parts.method) || route.as_str().ends_with("/search");
        let wanted = if is_read { AuditLevel::Reads } else { AuditLevel::Changes };
        let says_it = is_read || BY_ROUTE.iter().any(|root| route.as_str().starts_with(root));
        if self.options().audit < wanted || !says_it {
            return Ok(());
        }
        let action = if is_read { AuditAction::Read } else { AuditAction::Changed };
        let deed = Deed::new(action, parts.uri.path());
        self.audit(caller, deed.detail(&format!("{} {}", parts.method, route.as_str()))).await
    }
}

/// Routes whose changes are recorded by their route alone.
const BY_ROUTE: [&str; 5] =
    ["/v1/conversations", "/v1/files", "/v1/vector_stores", "/v1/mcp_servers", "/v1/webhooks"];

module_routes! { [list] }

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct AuditParams {
    /// Tenant of the entries. Default: all that the caller may manage.
    tenant: Option<String>,
    /// Action of the entries, such as `call.approved`.
    action: Option<String>,
    /// Object of the entries: an ID, or a path.
    object: Option<String>,
    /// Only entries before this one, by the `cursor` of an earlier page.
    before: Option<String>,
    /// Maximum number of entries, 1 to 1,000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Entries of the audit log.
#[derive(Debug, Serialize, ToSchema)]
struct AuditPage {
    /// Always `list`.
    object: &'static str,
    /// The entries, newest first.
    data: Vec<AuditEntry>,
    /// For `before` of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// List the audit log.
///
/// Who ran, approved, cancelled, shared, deleted and, if the server records it, read what. Contents
/// are not in it, only their hashes.
#[utoipa::path(
    get,
    path = "/v1/admin/audit",
    params(AuditParams),
    responses((status = 200, description = "The entries", body = AuditPage))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<Json<AuditPage>> {
    let admin = Admin::new(&caller)?;
    let invalid = |param: &'static str, message: &str| {
        ApiError::bad_request("invalid_value", message.to_owned()).about(param)
    };
    let limit = params.limit.unwrap_or(USUAL_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(invalid("limit", "`limit` must be between 1 and 1000."));
    }
    let action = params.action.map(|action| action.parse::<AuditAction>()).transpose();
    let action = action.map_err(|error| invalid("action", &format!("{error}.")))?;
    let before = params.before.as_deref().map(|cursor| {
        let (chain, seq) = cursor.rsplit_once(':')?;
        Some((chain.to_owned(), seq.parse().ok()?))
    });
    let before = before
        .map(|cursor| cursor.ok_or_else(|| invalid("before", "`before` is not a cursor.")))
        .transpose()?;
    let tenant = admin.listed_tenant(params.tenant)?;
    let query = AuditQuery { tenant, action, object: params.object, before, limit };
    let data = app.runs().audit().list(query).await?;
    let last = data.last().filter(|_| data.len() == limit);
    let cursor = last.map(|entry| format!("{}:{}", entry.chain, entry.seq));
    Ok(Json(AuditPage { object: "list", data, cursor }))
}
