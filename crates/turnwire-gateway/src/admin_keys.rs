//! Management of API keys.
//!
//! A key with the scope `admin` manages the keys of its tenant, one with `operator` those of every
//! tenant. Nobody can give away more than they have: the scopes of a new key are a subset of the
//! scopes of the key that creates it, unless that is an operator's.

use std::{collections::BTreeSet, time::Duration};

use axum::{extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use tracing::{error, info};
use turnwire_contract::{ApiKey, AuditAction, Scope, StoreError, TenantId, Timestamp};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App, Caller, Json, JsonBody, PathParams, QueryParams, Result,
    admin::{Admin, checked_name},
    audit::Deed,
    auth::NewApiKey,
    typed,
};

/// Maximum lifetime, and maximum time that a rotated key stays valid, in seconds: ten years.
const MAX_SECONDS: u64 = 10 * 365 * 24 * 60 * 60;

module_routes! { [create] [list] [rotate] [revoke] }

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
struct KeyRequest {
    /// Name by which people know the key. Required.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Tenant of the key. Default: that of the caller. Another one needs the scope `operator`.
    #[schema(max_length = 200)]
    tenant: Option<String>,
    /// Part of the tenant that uses the key; a label that is recorded with its runs.
    #[schema(max_length = 200)]
    project: Option<String>,
    /// What the key allows. Default: `runs:read`, `runs:write`, `approve` and `files`, as far as
    /// the caller has them.
    scopes: Option<BTreeSet<Scope>>,
    /// Lifetime in seconds. Default: without end.
    #[schema(minimum = 1, maximum = 315_360_000)]
    expires_in_sec: Option<u64>,
}

/// A key, without the key itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyLine {
    /// Always `api_key`.
    object: &'static str,
    /// ID of the key.
    key_id: String,
    /// Tenant whose data the key gives access to.
    tenant: String,
    /// Part of the tenant that uses the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Name by which people know the key.
    name: String,
    /// First characters of the key.
    prefix: String,
    /// What the key allows.
    scopes: BTreeSet<Scope>,
    /// Whether the key is valid now.
    valid: bool,
    /// Time of creation.
    created_at: Timestamp,
    /// Time after which the key is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Time of revocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
    /// Time of the last request, give or take a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Timestamp>,
}

