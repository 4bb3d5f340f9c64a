use turnwire_contract::{RunId, SecretText, TenantId};

use super::*;

const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
const SECRET: &str = "Bearer canary-7f3a";

fn keys(text: &str) -> SecretKeys {
    SecretKeys::read(text).expect("keys")
}

fn secrets() -> ServerSecrets {
    let mut secrets = ServerSecrets::default();
    secrets.add("Authorization", SecretText::new(SECRET));
    secrets
}

/// Calls `work` with an owner of these parts.
fn owned<T>(parts: [&str; 4], work: impl FnOnce(SecretOwner<'_>) -> T) -> T {
    let [tenant, run_id, server, url] = parts;
    let (tenant, run_id) = (TenantId::new(tenant), RunId::new(run_id));
    work(SecretOwner { tenant: &tenant, run_id: &run_id, server, url })
}

const OWNER: [&str; 4] = ["acme", "run_1", "wiki", "https://wiki.example.com/mcp"];

fn sealed_with(keys: &SecretKeys) -> SealedSecret {
    owned(OWNER, |owner| keys.seal(owner, &secrets())).expect("sealed")
}

/// A6: what is stored is not the secret, and only its owner gets it back.
#[test]
fn secrets_are_decrypted_for_their_owner_alone() {
    let keys = keys(FIRST);
    let sealed = sealed_with(&keys);
    assert!(!format!("{sealed:?}").contains("canary"), "{sealed:?}");
    assert_eq!(owned(OWNER, |owner| keys.open(owner, &sealed)), Ok(secrets()));
    for (n, other) in ["evil", "run_2", "other", "https://evil.example.com/mcp"].iter().enumerate()
    {
        let mut parts = OWNER;
        parts[n] = other;
        let opened = owned(parts, |owner| keys.open(owner, &sealed));
        assert_eq!(opened, Err(SecretError::Rejected), "{parts:?}");
    }
    // The same text, cut differently.
    let parts = ["acmer", "un_1", "wiki", "https://wiki.example.com/mcp"];
    let opened = owned(parts, |owner| keys.open(owner, &sealed));
    assert_eq!(opened, Err(SecretError::Rejected));
}

/// A6: every change of the ciphertext is noticed.
#[test]
fn changed_ciphertexts_are_rejected() {
    let keys = keys(FIRST);
    let sealed = sealed_with(&keys);
    let bytes = BASE64.decode(&sealed.sealed).expect("base64");
    for n in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[n] ^= 1;
        let changed = SealedSecret { sealed: BASE64.encode(changed), ..sealed.clone() };
        let opened = owned(OWNER, |owner| keys.open(owner, &changed));
        assert_eq!(opened, Err(SecretError::Rejected), "byte {n}");
    }
    for broken in ["", "AAAA", "not base64!"] {
        let broken = SealedSecret { sealed: broken.to_owned(), ..sealed.clone() };
        let opened = owned(OWNER, |owner| keys.open(owner, &broken));
        assert_eq!(opened, Err(SecretError::Rejected));
    }
}

#[test]
fn equal_secrets_have_different_ciphertexts() {
    let keys = keys(FIRST);
    assert_ne!(sealed_with(&keys).sealed, sealed_with(&keys).sealed);
}

/// A6: keys can be replaced while runs are active.
#[test]
fn the_first_key_encrypts_and_all_decrypt() {
    let (old, both, new) = (keys(FIRST), keys(&format!("{SECOND}, {FIRST}")), keys(SECOND));
    let sealed = sealed_with(&old);
    assert_eq!(owned(OWNER, |owner| both.open(owner, &sealed)), Ok(secrets()));
    let unknown = SecretError::UnknownKey(sealed.key_id.clone());
    assert!(!unknown.to_string().contains("AAEC"), "{unknown}");
    assert_eq!(owned(OWNER, |owner| new.open(owner, &sealed)), Err(unknown));
    assert!(both.knows_key(&sealed.key_id) && !new.knows_key(&sealed.key_id));
    let sealed = sealed_with(&both);
    assert_eq!(owned(OWNER, |owner| new.open(owner, &sealed)), Ok(secrets()));
}

#[test]
fn keys_are_read_from_lists_and_lines() {
    let unpadded = FIRST.trim_end_matches('=');
    assert_eq!(keys(&format!("\n{unpadded}\n{SECOND}\n")).ids().count(), 2);
    let error = |text: &str| SecretKeys::read(text).map(drop);
    assert_eq!(error(" \n,"), Err(SecretKeysError::None));
    assert_eq!(error("c2hvcnQ="), Err(SecretKeysError::NotAKey(1)));
    assert_eq!(error(&format!("{FIRST},not a key")), Err(SecretKeysError::NotAKey(2)));
    assert_eq!(error(&format!("{FIRST},{unpadded}")), Err(SecretKeysError::Duplicate(2)));
}

#[test]
fn debug_output_has_no_keys() {
    let keys = keys(FIRST);
    let shown = format!("{keys:?}");
    assert!(shown.contains(keys.ids().next().expect("one key")), "{shown}");
    assert!(!shown.contains(&FIRST[..8]), "{shown}");
}
