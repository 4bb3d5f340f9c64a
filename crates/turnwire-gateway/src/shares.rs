//! Share links: one run, read-only, for whoever has the link.
//!
//! A link is the ID of a share with a signature over everything the share says: tenant, run, time
//! and redaction. The share is stored, so that it can be listed and revoked; the link is not. A link
//! that is forged, changed, expired or revoked gets the same error as one that never existed.

use std::time::Duration;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response as HttpResponse,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::time::sleep;
use turnwire_contract::{AuditAction, Share, StoreError, Timestamp};
use turnwire_surfaces::RunSnapshot;
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Json, JsonBody, PathParams, QueryParams, Result,
    admission::ResultReader,
    audit::Deed,
    auth::SharedReader,
    connection::HeldPermits,
    run_calls::{full_result, text_response},
    runs::{self, EventsParams, RunFrame, RunRow, Shown},
    typed,
};

/// Lifetime of a link in seconds: the default, and the range.
const USUAL_SECONDS: u64 = 24 * 60 * 60;
const MAX_SECONDS: u64 = 30 * USUAL_SECONDS;

/// How often an open stream checks that its link is still valid.
const CHECK_EVERY: Duration = Duration::from_secs(5);

module_routes! { [create] [list] [revoke] [snapshot] [events] [result] }

/// A new share link.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
struct NewShare {
    /// Lifetime of the link in seconds, 1 to 2592000 (30 days). Default: 86400 (one day).
    #[schema(minimum = 1, maximum = 2_592_000)]
    expires_in_sec: Option<u64>,
    /// Whether all texts are withheld: the input, answers, arguments, results, and everything
    /// derived from them. What stays is which tools were called, when, and how that ended.
    /// Default: false.
    redact: bool,
}

/// A share link that was made.
#[derive(Debug, Serialize, ToSchema)]
struct MadeShare {
    /// ID of the share.
    share_id: String,
    /// The secret part of the link. It is returned only here.
    token: String,
    /// Path of the page that shows the run.
    path: String,
    /// Time after which the link does not work.
    expires_at: Timestamp,
    /// Whether texts are withheld.
    redact: bool,
}

/// A share link in a list.
#[derive(Debug, Serialize, ToSchema)]
struct ShareLine {
    /// ID of the share.
    share_id: String,
    /// Time of creation.
    created_at: Timestamp,
    /// Time after which the link does not work.
    expires_at: Timestamp,
    /// Whether texts are withheld.
    redact: bool,
}

/// The share links of a run.
#[derive(Debug, Serialize, ToSchema)]
struct ShareList {
    /// Always `list`.
    object: &'static str,
    /// The links that have not expired, oldest first.
    data: Vec<ShareLine>,
}

/// Share a run.
///
/// Makes a link that shows this run, live or finished, to whoever has it, without a key. At most
/// 100 links of a run are valid at the same time.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/share",
    request_body = NewShare,
    responses(
        (status = 200, description = "The link", body = MadeShare),
        (status = 409, description = "The run has too many links"),
    )
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<MadeShare>> {
    let NewShare { expires_in_sec, redact } = typed(body)?;
    let seconds = expires_in_sec.unwrap_or(USUAL_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        let message = format!("`expires_in_sec` must be between 1 and {MAX_SECONDS}.");
        return Err(ApiError::bad_request("invalid_value", message).about("expires_in_sec"));
    }
    let run_id = runs::find(&app, &caller, &id).await?;
    let created_at = app.runs().now();
    let share = Share {
        share_id: app.runs().new_id("share"),
        tenant: caller.tenant().clone(),
        run_id,
        created_at,
        expires_at: created_at.later(Duration::from_secs(seconds)),
        redact,
    };
    let secret = app.runs().shares().secret().await?;
    let token = token_of(&secret, &share);
    let (share_id, expires_at) = (share.share_id.clone(), share.expires_at);
    let deed = Deed::new(AuditAction::RunShared, share.run_id.as_str()).detail(&share_id);
    app.audit(&caller, deed).await?;
    app.runs().shares().share(share).await.map_err(|error| match error {
        StoreError::Rejected(_) => {
            let message = "The run has too many share links. Revoke one of them first.";
            ApiError::new(StatusCode::CONFLICT, "too_many_shares", message)
        }
        other => other.into(),
    })?;
    let path = format!("/#/shared/{token}");
    Ok(Json(MadeShare { share_id, token, path, expires_at, redact }))
}

/// List the share links of a run.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/shares",
    responses((status = 200, description = "The links that have not expired", body = ShareList))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<ShareList>> {
    let (run_id, now) = (runs::find(&app, &caller, &id).await?, app.runs().now());
    let shares = app.runs().shares().shares_of(caller.tenant(), &run_id).await?;
    let valid = shares.into_iter().filter(|share| share.expires_at > now);
    let line = |share: Share| ShareLine {
        share_id: share.share_id,
        created_at: share.created_at,
        expires_at: share.expires_at,
        redact: share.redact,
    };
    Ok(Json(ShareList { object: "list", data: valid.map(line).collect() }))
}

/// A share link that was revoked.
#[derive(Debug, Serialize, ToSchema)]
struct RevokedShare {
    /// ID of the share.
    share_id: String,
    /// Always true.
    deleted: bool,
}

