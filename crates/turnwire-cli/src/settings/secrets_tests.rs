//! Valid and invalid keys for secrets of requests.

use std::fs;

use crate::settings::testing::{check_mistakes, demo_settings};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

#[test]
fn keys_come_from_a_variable_or_a_file() {
    assert!(demo_settings("", &[]).unwrap().secret_keys.is_none());
    let text = "[secrets]\nkey_env = \"KEYS\"\n";
    let both = format!("{KEY},{OTHER}");
    let in_variable = demo_settings(text, &[("KEYS", &both)]).unwrap().secret_keys.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, format!("{KEY}\n{OTHER}\n")).unwrap();
    let text = format!("[secrets]\nkey_file = {:?}\n", path.display().to_string());
    let in_file = demo_settings(&text, &[]).unwrap().secret_keys.unwrap();
    assert_eq!(in_variable.ids().collect::<Vec<_>>(), in_file.ids().collect::<Vec<_>>());
    assert_eq!(in_file.ids().count(), 2);
}

/// A12: no error repeats a key.
#[test]
fn what_is_wrong_is_told_without_the_keys() {
    let variable = "[secrets]\nkey_env = \"KEYS\"\n";
    let none = "secrets.key_env: missing; name a variable with a key, or a file with key_file";
    check_mistakes("[secrets]\n", &[], &[none]);
    let unset = "secrets.key_env: the environment variable `KEYS` is not set";
    check_mistakes(variable, &[], &[unset]);
    let short = "secrets.key_env: `KEYS`: key 1 is not 32 bytes in base64; make one with: openssl \
                 rand -base64 32";
    check_mistakes(variable, &[("KEYS", "canary")], &[short]);
    let twice = "secrets.key_env: `KEYS`: key 2 is there twice";
    check_mistakes(variable, &[("KEYS", &format!("{KEY} {KEY}"))], &[twice]);
    check_mistakes(
        "[secrets]\nkey_env = \"KEYS\"\nkey_file = \"keys\"\n",
        &[],
        &["secrets.key_file: there is key_env, too; leave out one"],
    );
    let problem = demo_settings("[secrets]\nkey_file = \"/no/such/file\"\n", &[]).unwrap_err();
    assert!(problem.to_string().contains("secrets.key_file: `/no/such/file`"), "{problem}");
}

/// A17: the keys for stored data come the same way, and are options of the store.
#[test]
fn keys_for_stored_data_are_options_of_the_store() {
    let store = "[store]\nurl = \"sqlite://runs.db\"\n";
    let settings = |text: &str| demo_settings(&format!("{store}{text}"), &[("KEYS", KEY)]).unwrap();
    assert!(settings("").store.unwrap().encryption.is_none());
    let keys = settings("[encryption]\nkey_env = \"KEYS\"\n").store.unwrap().encryption.unwrap();
    assert_eq!(keys.ids().count(), 1);
    assert!(!format!("{keys:?}").contains(KEY), "{keys:?}");
    let none = "encryption.key_env: missing; name a variable with a key, or a file with key_file";
    check_mistakes("[encryption]\n", &[], &[none]);
    let short = "encryption.key_env: `KEYS`: key 1 is not 32 bytes in base64; make one with: openssl \
                 rand -base64 32";
    check_mistakes("[encryption]\nkey_env = \"KEYS\"\n", &[("KEYS", "canary")], &[short]);
}
