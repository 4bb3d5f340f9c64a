//! The open connections of a server, and which of them are closed when there are too many.
//!
//! Anyone can open a connection; only an authenticated request shows who it is. A connection
//! without one ("unknown") never blocks another: if there is no room, the oldest unknown connection
//! is closed. Authenticated connections cannot use all of the capacity: a reserve is left for new
//! connections, so that probes are answered and the operator sees that the server is full, not
//! dead.
//!
//! A reader of a share link has no key. Its connection is not closed while it reads, and never
//! counts as an authenticated one: readers have places of their own, a tenth as many (A21).

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    limits::{MAX_CONNECTIONS, MAX_UNKNOWN},
    sync::lock,
};

/// There is one reader of a share link for so many authenticated connections.
const CONNECTIONS_PER_READER: usize = 10;

/// Limits on open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Authenticated connections, including WebSockets.
    pub(crate) known: usize,
    pub(crate) unknown_per_address: usize,
    /// Capacity that only unknown connections can use.
    pub(crate) reserve: usize,
}

/// The connections of one server. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionTable(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    /// Connections without an authenticated request, oldest first.
    unknown: BTreeMap<u64, UnauthenticatedConnection>,
    /// Connections over which somebody reads with a share link, and nothing else was asked, with
    /// the number of such requests.
    reading: HashMap<u64, (UnauthenticatedConnection, usize)>,
    /// Requests with a share link, over connections of any kind.
    n_readers: usize,
    n_known: usize,
    next: u64,
}

#[derive(Debug)]
struct UnauthenticatedConnection {
    address: IpAddr,
    close: CancellationToken,
}

/// The table entry of one connection, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: ConnectionTable,
    number: u64,
    /// Whose connection it is, as it is counted.
    address: IpAddr,
    is_known: AtomicBool,
    close: CancellationToken,
    /// For a request that asks the store who makes it, over a connection that is not known yet.
    pub(crate) asking: Semaphore,
}

/// The place of a request with a share link, which is freed when it is dropped.
#[derive(Debug)]
pub(crate) struct ReaderPlace(Arc<ConnectionSlot>);

impl ConnectionLimits {
    /// Requests with a share link.
    fn readers(self) -> usize {
        (self.known / CONNECTIONS_PER_READER).max(1)
    }
}

impl ConnectionTable {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        let (unknown, reading) = (BTreeMap::new(), HashMap::new());
        let table = Table { limits, unknown, reading, n_readers: 0, n_known: 0, next: 0 };
        Self(Arc::new(Mutex::new(table)))
    }

    /// Adds a connection from this address. Returns the setting of the limit if another connection
    /// was closed to make room.
    pub(crate) fn enter(&self, address: IpAddr) -> (ConnectionSlot, Option<&'static str>) {
        let address = whose(address);
        let mut table = self.table();
        let ConnectionLimits { known, unknown_per_address, reserve } = table.limits;
        let mut limit = None;
        if table.n_unknown_of(address) >= unknown_per_address {
            table.close_oldest(|unknown| unknown.address == address);
            limit = Some(MAX_UNKNOWN);
        }
        if table.n_known + table.unknown.len() >= known + reserve {
            table.close_oldest(|_| true);
            limit = Some(MAX_CONNECTIONS);
        }
        let (number, close) = (table.next, CancellationToken::new());
        table.next += 1;
        table.unknown.insert(number, UnauthenticatedConnection { address, close: close.clone() });
        drop(table);
        let (table, is_known, asking) = (self.clone(), AtomicBool::new(false), Semaphore::new(1));
        (ConnectionSlot { table, number, address, is_known, close, asking }, limit)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

impl Table {
    fn n_unknown_of(&self, address: IpAddr) -> usize {
        self.unknown.values().filter(|unknown| unknown.address == address).count()
    }

    /// Removes a connection that is not known. Returns whether it was there.
    fn remove(&mut self, number: u64) -> bool {
        self.unknown.remove(&number).is_some() || self.reading.remove(&number).is_some()
    }

    /// Closes the oldest unknown connection that `among` accepts.
    fn close_oldest(&mut self, among: impl Fn(&UnauthenticatedConnection) -> bool) {
        let oldest = self.unknown.iter().find(|(_, unknown)| among(unknown));
        let Some(number) = oldest.map(|(number, _)| *number) else { return };
        if let Some(unknown) = self.unknown.remove(&number) {
            unknown.close.cancel();
        }
    }
}

impl ConnectionSlot {
    /// Marks the connection as authenticated. Returns false if the limit is reached.
    pub(crate) fn note_known(&self) -> bool {
        self.note_known_among(|limits| limits.known)
    }

    /// Marks the connection of whoever collects metrics as authenticated, unless it would take one
    /// of the last places. Returns whether it is.
    pub(crate) fn note_collector(&self) -> bool {
        self.note_known_among(|limits| limits.known.saturating_sub(limits.readers()))
    }

    fn note_known_among(&self, max: impl Fn(ConnectionLimits) -> usize) -> bool {
        if self.is_known() {
            return true;
        }
        let mut table = self.table.table();
        let has_room = table.n_known < max(table.limits);
        // Without an entry, it has just been closed to make room for another.
        if !has_room || !table.remove(self.number) {
            // Two requests over one connection may arrive here at once.
            return self.is_known();
        }
        table.n_known += 1;
        self.is_known.store(true, Ordering::Relaxed);
        true
    }

    /// Takes a place for a request with a share link. `None` if there is none left, or the
    /// connection was closed.
    pub(crate) fn begin_reading(self: &Arc<Self>) -> Option<ReaderPlace> {
        let mut table = self.table.table();
        if table.n_readers >= table.limits.readers() {
            return None;
        }
        if let Some((_, n_requests)) = table.reading.get_mut(&self.number) {
            *n_requests += 1;
        } else if let Some(unknown) = table.unknown.remove(&self.number) {
            table.reading.insert(self.number, (unknown, 1));
        } else if !self.is_known() {
            return None;
        }
        table.n_readers += 1;
        Some(ReaderPlace(Arc::clone(self)))
    }

    /// The address under which the connection is counted.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether a request over this connection was authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Cancelled when the connection is to be closed to make room for another.
    pub(crate) fn close(&self) -> &CancellationToken {
        &self.close
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.table.table();
        if self.is_known() {
            table.n_known -= 1;
        } else {
            table.remove(self.number);
        }
    }
}

impl Drop for ReaderPlace {
    fn drop(&mut self) {
        let (mut table, number) = (self.0.table.table(), self.0.number);
        table.n_readers -= 1;
        // Without an entry, the connection has become a known one.
        let Some((_, n_requests)) = table.reading.get_mut(&number) else { return };
        *n_requests -= 1;
        if *n_requests == 0
            && let Some((unknown, _)) = table.reading.remove(&number)
        {
            table.unknown.insert(number, unknown);
        }
    }
}

/// The address under which a connection is counted. An IPv6 client has a whole /64 network, so that
/// counts as one.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
#[path = "connection_table_tests.rs"]
mod tests;
