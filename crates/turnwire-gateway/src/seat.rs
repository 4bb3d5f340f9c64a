//! The place of a connection among those that a server holds at once.
//!
//! An upgrade ends a connection as far as HTTP is concerned, and the socket goes on somewhere
//! else. Whoever serves it takes the [`Seat`] along: so it counts as the connection it still
//! is, and the server waits for it when it closes.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts,
        ws::{WebSocket, WebSocketUpgrade},
    },
    http::request::Parts,
    response::Response,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;

/// The biggest message of a client, and the biggest piece of one.
pub(crate) const MAX_MESSAGE: usize = 1024 * 1024;

/// The place of a connection. Free again when the last clone is gone.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
    /// How long a socket may be used.
    pub(crate) socket_time: Duration,
}

impl Seat {
    pub(crate) fn new(permit: Option<OwnedSemaphorePermit>, socket_time: Duration) -> Self {
        Self { _permit: permit.map(Arc::new), socket_time }
    }

    /// Upgrades the connection, and keeps its place for as long as `serve` goes on. The server
    /// waits for that when it closes.
    pub(crate) fn upgrade<F>(
        self,
        app: &App,
        upgrade: WebSocketUpgrade,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Taken before the connection is handed over, so that there is no moment without one.
        let token = app.tasks().token();
        let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
        upgrade.on_upgrade(async move |socket| {
            serve(socket).await;
            drop((self, token));
        })
    }
}

impl FromRequestParts<App> for Seat {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        // Without a server around the router, nobody counts.
        let limits = crate::server::HttpLimits::default();
        let seat = parts.extensions.get::<Self>().cloned();
        Ok(seat.unwrap_or_else(|| Self::new(None, limits.socket_time)))
    }
}
