//! Tests of the connection table.

use super::*;

fn table(known: usize, unknown_per_address: usize, reserve: usize) -> ConnectionTable {
    ConnectionTable::new(ConnectionLimits { known, unknown_per_address, reserve })
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn is_closed(slot: &ConnectionSlot) -> bool {
    slot.close().is_cancelled()
}

/// A13: at the limit of one address all connections stay; past it the oldest unknown one is closed,
/// and none of another address.
#[test]
fn unknown_connections_of_an_address_are_bounded() {
    let table = table(100, 3, 1);
    let enter = |last| table.enter(address(last)).0;
    let other = enter(9);
    let mut slots: Vec<ConnectionSlot> = (0..3).map(|_| enter(1)).collect();
    assert!(!slots.iter().any(is_closed), "three may be there");
    assert!(slots[0].note_known(), "the oldest shows who it is and does not count any more");
    slots.push(enter(1));
    assert!(!slots.iter().any(is_closed), "again three");
    let (fifth, limit) = table.enter(address(1));
    assert_eq!(limit, Some(MAX_UNKNOWN));
    slots.push(fifth);
    let closed: Vec<bool> = slots.iter().map(is_closed).collect();
    assert_eq!(closed, [false, true, false, false, false]);
    assert!(!is_closed(&other));
}

/// A13: idle unknown connections never block an authenticated one.
#[test]
fn strangers_make_way() {
    let table = table(5, 5, 2);
    let strangers: Vec<ConnectionSlot> = (0..50).map(|n| table.enter(address(n)).0).collect();
    assert_eq!(strangers.iter().filter(|slot| !is_closed(slot)).count(), 7);
    let (honest, limit) = table.enter(address(200));
    assert_eq!(limit, Some(MAX_CONNECTIONS));
    assert!(honest.note_known());
    let more: Vec<ConnectionSlot> = (0..50).map(|n| table.enter(address(n)).0).collect();
    assert!(!is_closed(&honest), "who has shown who they are stays");
    assert_eq!(more.iter().filter(|slot| !is_closed(slot)).count(), 6);
}

/// A13: authenticated connections are limited to their share; probes can use the reserve, and freed
/// capacity is used again.
#[test]
fn a_full_server_keeps_a_reserve() {
    let table = table(3, 3, 2);
    let known: Vec<ConnectionSlot> = (0..3).map(|n| table.enter(address(n)).0).collect();
    assert!(known.iter().all(ConnectionSlot::note_known));
    let (first, second) = (table.enter(address(7)).0, table.enter(address(8)).0);
    assert!(!first.note_known() && !second.note_known(), "only probes");
    assert!(!is_closed(&first) && !is_closed(&second));
    let (third, limit) = table.enter(address(9));
    assert_eq!(limit, Some(MAX_CONNECTIONS));
    assert!(is_closed(&first) && !is_closed(&second) && !known.iter().any(is_closed));
    drop(known);
    assert!(third.note_known() && second.note_known());
}

/// A13: an IPv6 client is counted by its network, and an IPv4 address is the same in either
/// notation.
#[test]
fn an_address_is_whose_it_is() {
    let parse = |text: &str| whose(text.parse().unwrap());
    assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1:2:3"));
    assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
    assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
}

fn enter(table: &ConnectionTable, last: u8) -> Arc<ConnectionSlot> {
    Arc::new(table.enter(address(last)).0)
}

/// A21: readers of share links have places of their own, a tenth of those of callers with a key.
/// One more is refused until another leaves, and callers with a key get all of theirs.
#[test]
fn readers_have_places_of_their_own() {
    let table = table(20, 100, 5);
    let readers: Vec<Arc<ConnectionSlot>> = (0..3).map(|n| enter(&table, n)).collect();
    let mut places: Vec<ReaderPlace> =
        readers[..2].iter().map(|reader| reader.begin_reading().unwrap()).collect();
    assert!(readers[2].begin_reading().is_none(), "two of twenty");
    let known: Vec<Arc<ConnectionSlot>> = (0..20).map(|n| enter(&table, 10 + n)).collect();
    assert!(known.iter().all(|slot| slot.note_known()), "callers with a key get all places");
    assert!(!enter(&table, 50).note_known());
    assert!(known[0].begin_reading().is_none(), "a known connection reads within the same limit");
    places.pop();
    places.push(known[0].begin_reading().unwrap());
    assert!(readers[2].begin_reading().is_none());
    drop((places, readers, known));
    let table = table.table();
    assert_eq!((table.n_known, table.n_readers), (0, 0));
    assert!(table.unknown.is_empty() && table.reading.is_empty());
}

/// A21: the connection of a reader is not closed to make room while it reads; afterwards it is
/// unknown again.
#[test]
fn a_reader_stays_while_it_reads() {
    let table = table(20, 2, 5);
    let reader = enter(&table, 1);
    let places = [reader.begin_reading().unwrap(), reader.begin_reading().unwrap()];
    let flood = || (0..10).map(|_| enter(&table, 1)).collect::<Vec<_>>();
    let _first = flood();
    assert!(!is_closed(&reader));
    let [one, other] = places;
    drop(one);
    let _second = flood();
    assert!(!is_closed(&reader), "another request goes on");
    drop(other);
    let _third = flood();
    assert!(is_closed(&reader));
    assert!(reader.begin_reading().is_none(), "it was closed");
}

/// A21: a reader who shows a key becomes a known caller, whatever it reads meanwhile.
#[test]
fn a_reader_may_have_a_key() {
    let table = table(20, 2, 5);
    let reader = enter(&table, 1);
    let place = reader.begin_reading().unwrap();
    assert!(reader.note_known());
    drop(place);
    assert_eq!(table.table().n_known, 1);
    drop(reader);
    assert_eq!(table.table().n_known, 0);
    assert_eq!(table.table().n_readers, 0);
}

/// A21: whoever collects metrics takes none of the last places.
#[test]
fn a_collector_of_metrics_leaves_places() {
    let table = table(20, 100, 5);
    let collectors: Vec<Arc<ConnectionSlot>> = (0..30).map(|n| enter(&table, n)).collect();
    assert_eq!(collectors.iter().filter(|slot| slot.note_collector()).count(), 18);
    let callers: Vec<Arc<ConnectionSlot>> = (0..2).map(|n| enter(&table, n)).collect();
    assert!(callers.iter().all(|slot| slot.note_known()));
}
