//! Public and denied addresses, at the bounds of every network.

use std::net::IpAddr;

use super::{closed, inside};

fn why(address: &str) -> Option<&'static str> {
    closed(address.parse::<IpAddr>().unwrap())
}

/// A4: the addresses next to a denied network are allowed.
#[test]
fn networks_are_closed_to_their_edges_and_no_further() {
    let edges = [
        (["0.0.0.0", "0.255.255.255"], ["1.0.0.0", "9.255.255.255"]),
        (["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
        (["100.64.0.0", "100.127.255.255"], ["100.63.255.255", "100.128.0.0"]),
        (["127.0.0.0", "127.255.255.255"], ["126.255.255.255", "128.0.0.0"]),
        (["168.63.129.16", "168.63.129.16"], ["168.63.129.15", "168.63.129.17"]),
        (["169.254.0.0", "169.254.255.255"], ["169.253.255.255", "169.255.0.0"]),
        (["172.16.0.0", "172.31.255.255"], ["172.15.255.255", "172.32.0.0"]),
        (["192.0.0.0", "192.0.0.255"], ["191.255.255.255", "192.0.1.0"]),
        (["192.168.0.0", "192.168.255.255"], ["192.167.255.255", "192.169.0.0"]),
        (["198.18.0.0", "198.19.255.255"], ["198.17.255.255", "198.20.0.0"]),
        (["224.0.0.0", "255.255.255.255"], ["223.255.255.255", "8.8.8.8"]),
        (["2001::", "2001:1ff:ffff::1"], ["2001:200::1", "2001:4860:4860::8888"]),
        (["2001:db8::", "2001:db8:ffff::1"], ["2001:db7::1", "2001:db9::1"]),
        (["2002::", "2002:ffff::1"], ["2001:ffff::1", "2003::1"]),
        (["3fff::", "3fff:fff::1"], ["3ffe::1", "3fff:1000::1"]),
        (["::", "1fff:ffff::1"], ["2000::1", "2606:4700::1"]),
        (["4000::", "ffff::1"], ["3fff:ffff::1", "2a00::1"]),
    ];
    for (within, beside) in edges {
        for address in within {
            assert!(why(address).is_some(), "{address} is open");
        }
        for address in beside {
            assert_eq!(why(address), None, "{address}");
        }
    }
}

#[test]
fn an_ipv4_address_inside_is_found() {
    let inner = |text: &str| inside(text.parse().unwrap()).map(|inner| inner.to_string());
    assert_eq!(inner("::ffff:127.0.0.1").as_deref(), Some("127.0.0.1"));
    assert_eq!(inner("64:ff9b::a9fe:a9fe").as_deref(), Some("169.254.169.254"));
    assert_eq!(inner("2606:4700::200:5efe:7f00:1").as_deref(), Some("127.0.0.1"));
    assert_eq!(inner("2606:4700::1"), None);
    assert_eq!(inner("8.8.8.8"), None);
}

#[test]
fn reasons_are_told() {
    assert_eq!(why("127.0.0.1"), Some("loopback"));
    assert_eq!(why("::1"), Some("loopback"));
    assert_eq!(why("::ffff:8.8.8.8"), Some("IPv4 inside IPv6"));
    assert_eq!(why("64:ff9b::808:808"), Some("NAT64, with IPv4 inside"));
    assert_eq!(why("2001:0:4136:e378::1"), Some("Teredo, with IPv4 inside"));
    assert_eq!(why("2606:4700::5efe:7f00:1"), Some("ISATAP, with IPv4 inside"));
}
