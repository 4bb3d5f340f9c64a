//! IP networks that are not the public internet.
//!
//! IPv4 is allowed except for the special-purpose networks of the IANA registry. IPv6 is denied
//! except for global unicast addresses, because most of it is unassigned. Addresses that embed an
//! IPv4 address are denied regardless of that address, because public hosts do not need them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(start: [u16; 4], prefix: u8) -> Ipv6Net {
    let [a, b, c, d] = start;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

/// Denied IPv4 networks, with the reason.
const CLOSED_V4: [(Ipv4Net, &str); 18] = [
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by a provider"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(168, 63, 129, 16, 32), "metadata of a cloud"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "set aside for protocols"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 31, 196, 0, 24), "set aside for name servers"),
    (v4(192, 52, 193, 0, 24), "set aside for multicast"),
    (v4(192, 88, 99, 0, 24), "6to4 relays"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarks"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

/// Global unicast IPv6 addresses.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);

/// Denied IPv6 networks inside the global range, with the reason.
const CLOSED_V6: [(Ipv6Net, &str); 5] = [
    (v6([0x2001, 0, 0, 0], 32), "Teredo, with IPv4 inside"),
    (v6([0x2001, 0, 0, 0], 23), "set aside for protocols"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    (v6([0x2002, 0, 0, 0], 16), "6to4, with IPv4 inside"),
    (v6([0x3fff, 0, 0, 0], 20), "documentation"),
];

/// IPv6 networks outside the global range, with the reason for error messages. Others outside the
/// range are also denied.
const NOT_GLOBAL_V6: [(Ipv6Net, &str); 6] = [
    (v6([0x64, 0xff9b, 0, 0], 96), "NAT64, with IPv4 inside"),
    (v6([0x64, 0xff9b, 1, 0], 48), "NAT64, with IPv4 inside"),
    (v6([0xfc00, 0, 0, 0], 7), "private"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], 10), "private"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// Returns the reason why an address is denied, or `None` if it is public.
pub fn closed(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => closed_v4(address),
        IpAddr::V6(address) => closed_v6(address),
    }
}

fn closed_v4(address: Ipv4Addr) -> Option<&'static str> {
    CLOSED_V4.iter().find(|(network, _)| network.contains(&address)).map(|(_, why)| *why)
}

fn closed_v6(address: Ipv6Addr) -> Option<&'static str> {
    let found = |networks: &[(Ipv6Net, &'static str)]| {
        networks.iter().find(|(network, _)| network.contains(&address)).map(|(_, why)| *why)
    };
    if GLOBAL_V6.contains(&address) {
        return found(&CLOSED_V6).or_else(|| isatap(address));
    }
    let special = match address {
        Ipv6Addr::UNSPECIFIED => Some("this network"),
        Ipv6Addr::LOCALHOST => Some("loopback"),
        // IPv4-mapped, or the deprecated IPv4-compatible form.
        _ if address.to_ipv4().is_some() => Some("IPv4 inside IPv6"),
        _ => None,
    };
    special.or_else(|| found(&NOT_GLOBAL_V6)).or(Some("not global"))
}

/// An address with a global prefix may embed an IPv4 address that a router would unwrap.
fn isatap(address: Ipv6Addr) -> Option<&'static str> {
    let [.., a, b, _, _] = address.segments();
    (matches!(a, 0 | 0x200) && b == 0x5efe).then_some("ISATAP, with IPv4 inside")
}

/// Returns the IPv4 address embedded at the end of an IPv6 address.
pub(super) fn inside(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let ends_in_v4 = address.to_ipv4_mapped().is_some()
        || v6([0x64, 0xff9b, 0, 0], 96).contains(&address)
        || isatap(address).is_some();
    let [.., a, b, c, d] = address.octets();
    ends_in_v4.then_some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
