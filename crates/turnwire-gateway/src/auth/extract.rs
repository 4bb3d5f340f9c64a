//! Creates the [`Caller`] of a request, within the limits on connections.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use serde::Deserialize;
use turnwire_contract::TenantId;

use super::{Caller, MetricsReader, PROBES, SharedReader};
use crate::{
    admission::KeyDigest, api_error::ApiError, app::App, connection::HeldPermits,
    connection_permit::ConnectionPermit, limits::MAX_CONNECTIONS, path::PathParams, shares,
};

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (tenant, key) = app.auth().identify(&parts.headers)?;
        Self::admit(parts, app, tenant, key)
    }
}

impl Caller {
    /// A caller who has shown who they are, within the limits on connections.
    fn admit(
        parts: &Parts,
        app: &App,
        tenant: TenantId,
        key: Option<KeyDigest>,
    ) -> Result<Self, ApiError> {
        // From here on the connection counts as authenticated.
        let has_room =
            parts.extensions.get::<ConnectionPermit>().is_none_or(ConnectionPermit::note_known);
        if !has_room && !PROBES.contains(&parts.uri.path()) {
            return Err(server_full());
        }
        let permit = app.admission().admit_connection(key)?;
        let permit = Arc::new(permit);
        // A stream outlives its handler, so the response body holds the permit.
        if let Some(held) = parts.extensions.get::<HeldPermits>() {
            held.hold(Arc::clone(&permit));
        }
        Ok(Self { tenant, key, _permit: permit })
    }
}

impl FromRequestParts<App> for MetricsReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if app.auth().has_metrics_token(&parts.headers)? {
            Caller::admit(parts, app, TenantId::default(), None)?;
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

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let PathParams(ShareToken { token }) =
            PathParams::<ShareToken>::from_request_parts(parts, app).await?;
        let share = shares::check(app, &token).await?;
        let caller = Caller::admit(parts, app, share.tenant.clone(), None)?;
        Ok(Self { caller, share })
    }
}

fn server_full() -> ApiError {
    let message = "The server has reached its connection limit; try again later.";
    let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message);
    error.limited_by(MAX_CONNECTIONS)
}
