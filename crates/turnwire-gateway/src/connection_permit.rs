//! A connection's share of the limit on open connections.
//!
//! An upgrade to WebSocket ends the connection for HTTP, but the socket stays open. The task that
//! serves it keeps the [`ConnectionPermit`], so the socket still counts as a connection, and the
//! server waits for it at shutdown.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts,
        ws::{WebSocket, WebSocketUpgrade},
    },
    http::request::Parts,
    response::Response,
};
use tokio::time::sleep;

use crate::{
    App, Caller, connection_table::ConnectionSlot, limits::HttpLimits, websocket::key_ended,
};

/// Time for a socket to close by itself when its key is no longer valid.
const TIME_TO_SAY_SO: Duration = Duration::from_millis(250);

/// A connection's share of the limit. Freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPermit {
    /// `None` if the router is used without a server.
    slot: Option<Arc<ConnectionSlot>>,
    /// The limits of the server.
    pub(crate) limits: Arc<HttpLimits>,
}

impl ConnectionPermit {
    pub(crate) fn new(slot: Option<Arc<ConnectionSlot>>, limits: Arc<HttpLimits>) -> Self {
        Self { slot, limits }
    }

    /// Marks the connection as authenticated. Returns false if the limit is reached.
    pub(crate) fn note_known(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.note_known())
    }

    /// Upgrades the connection, and holds the permit until `serve` returns. The server waits for
    /// that at shutdown. A socket whose key is no longer valid has a moment to say so, and is then
    /// dropped.
    pub(crate) fn upgrade<F>(
        self,
        app: &App,
        caller: &Caller,
        upgrade: WebSocketUpgrade,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Taken before the upgrade, so that a shutdown in between waits for it.
        let token = app.tasks().token();
        let max_bytes = self.limits.socket_message_bytes;
        let upgrade = upgrade.max_message_size(max_bytes).max_frame_size(max_bytes);
        let key_ended = key_ended(caller);
        let must_end = async move {
            key_ended.await;
            sleep(TIME_TO_SAY_SO).await;
        };
        upgrade.on_upgrade(async move |socket| {
            tokio::select! {
                () = serve(socket) => {}
                () = must_end => {}
            }
            drop((self, token));
        })
    }
}

impl FromRequestParts<App> for ConnectionPermit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let permit = parts.extensions.get::<Self>().cloned();
        Ok(permit.unwrap_or_else(|| Self::new(None, Arc::default())))
    }
}
