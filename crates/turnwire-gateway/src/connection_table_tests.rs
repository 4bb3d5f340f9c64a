//! Who gets a place, and whose it was.

use super::*;

fn table(known: usize, unknown_per_address: usize, reserve: usize) -> ConnectionTable {
    ConnectionTable::new(ConnectionLimits { known, unknown_per_address, reserve })
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn is_closed(place: &Place) -> bool {
    place.close().is_cancelled()
}

/// A13: at the limit of one address everybody stays; past it the oldest that has not shown who it
/// is goes, and nobody of another address.
#[test]
fn a13_unknown_connections_of_an_address_are_bounded() {
    let table = table(100, 3, 1);
    let enter = |last| table.enter(address(last)).0;
    let other = enter(9);
    let mut places: Vec<Place> = (0..3).map(|_| enter(1)).collect();
    assert!(!places.iter().any(is_closed), "three may be there");
    assert!(places[0].note_known(), "the oldest shows who it is and does not count any more");
    places.push(enter(1));
    assert!(!places.iter().any(is_closed), "again three");
    let (fifth, limit) = table.enter(address(1));
    assert_eq!(limit, Some(MAX_UNKNOWN));
    places.push(fifth);
    let closed: Vec<bool> = places.iter().map(is_closed).collect();
    assert_eq!(closed, [false, true, false, false, false]);
    assert!(!is_closed(&other));
}

/// A13: idle strangers never shut anybody out, however many they are.
#[test]
fn a13_strangers_make_way() {
    let table = table(5, 5, 2);
    let strangers: Vec<Place> = (0..50).map(|n| table.enter(address(n)).0).collect();
    assert_eq!(strangers.iter().filter(|place| !is_closed(place)).count(), 7);
    let (honest, limit) = table.enter(address(200));
    assert_eq!(limit, Some(MAX_CONNECTIONS));
    assert!(honest.note_known());
    let more: Vec<Place> = (0..50).map(|n| table.enter(address(n)).0).collect();
    assert!(!is_closed(&honest), "who has shown who they are stays");
    assert_eq!(more.iter().filter(|place| !is_closed(place)).count(), 6);
}

/// A13: known clients get as many places as there are for them and not one more; probes find the
/// reserve, and a place that becomes free is taken.
#[test]
fn a13_a_full_server_keeps_a_reserve() {
    let table = table(3, 3, 2);
    let known: Vec<Place> = (0..3).map(|n| table.enter(address(n)).0).collect();
    assert!(known.iter().all(Place::note_known));
    let (first, second) = (table.enter(address(7)).0, table.enter(address(8)).0);
    assert!(!first.note_known() && !second.note_known(), "only probes");
    assert!(!is_closed(&first) && !is_closed(&second));
    let (third, limit) = table.enter(address(9));
    assert_eq!(limit, Some(MAX_CONNECTIONS));
    assert!(is_closed(&first) && !is_closed(&second) && !known.iter().any(is_closed));
    drop(known);
    assert!(third.note_known() && second.note_known());
}

/// A13: an IPv6 client counts by its network, and an IPv4 address is the same however it is
/// written.
#[test]
fn a13_an_address_is_whose_it_is() {
    let parse = |text: &str| whose(text.parse().unwrap());
    assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1:2:3"));
    assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
    assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
}
