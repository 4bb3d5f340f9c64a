//! Which connections a server holds, and which of them go when there are too many.
//!
//! Anybody can open a connection; only a request that was let in shows who it is. Until then a
//! connection keeps nobody out: where there is no room for another one, the oldest of those that
//! have not shown who they are is closed for it. Clients that have never get all places: some are
//! left for newcomers, on which probes are answered, so that an operator sees a server that is
//! full as one that is full, and not as one that is dead.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use crate::sync::lock;

/// How many connections there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Those that have shown who they are, WebSockets among them.
    pub(crate) known: usize,
    /// Those of one address that have not.
    pub(crate) unknown_per_address: usize,
    /// How many places there are that only those can have.
    pub(crate) reserve: usize,
}

/// The connections of one server. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionTable(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    /// Those over which no request was let in yet, by age, the oldest first.
    unknown: BTreeMap<u64, Unknown>,
    n_known: usize,
    next: u64,
}

#[derive(Debug)]
struct Unknown {
    address: IpAddr,
    close: CancellationToken,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    table: ConnectionTable,
    number: u64,
    is_known: AtomicBool,
    close: CancellationToken,
}

/// The setting of [`ConnectionLimits::known`].
pub(crate) const MAX_CONNECTIONS: &str = "limits.max_connections";
/// The setting of [`ConnectionLimits::unknown_per_address`].
pub(crate) const MAX_UNKNOWN: &str = "limits.max_unknown_connections_per_address";

impl ConnectionTable {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(Table { limits, unknown: BTreeMap::new(), n_known: 0, next: 0 })))
    }

    /// Finds a place for a connection from this address, and says which limit another one had to
    /// be closed for.
    pub(crate) fn enter(&self, address: IpAddr) -> (Place, Option<&'static str>) {
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
        table.unknown.insert(number, Unknown { address, close: close.clone() });
        drop(table);
        let (table, is_known) = (self.clone(), AtomicBool::new(false));
        (Place { table, number, is_known, close }, limit)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

impl Table {
    fn n_unknown_of(&self, address: IpAddr) -> usize {
        self.unknown.values().filter(|unknown| unknown.address == address).count()
    }

    /// Closes the oldest connection that has not shown who it is, among those.
    fn close_oldest(&mut self, among: impl Fn(&Unknown) -> bool) {
        let oldest = self.unknown.iter().find(|(_, unknown)| among(unknown));
        let Some(number) = oldest.map(|(number, _)| *number) else { return };
        if let Some(unknown) = self.unknown.remove(&number) {
            unknown.close.cancel();
        }
    }
}

impl Place {
    /// Notes that a request over this connection was let in. Says whether there is room for it
    /// among the others.
    pub(crate) fn note_known(&self) -> bool {
        if self.is_known() {
            return true;
        }
        let mut table = self.table.table();
        let has_room = table.n_known < table.limits.known;
        // Without an entry, it has just been closed for somebody else.
        if !has_room || table.unknown.remove(&self.number).is_none() {
            // Two requests over one connection may have come here at once.
            return self.is_known();
        }
        table.n_known += 1;
        self.is_known.store(true, Ordering::Relaxed);
        true
    }

    /// Whether a request over this connection was let in.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Falls when the connection is closed for somebody else.
    pub(crate) fn close(&self) -> &CancellationToken {
        &self.close
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.table.table();
        if self.is_known() {
            table.n_known -= 1;
        } else {
            table.unknown.remove(&self.number);
        }
    }
}

/// Whose address it is: with IPv6, everybody has a whole network of them.
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