/// Revoke a share link.
///
/// Open streams of the link end within five seconds.
#[utoipa::path(
    delete,
    path = "/v1/runs/{run_id}/shares/{share_id}",
    responses((status = 200, description = "The link does not work any more", body = RevokedShare))
)]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, share_id)): PathParams<(String, String)>,
) -> Result<Json<RevokedShare>> {
    let run_id = runs::find(&app, &caller, &id).await?;
    let deed = Deed::new(AuditAction::ShareRevoked, run_id.as_str()).detail(&share_id);
    app.audit(&caller, deed).await?;
    if !app.runs().shares().revoke(caller.tenant(), &run_id, &share_id).await? {
        return Err(ApiError::not_found("Share", &share_id));
    }
    Ok(Json(RevokedShare { share_id, deleted: true }))
}

/// A shared run.
#[derive(Debug, Serialize, ToSchema)]
struct SharedRun {
    #[serde(flatten)]
    run: RunSnapshot,
    /// Whether texts are withheld.
    redact: bool,
    /// Time after which the link does not work.
    expires_at: Timestamp,
}

/// Get the current state of a shared run. Needs no key.
#[utoipa::path(
    get,
    path = "/v1/shared/{token}",
    responses((status = 200, description = "The current state of the run", body = SharedRun))
)]
async fn snapshot(
    State(app): State<App>,
    SharedReader { caller, share }: SharedReader,
) -> Result<Json<SharedRun>> {
    let Share { run_id, redact, expires_at, .. } = share;
    let run = runs::shared_snapshot(&app, &caller, run_id.as_str(), redact).await?;
    Ok(Json(SharedRun { run, redact, expires_at }))
}

/// Stream the events of a shared run. Needs no key.
///
/// As `/v1/runs/{run_id}/events`. The stream ends when the link expires or is revoked.
#[utoipa::path(
    get,
    path = "/v1/shared/{token}/events",
    params(EventsParams, ("Last-Event-ID" = Option<String>, Header)),
    responses(
        (status = 200, description = "The events of the run. The stream ends with the event that \
                ends the run", content(
            (RunFrame = "text/event-stream"),
            (RunRow = "application/x-ndjson"),
        )),
        (status = 204,
            description = "With `Last-Event-ID`: the run has ended and no events follow"),
    )
)]
async fn events(
    State(app): State<App>,
    SharedReader { caller, share }: SharedReader,
    QueryParams(params): QueryParams<EventsParams>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    let run_id = share.run_id.clone();
    let shown = if share.redact { Shown::WithoutTexts } else { Shown::WithoutActors };
    let view = runs::EventsView { shown, until: Box::pin(invalid(app.clone(), share)) };
    runs::stream_events(&app, &caller, run_id.as_str(), params, &headers, view).await
}

/// Get the full result of a call of a shared run. Needs no key.
///
/// As `/v1/runs/{run_id}/calls/{call_id}/result`. A link that withholds texts returns `[redacted]`.
#[utoipa::path(
    get,
    path = "/v1/shared/{token}/calls/{call_id}/result",
    params(
        ("Range" = Option<String>, Header,
            description = "A single byte range, such as `bytes=0-32767`"),
    ),
    responses(
        (status = 200, description = "The full result", content_type = "text/plain"),
        (status = 206, description = "The requested range", content_type = "text/plain"),
        (status = 416, description = "The range is past the end of the result"),
    )
)]
async fn result(
    State(app): State<App>,
    SharedReader { caller, share }: SharedReader,
    PathParams((_, call_id)): PathParams<(String, String)>,
    Extension(held): Extension<HeldPermits>,
    headers: HeaderMap,
) -> Result<HttpResponse> {
    held.hold_more(app.admission().admit_result(&share.tenant, ResultReader::OfLink).await?);
    let text = full_result(&app, &caller, &share.run_id, &call_id, share.redact).await?;
    Ok(text_response(text, &headers))
}

/// Waits until a share is expired or revoked.
async fn invalid(app: App, share: Share) {
    loop {
        let left = share.expires_at.since(app.runs().now());
        sleep(left.min(CHECK_EVERY)).await;
        let found = app.runs().shares().find_share(&share.share_id).await;
        let is_revoked = found.is_ok_and(|found| found.is_none());
        if is_revoked || share.expires_at <= app.runs().now() {
            return;
        }
    }
}

/// Returns the share that `token` stands for.
pub(crate) async fn check(app: &App, token: &str) -> Result<Share> {
    let nothing = || {
        let message = "There is no shared run here. The link may have expired or been revoked.";
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    };
    let (share_id, signature) = token.rsplit_once('.').ok_or_else(nothing)?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| nothing())?;
    let lookup = app.admission().look_up_link().await?;
    let share = app.runs().shares().find_share(share_id).await?.ok_or_else(nothing)?;
    let secret = app.runs().shares().secret().await?;
    drop(lookup);
    // Compares in constant time.
    let is_ours = mac_of(&secret, &share).is_some_and(|mac| mac.verify_slice(&signature).is_ok());
    if !is_ours || share.expires_at <= app.runs().now() {
        return Err(nothing());
    }
    Ok(share)
}

fn token_of(secret: &str, share: &Share) -> String {
    let signature = mac_of(secret, share).map(|mac| mac.finalize().into_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.as_deref().unwrap_or_default());
    format!("{}.{signature}", share.share_id)
}

/// Signs everything that a share says.
fn mac_of(secret: &str, share: &Share) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    let Share { share_id, tenant, run_id, created_at, expires_at, redact } = share;
    for text in [share_id.as_str(), tenant.as_str(), run_id.as_str()] {
        // The length prefix separates adjacent fields.
        mac.update(&(text.len() as u64).to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac.update(&created_at.as_micros().to_be_bytes());
    mac.update(&expires_at.as_micros().to_be_bytes());
    mac.update(&[u8::from(*redact)]);
    Some(mac)
}
