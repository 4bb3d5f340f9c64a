use proptest::prelude::*;

use super::*;

fn key(tenant: &str, byte: u8) -> DataKey {
    DataKey::new(&TenantId::from(tenant), "0a1b2c3d", Zeroizing::new([byte; KEY_LENGTH]))
}

fn sealed(key: &DataKey, place: Place<'_>, text: &str) -> String {
    let mut sealed = text.to_owned();
    key.seal(place, &mut sealed).unwrap();
    sealed
}

fn opened(key: &DataKey, place: Place<'_>, text: &str) -> Option<String> {
    key.open(place, &SealedText::of(text).unwrap())
}

/// A17: a ciphertext of another row, column, run or tenant is refused, and so is a changed one.
#[test]
fn a_text_can_be_read_at_its_place_alone() {
    let (one, other) = (RunId::from("run_1"), RunId::from("run_2"));
    let (acme, place) = (key("acme", 1), Place::events(&one, 5));
    let text = sealed(&acme, place, "[canary]");
    assert!(text.starts_with("~1:0a1b2c3d:") && !text.contains("canary"), "{text}");
    assert_eq!(opened(&acme, place, &text).as_deref(), Some("[canary]"));
    for elsewhere in [
        Place::events(&one, 6),
        Place::events(&other, 5),
        Place::request(&one),
        Place::input_text(&one),
        Place::command(&one),
        Place::entry("run_1"),
    ] {
        assert_eq!(opened(&acme, elsewhere, &text), None, "{elsewhere:?}");
    }
    // The same bytes in a key of another tenant, and another key of this one.
    assert_eq!(opened(&key("evil", 1), place, &text), None);
    assert_eq!(opened(&key("acme", 2), place, &text), None);
    for n in "~1:0a1b2c3d:".len()..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[n] = if changed[n] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(opened(&acme, place, &changed), None, "{n}");
        assert_eq!(opened(&acme, place, &text[..n]), None, "{n}");
    }
}

/// A17: the same for bytes of files and blobs.
#[test]
fn bytes_can_be_read_at_their_place_alone() {
    let (file, other) = (FileId::from("file_1"), FileId::from("file_2"));
    let (acme, place) = (key("acme", 1), Place::slice(&file, 3));
    let sealed = acme.seal_bytes(place, b"canary").unwrap();
    assert!(std::str::from_utf8(&sealed).is_err());
    let sealed = SealedBytes::of(&sealed).unwrap();
    assert_eq!(acme.open_bytes(place, &sealed).as_deref(), Some(&b"canary"[..]));
    for elsewhere in [Place::slice(&file, 4), Place::slice(&other, 3)] {
        assert_eq!(acme.open_bytes(elsewhere, &sealed), None, "{elsewhere:?}");
    }
    assert_eq!(key("evil", 1).open_bytes(place, &sealed), None);
}

/// A17: what was stored without encryption is not taken for encrypted.
#[test]
fn plain_values_do_not_look_encrypted() {
    for text in
        ["", "[]", "{\"a\":1}", "\"~1:0a1b2c3d:\"", "~", "~1:", "~1:0a1b2c3:x", "~2:0a1b2c3d:"]
    {
        assert!(SealedText::of(text).is_none(), "{text}");
        assert!(SealedBytes::of(text.as_bytes()).is_none(), "{text}");
    }
    assert!(SealedText::of("~1:häöxy2c3d:").is_none());
    assert!(SealedBytes::of(b"~1:0a1b2c3d:").is_none());
}

/// A17: neither two equal texts nor two places with the same letters have anything in common.
#[test]
fn nothing_is_the_same_twice() {
    let run_id = RunId::from("run_1");
    let (acme, place) = (key("acme", 1), Place::events(&run_id, 1));
    let (one, other) = (sealed(&acme, place, "text"), sealed(&acme, place, "text"));
    assert_ne!(one[12..], other[12..]);
    let (long, short) = (Place::entry("ab"), Place::entry("a"));
    assert_ne!(long.bound_to(&TenantId::from("x")), short.bound_to(&TenantId::from("xb")));
}

proptest! {
    /// A17: any text and any bytes come back as they were.
    #[test]
    fn anything_comes_back(text in any::<String>(), bytes in any::<Vec<u8>>(), part in any::<i64>()) {
        let (run_id, file_id) = (RunId::from("run_1"), FileId::from("file_1"));
        let acme = key("acme", 1);
        let (place, slice) = (Place::events(&run_id, part), Place::slice(&file_id, part));
        let sealed_text = sealed(&acme, place, &text);
        prop_assert!(sealed_text.is_ascii());
        prop_assert_eq!(opened(&acme, place, &sealed_text), Some(text));
        let sealed_bytes = acme.seal_bytes(slice, &bytes).unwrap();
        let sealed_bytes = SealedBytes::of(&sealed_bytes).unwrap();
        prop_assert_eq!(acme.open_bytes(slice, &sealed_bytes), Some(bytes));
    }
}

/// A17: also large ones.
#[test]
fn large_texts_come_back() {
    let run_id = RunId::from("run_1");
    let (acme, place) = (key("acme", 1), Place::request(&run_id));
    let text = "{\"ä\u{1f600}\":\"\\u0000\"}".repeat(300_000);
    assert_eq!(opened(&acme, place, &sealed(&acme, place, &text)), Some(text));
}
