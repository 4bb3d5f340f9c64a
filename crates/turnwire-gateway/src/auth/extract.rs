//! Creates the [`Caller`] of a request, within the limits on connections.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, MatchedPath},
    http::{HeaderMap, StatusCode, request::Parts},
};
use serde::Deserialize;
use tokio::sync::SemaphorePermit;
use turnwire_contract::{Share, TraceContext};

use super::{Caller, MetricsReader, PROBES, SharedReader, identity::Identity, scopes};
use crate::{
    access_log::KnownCaller,
    admission::Permit,
    api_error::{ApiError, Result},
    app::App,
    connection::HeldPermits,
    connection_permit::ConnectionPermit,
    limits::MAX_CONNECTIONS,
    path::{PathParams, nothing_here},
    quota_headers::RateLimitHeaders,
    shares,
};

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let connection = parts.extensions.get::<ConnectionPermit>();
        let identity = {
            let _turn = turn_to_ask(connection).await;
            app.auth().identify(&parts.headers).await?
        };
        // Also of callers who are refused.
        if let Some(known) = parts.extensions.get::<KnownCaller>() {
            known.note(&identity.tenant, identity.actor.as_ref());
        }
        let route = parts.extensions.get::<MatchedPath>();
        let needed = route.and_then(|path| scopes::needed(&parts.method, path.as_str()));
        identity.ensure(needed.ok_or_else(nothing_here)?)?;
        let caller = Self::admit(parts, app, identity)?;
        app.audit_route(&caller, parts).await?;
        Ok(caller)
    }
}

/// Waits for the turn of a request to ask the store who makes it.
async fn turn_to_ask(connection: Option<&ConnectionPermit>) -> Option<SemaphorePermit<'_>> {
    connection?.ask().await
}

impl Caller {
    /// A caller who has shown who they are, within the limits on connections.
    fn admit(parts: &Parts, app: &App, identity: Arc<Identity>) -> Result<Self> {
        // From here on the connection counts as authenticated.
        let has_room =
            parts.extensions.get::<ConnectionPermit>().is_none_or(ConnectionPermit::note_known);
        if !has_room && !PROBES.contains(&parts.uri.path()) {
            return Err(server_full());
        }
        let permit = Arc::new(app.admission().admit_connection(identity.key)?);
        Ok(Self::holding(parts, identity, permit))
    }

    /// A caller with their share of the limits on connections.
    fn holding(parts: &Parts, identity: Arc<Identity>, permit: Arc<Permit>) -> Self {
        // A stream outlives its handler, so the response body holds the permit, and ends with the
        // key.
        if let Some(held) = parts.extensions.get::<HeldPermits>() {
            held.hold(Arc::clone(&permit), identity.validity.clone());
        }
        let rate_limit_headers =
            parts.extensions.get::<RateLimitHeaders>().cloned().unwrap_or_default();
        let trace = trace_in(&parts.headers).map(Arc::new);
        Self { identity, _permit: permit, rate_limit_headers, trace }
    }
}

/// Reads the trace context of a request. One that is malformed or ambiguous is ignored.
fn trace_in(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?, parents.next()) else { return None };
    let states = headers.get_all("tracestate").iter();
    let states: Option<Vec<&str>> = states.map(|state| state.to_str().ok()).collect();
    TraceContext::read(parent.to_str().ok()?, states.map(|states| states.join(",")).as_deref())
}

impl FromRequestParts<App> for MetricsReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        if app.auth().has_metrics_token(&parts.headers).await? {
            if let Some(connection) = parts.extensions.get::<ConnectionPermit>() {
                // Metrics are shown over a connection without a place, too.
                let _ = connection.note_collector();
            }
        } else {
            Caller::from_request_parts(parts, app).await?;
        }
        Ok(Self)
    }
}

/// The token in the path, whatever follows it.
#[derive(Deserialize)]
struct ShareToken {
    token: String,
}

impl FromRequestParts<App> for SharedReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let PathParams(ShareToken { token }) =
            PathParams::<ShareToken>::from_request_parts(parts, app).await?;
        let connection = parts.extensions.get::<ConnectionPermit>();
        let share = {
            let _turn = turn_to_ask(connection).await;
            shares::check(app, &token).await?
        };
        let caller = Self::admit(parts, app, &share)?;
        if let Some(known) = parts.extensions.get::<KnownCaller>() {
            known.note(&share.tenant, None);
        }
        app.audit_share(&caller, &share).await?;
        Ok(Self { caller, share })
    }
}

impl SharedReader {
    /// Admits a reader to the places that readers have. Callers with a key have others.
    fn admit(parts: &Parts, app: &App, share: &Share) -> Result<Caller> {
        let connection = parts.extensions.get::<ConnectionPermit>();
        let address = connection.and_then(ConnectionPermit::address);
        let permit = Arc::new(app.admission().admit_reader(share, address)?);
        let place = connection.map(ConnectionPermit::begin_reading).transpose();
        let place = place.map_err(|_| too_many_readers())?.flatten();
        if let Some((held, place)) = parts.extensions.get::<HeldPermits>().zip(place) {
            held.hold_place(place);
        }
        let identity = Arc::new(Identity::of_reader(share.tenant.clone()));
        Ok(Caller::holding(parts, identity, permit))
    }
}

fn too_many_readers() -> ApiError {
    let message = "The server has reached its limit of readers of share links; try again later.";
    let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_readers", message);
    error.limited_by(MAX_CONNECTIONS)
}

fn server_full() -> ApiError {
    let message = "The server has reached its connection limit; try again later.";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message);
    error.limited_by(MAX_CONNECTIONS)
}
