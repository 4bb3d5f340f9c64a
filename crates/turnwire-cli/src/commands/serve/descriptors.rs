//! As many connections as there are file descriptors for.
//!
//! A process that runs out of descriptors cannot accept a connection, open its store or ask a
//! model, whoever wants it. So the limit of descriptors is raised as far as the system allows and
//! connections need it, and where it does not suffice, there are fewer connections.

use rlimit::Resource;
use tracing::warn;
use turnwire_gateway::HttpLimits;

/// Descriptors for everything but connections: the store, listeners, logs, probes.
const OTHERS: u64 = 192;
/// A connection has one, and its run asks a model over another one.
const PER_CONNECTION: u64 = 2;

/// The limits with as many connections as there can be.
pub(super) fn fitting(limits: HttpLimits) -> HttpLimits {
    let Some(n_descriptors) = descriptors(needed(limits.connections)) else { return limits };
    let fitting = connections(n_descriptors);
    if fitting >= limits.connections {
        return limits;
    }
    let wanted = limits.connections;
    warn!(
        limit = "limits.max_connections",
        wanted, fitting, n_descriptors, "too few file descriptors, fewer connections are accepted"
    );
    HttpLimits { connections: fitting, ..limits }
}

/// Raises the limit of descriptors to `needed`, if the system allows it, and returns it.
fn descriptors(needed: u64) -> Option<u64> {
    let (soft, hard) = Resource::NOFILE.get().ok()?;
    let raised = soft.max(needed.min(hard));
    let is_raised = raised == soft || Resource::NOFILE.set(raised, hard).is_ok();
    Some(if is_raised { raised } else { soft })
}

/// Descriptors for so many connections. Readers of share links have a tenth more.
fn needed(connections: usize) -> u64 {
    let connections = u64::try_from(connections).unwrap_or(u64::MAX);
    let all = connections.saturating_add(connections / 10);
    all.saturating_mul(PER_CONNECTION).saturating_add(OTHERS)
}

/// Connections for so many descriptors: at least one.
fn connections(n_descriptors: u64) -> usize {
    let all = n_descriptors.saturating_sub(OTHERS) / PER_CONNECTION;
    usize::try_from(all.saturating_mul(10) / 11).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A13: connections never need more descriptors than there are.
    #[test]
    fn connections_fit_the_descriptors() {
        assert_eq!([1_024, 4_096, 64].map(connections), [378, 1_774, 1]);
        for n_descriptors in 196..5_000 {
            let fitting = connections(n_descriptors);
            assert!(needed(fitting) <= n_descriptors, "{n_descriptors}: {fitting}");
        }
        assert!(connections(needed(5_000)) >= 5_000);
        assert_eq!(needed(usize::MAX), u64::MAX);
    }
}
