//! The place of a connection among those that a server holds at once.
//!
//! An upgrade ends a connection as far as HTTP is concerned, and the socket goes on somewhere
//! else. Whoever serves it takes the [`Seat`] along: so it counts as the connection it still
//! is, and the server waits for it when it closes.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{
        FromRequestParts,
        ws::{WebSocket, WebSocketUpgrade},
    },
    http::request::Parts,
    response::Response,
};

use crate::{app::App, connection_table::Place, server::HttpLimits};

/// The place of a connection. Free again when the last clone is gone.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// Nothing, without a server around the router.
    place: Option<Arc<Place>>,
    /// How much of everything its server takes.
    pub(crate) limits: Arc<HttpLimits>,
}

impl Seat {
    pub(crate) fn new(place: Option<Arc<Place>>, limits: Arc<HttpLimits>) -> Self {
        Self { place, limits }
    }

    /// Notes that a request over the connection was let in. Says whether there is room for it.
    pub(crate) fn note_known(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.note_known())
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
        let max_bytes = self.limits.socket_message_bytes;
        let upgrade = upgrade.max_message_size(max_bytes).max_frame_size(max_bytes);
        upgrade.on_upgrade(async move |socket| {
            serve(socket).await;
            drop((self, token));
        })
    }
}

impl FromRequestParts<App> for Seat {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let seat = parts.extensions.get::<Self>().cloned();
        Ok(seat.unwrap_or_else(|| Self::new(None, Arc::default())))
    }
}
