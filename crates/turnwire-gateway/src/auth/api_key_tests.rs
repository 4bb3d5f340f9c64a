use turnwire_contract::{Scope, TenantId, Timestamp};

use super::{NewApiKey, is_well_formed};
use crate::admission::KeyDigest;

fn new_key() -> NewApiKey {
    NewApiKey {
        tenant: TenantId::from("acme"),
        project: None,
        name: "laptop".to_owned(),
        scopes: Scope::USUAL.into(),
        created_at: Timestamp::from_micros(1),
        expires_at: None,
    }
}

/// A16: 256 random bits, kept as a digest, recognized by its first characters.
#[test]
fn a_key_is_random_and_its_record_does_not_tell_it() {
    let (one, text) = new_key().make().unwrap();
    let (other, other_text) = new_key().make().unwrap();
    assert_ne!(text, other_text);
    assert_ne!(one.key_id, other.key_id);
    assert_eq!(text.len(), 52);
    assert_eq!(one.digest, KeyDigest::of(&text).hex());
    assert!(text.starts_with(&one.prefix) && one.prefix.len() == 10, "{}", one.prefix);
    let rest = text.trim_start_matches(&one.prefix);
    assert!(!format!("{one:?}").contains(rest), "the record has no more of it than the prefix");
}

/// A16: what is no key is refused without asking the store.
#[test]
fn a_key_with_a_wrong_character_is_not_well_formed() {
    let (_, text) = new_key().make().unwrap();
    assert!(is_well_formed(&text));
    for (at, _) in text.char_indices() {
        let mut other = text.clone();
        let changed = if &text[at..=at] == "x" { "y" } else { "x" };
        other.replace_range(at..=at, changed);
        assert!(!is_well_formed(&other), "changed at {at}");
    }
    for wrong in ["", "tw_", "sk-abc", &text[..51], &format!("{text}x"), "tw_é", &"é".repeat(60)]
    {
        assert!(!is_well_formed(wrong), "{wrong}");
    }
}
