//! What comes from outside: Ctrl-C and `SIGTERM`, which want the program to stop, and `SIGHUP`, which
//! does not stop a server.

use std::io;

use crate::exit::Exit;

/// Who wants the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The person at the terminal.
    Interrupt,
    /// The system.
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

/// The signals as they come. From the first [`listen`](Signals::listen) on they no longer end
/// the program by themselves.
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

    /// Waits for the next one. Nothing is lost when it is not waited for to the end.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// `SIGHUP` as it comes: from a terminal that is closed, or from somebody who expects settings to
/// be read again. From [`listen`](Hangups::listen) on it no longer ends the program.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one. Nothing is lost when it is not waited for to the end.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// There is none.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}

/// Ctrl-C, where there is nothing else.
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