impl KeyLine {
    fn new(key: ApiKey, now: Timestamp) -> Self {
        Self {
            object: "api_key",
            valid: key.is_valid_at(now),
            key_id: key.key_id,
            tenant: key.tenant.as_str().to_owned(),
            project: key.project,
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// A key that was made.
#[derive(Debug, Serialize, ToSchema)]
struct MadeKey {
    #[serde(flatten)]
    line: KeyLine,
    /// The key. It is returned only here.
    key: String,
}

/// Keys.
#[derive(Debug, Serialize, ToSchema)]
struct KeyList {
    /// Always `list`.
    object: &'static str,
    /// The keys, oldest first, including those that are not valid any more.
    data: Vec<KeyLine>,
}

/// Create an API key.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    request_body = KeyRequest,
    responses((status = 200, description = "The key", body = MadeKey))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<MadeKey>> {
    let admin = Admin::new(&caller)?;
    let request: KeyRequest = typed(body)?;
    let name = checked_name("name", request.name)?.ok_or_else(|| {
        ApiError::bad_request("missing_required_parameter", "`name` is missing.").about("name")
    })?;
    let tenant = checked_name("tenant", request.tenant)?.map(TenantId::new);
    let now = app.runs().now();
    let lifetime = checked_seconds("expires_in_sec", request.expires_in_sec, 1)?;
    let new = NewApiKey {
        tenant: admin.tenant(tenant)?,
        project: checked_name("project", request.project)?,
        name,
        scopes: admin.scopes(request.scopes)?,
        created_at: now,
        expires_at: admin.end(lifetime.map(|lifetime| now.later(lifetime))),
    };
    let (record, key) = made(new)?;
    let deed = Deed::new(AuditAction::KeyCreated, &record.key_id).content(&record.scopes);
    app.audit_in(&record.tenant, &caller, deed).await?;
    app.runs().api_keys().create_key(record.clone()).await.map_err(not_created)?;
    info!(key_id = record.key_id, tenant = %record.tenant, "API key created");
    Ok(Json(MadeKey { line: KeyLine::new(record, now), key }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct KeyListParams {
    /// Tenant of the keys. Default: all that the caller may manage.
    tenant: Option<String>,
}

/// List API keys.
#[utoipa::path(
    get,
    path = "/v1/admin/keys",
    params(KeyListParams),
    responses((status = 200, description = "The keys", body = KeyList))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<KeyListParams>,
) -> Result<Json<KeyList>> {
    let admin = Admin::new(&caller)?;
    let tenant = admin.listed_tenant(params.tenant)?;
    let now = app.runs().now();
    let keys = app.runs().api_keys().list_keys(tenant.as_ref()).await?;
    let data = keys.into_iter().map(|key| KeyLine::new(key, now)).collect();
    Ok(Json(KeyList { object: "list", data }))
}

/// How to replace a key.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
struct RotateRequest {
    /// How long the old key stays valid, in seconds. Default: 0.
    #[schema(minimum = 0, maximum = 315_360_000)]
    overlap_sec: Option<u64>,
}

/// Replace an API key.
///
/// Makes a key for the same tenant, project, name and scopes. The old one stays valid for the
/// overlap, or ends at once.
#[utoipa::path(
    post,
    path = "/v1/admin/keys/{key_id}/rotate",
    request_body = RotateRequest,
    responses(
        (status = 200, description = "The new key", body = MadeKey),
        (status = 409, description = "The key is not valid any more"),
    )
)]
async fn rotate(
    State(app): State<App>,
    caller: Caller,
    PathParams(key_id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<MadeKey>> {
    let admin = Admin::new(&caller)?;
    let RotateRequest { overlap_sec } = typed(body)?;
    let overlap = checked_seconds("overlap_sec", overlap_sec, 0)?.unwrap_or_default();
    let now = app.runs().now();
    let new = NewApiKey::in_place_of(admin.find(&app, &key_id).await?, now);
    let expires_at = admin.end(new.expires_at);
    let (record, key) = made(NewApiKey { expires_at, ..new })?;
    let deed = Deed::new(AuditAction::KeyRotated, &key_id).detail(&record.key_id);
    app.audit_in(&record.tenant, &caller, deed).await?;
    let rotated = app.runs().api_keys().rotate_key(&key_id, now.later(overlap), record.clone());
    if !rotated.await.map_err(not_created)? {
        let message = "The key is not valid any more, or was rotated already.";
        return Err(ApiError::new(StatusCode::CONFLICT, "key_not_valid", message));
    }
    info!(key_id, new_key_id = record.key_id, "API key rotated");
    Ok(Json(MadeKey { line: KeyLine::new(record, now), key }))
}

/// Revoke an API key.
///
/// Within a second, the key is refused, and every stream and socket that was opened with it is
/// closed. Its runs continue. The key stays in the list.
#[utoipa::path(
    delete,
    path = "/v1/admin/keys/{key_id}",
    responses((status = 200, description = "The key as it is now", body = KeyLine))
)]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathParams(key_id): PathParams<String>,
) -> Result<Json<KeyLine>> {
    let admin = Admin::new(&caller)?;
    let key = admin.find(&app, &key_id).await?;
    let deed = Deed::new(AuditAction::KeyRevoked, &key_id);
    app.audit_in(&key.tenant, &caller, deed).await?;
    let now = app.runs().now();
    let revoked = app.runs().api_keys().revoke_key(admin.bound(), &key_id, now).await?;
    let revoked = revoked.ok_or_else(|| ApiError::not_found("API key", &key_id))?;
    info!(key_id, "API key revoked");
    Ok(Json(KeyLine::new(revoked, now)))
}

impl Admin<'_> {
    /// The key that a request names. The caller must be able to give what it allows.
    async fn find(&self, app: &App, key_id: &str) -> Result<ApiKey> {
        let keys = app.runs().api_keys().list_keys(self.bound()).await?;
        let found = keys.into_iter().find(|key| key.key_id == key_id);
        let found = found.ok_or_else(|| ApiError::not_found("API key", key_id))?;
        self.scopes(Some(found.scopes.clone()))?;
        Ok(found)
    }

    /// When a new key ends: with the caller's own at the latest, unless that is an operator's.
    fn end(&self, end: Option<Timestamp>) -> Option<Timestamp> {
        let own = self.caller().expires_at().filter(|_| !self.is_operator());
        match (end, own) {
            (Some(end), Some(own)) => Some(end.min(own)),
            (end, own) => end.or(own),
        }
    }

    /// The scopes that a request names, or the usual ones, as far as the caller may give them.
    fn scopes(&self, named: Option<BTreeSet<Scope>>) -> Result<BTreeSet<Scope>> {
        let may_give = |scope: &Scope| {
            let held = self.caller().scopes();
            let has_all = scope.is_for_use() && held.contains(&Scope::UseAll);
            self.is_operator() || has_all || held.contains(scope)
        };
        let Some(named) = named else {
            let usual: BTreeSet<Scope> = Scope::USUAL.into_iter().filter(may_give).collect();
            return self.scopes(Some(usual));
        };
        if named.is_empty() {
            let message = "`scopes` is empty, so the key would allow nothing.";
            return Err(ApiError::bad_request("invalid_value", message).about("scopes"));
        }
        if let Some(scope) = named.iter().find(|scope| !may_give(scope)) {
            let message = format!("The key does not have the scope `{scope}` and cannot give it.");
            let error = ApiError::new(StatusCode::FORBIDDEN, "missing_scope", message);
            return Err(error.about("scopes"));
        }
        Ok(named)
    }
}

fn made(new: NewApiKey) -> Result<(ApiKey, String)> {
    new.make().map_err(|cause| {
        error!(%cause, "no random bytes for an API key");
        let message = "Internal server error. See the server log.";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    })
}

fn not_created(error: StoreError) -> ApiError {
    match error {
        StoreError::Rejected(_) => {
            let message = "The tenant has too many API keys.";
            ApiError::new(StatusCode::CONFLICT, "too_many_keys", message)
        }
        other => other.into(),
    }
}

fn checked_seconds(
    param: &'static str,
    seconds: Option<u64>,
    least: u64,
) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if (least..=MAX_SECONDS).contains(&seconds) {
        return Ok(Some(Duration::from_secs(seconds)));
    }
    let message = format!("`{param}` must be between {least} and {MAX_SECONDS}.");
    Err(ApiError::bad_request("invalid_value", message).about(param))
}
