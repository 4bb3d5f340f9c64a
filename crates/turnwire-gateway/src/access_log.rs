//! The access log: one line per request, when its response begins.
//!
//! It is written at the level `info` of the target `turnwire::access`, and at `warn` if the server
//! is at fault, so a log of warnings has only these. Keys and tokens are not in it: the path of a
//! share link is its pattern, and queries are left out, because clients put anything there.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use tower_http::request_id::RequestId;
use tracing::{Level, enabled, event};
use turnwire_contract::{Actor, TenantId};

/// Target of the lines, for log filters.
const TARGET: &str = "turnwire::access";
/// Paths that have a secret in them.
const SECRET_PATHS: &str = "/v1/shared/";

/// Who made a request, once that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownCaller(Arc<OnceLock<(TenantId, Option<Arc<Actor>>)>>);

impl KnownCaller {
    pub(crate) fn note(&self, tenant: &TenantId, actor: Option<&Arc<Actor>>) {
        // A request has one caller.
        let _ = self.0.set((tenant.clone(), actor.cloned()));
    }
}

/// The code of an error response, for the layers around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// The layer around all routes.
pub(crate) async fn log(mut request: Request, next: Next) -> Response {
    if !enabled!(target: TARGET, Level::INFO) && !enabled!(target: TARGET, Level::WARN) {
        return next.run(request).await;
    }
    let begin = Instant::now();
    let caller = KnownCaller::default();
    request.extensions_mut().insert(caller.clone());
    let method = request.method().clone();
    let path = request.uri().path();
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let path = if path.contains(SECRET_PATHS) {
        // Also of a path that is no route.
        route.unwrap_or("/v1/shared/…").to_owned()
    } else {
        path.to_owned()
    };
    let request_id = request.extensions().get::<RequestId>().cloned();
    let response = next.run(request).await;
    let (tenant, actor) = caller.0.get().cloned().unzip();
    let actor = actor.flatten();
    let status = response.status().as_u16();
    let code = response.extensions().get::<ErrorCode>().map(|code| code.0);
    macro_rules! line {
        ($level:expr) => {
            event!(
                target: TARGET,
                $level,
                %method,
                path,
                status,
                code,
                head_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
                request_id = request_id.as_ref().and_then(|id| id.header_value().to_str().ok()),
                tenant = tenant.as_ref().map(TenantId::as_str),
                key_id = actor.as_ref().and_then(|actor| actor.key_id.as_deref()),
                subject = actor.as_ref().and_then(|actor| actor.subject.as_deref()),
                "request"
            )
        };
    }
    if response.status().is_server_error() {
        line!(Level::WARN);
    } else {
        line!(Level::INFO);
    }
    response
}
