//! Signals: Ctrl-C and `SIGTERM` stop the program, `SIGHUP` makes a server read its settings again.

use std::io;

use crate::exit::{Exit, Problem, Result};

/// A signal that stops the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupt,
    Terminate,
}

impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Terminated,
        }
    }
}

/// Listens for signals from here on.
pub(crate) fn listen() -> Result<Signals> {
    Signals::listen()
        .map_err(|error| Problem::failure(format!("cannot listen for Ctrl-C: {error}")))
}

/// The received signals. After [`listen`](Signals::listen) they no longer end the process by
/// default.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// The received `SIGHUP`s, as requests to reload, or from a closed terminal. After
/// [`listen`](HangupSignals::listen) they no longer end the process. Several that are not handled
/// yet count as one.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct HangupSignals(tokio::signal::unix::Signal);

#[cfg(unix)]
impl HangupSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// This platform has no `SIGHUP`.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct HangupSignals;

#[cfg(not(unix))]
impl HangupSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Only Ctrl-C on this platform.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
