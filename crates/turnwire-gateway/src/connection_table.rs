//! The open connections of a server, and which of them are closed when there are too many.
//!
//! Anyone can open a connection; only an authenticated request shows who it is. A connection
//! without one ("unknown") never blocks another: if there is no room, the oldest unknown connection
//! is closed. Authenticated connections cannot use all of the capacity: a reserve is left for new
//! connections, so that probes are answered and the operator sees that the server is full, not
//! dead.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use crate::{
    limits::{MAX_CONNECTIONS, MAX_UNKNOWN},
    sync::lock,
};

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
    is_known: AtomicBool,
    close: CancellationToken,
}

impl ConnectionTable {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Table { limits, unknown: BTreeMap::new(), n_known: 0, next: 0 })))
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
        let (table, is_known) = (self.clone(), AtomicBool::new(false));
        (ConnectionSlot { table, number, is_known, close }, limit)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

impl Table {
    fn n_unknown_of(&self, address: IpAddr) -> usize {
        self.unknown.values().filter(|unknown| unknown.address == address).count()
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
        if self.is_known() {
            return true;
        }
        let mut table = self.table.table();
        let has_room = table.n_known < table.limits.known;
        // Without an entry, it has just been closed to make room for another.
        if !has_room || table.unknown.remove(&self.number).is_none() {
            // Two requests over one connection may arrive here at once.
            return self.is_known();
        }
        table.n_known += 1;
        self.is_known.store(true, Ordering::Relaxed);
        true
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
            table.unknown.remove(&self.number);
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
