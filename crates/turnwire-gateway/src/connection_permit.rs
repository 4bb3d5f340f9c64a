//! A connection's share of the limit on open connections.
//!
//! An upgrade to WebSocket ends the connection for HTTP, but the socket stays open. The task that
//! serves it keeps the [`ConnectionPermit`], so the socket still counts as a connection, and the
//! server waits for it at shutdown.

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts,
        ws::{WebSocket, WebSocketUpgrade},
    },
    http::request::Parts,
    response::Response,
};
use tokio::{sync::SemaphorePermit, time::sleep};

use crate::{
    App, Caller,
    connection_table::{ConnectionSlot, ReaderPlace},
    limits::HttpLimits,
    websocket::key_ended,
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

/// There is no place left for a reader.
#[derive(Debug)]
pub(crate) struct NoPlace;

impl ConnectionPermit {
    pub(crate) fn new(slot: Option<Arc<ConnectionSlot>>, limits: Arc<HttpLimits>) -> Self {
        Self { slot, limits }
    }

    /// Marks the connection as authenticated. Returns false if the limit is reached.
    pub(crate) fn note_known(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.note_known())
    }

    /// Marks the connection of whoever collects metrics as authenticated, unless few places are
    /// left. Returns whether it is.
    pub(crate) fn note_collector(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.note_collector())
    }

    /// Takes a place for a request with a share link. `Ok(None)` if the router is used without a
    /// server, and an error if there is no place left.
    pub(crate) fn begin_reading(&self) -> Result<Option<ReaderPlace>, NoPlace> {
        let Some(slot) = &self.slot else { return Ok(None) };
        slot.begin_reading().map(Some).ok_or(NoPlace)
    }

    /// The address that the connection comes from, as it is counted.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.slot.as_ref().map(|slot| slot.address())
    }

    /// Waits for the turn to ask the store who makes a request. Over a connection that is not known
    /// there is one such request at a time, so that nobody keeps others from asking by guessing.
    pub(crate) async fn ask(&self) -> Option<SemaphorePermit<'_>> {
        let slot = self.slot.as_ref().filter(|slot| !slot.is_known())?;
        slot.asking.acquire().await.ok()
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
