use std::{os::unix::fs::PermissionsExt, path::PathBuf};

use futures::FutureExt;
use rmcp::transport::auth::{CredentialStore, StoredCredentials};
use serde_json::json;

use super::TokenStore;

const SERVER: &str = "https://sea.example/mcp";

fn credentials(token: &str) -> StoredCredentials {
    serde_json::from_value(json!({
        "client_id": "us",
        "token_response": { "access_token": token, "token_type": "bearer", "expires_in": 60 },
        "granted_scopes": ["fish"],
    }))
    .unwrap()
}

fn token(stored: Option<StoredCredentials>) -> Option<String> {
    let stored = serde_json::to_value(stored?.token_response?).unwrap();
    Some(stored["access_token"].as_str()?.to_owned())
}

fn in_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens").join("sea.json");
    (folder, file)
}

/// A6: only the owner can read the tokens and their directory.
#[tokio::test]
async fn tokens_are_for_their_owner_alone() {
    let (_folder, file) = in_folder();
    let store = TokenStore::new(SERVER, Some(file.clone()));
    store.save(credentials("fresh")).await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
}

/// A login in another process takes effect at once.
#[tokio::test]
async fn what_another_process_writes_is_read() {
    let (_folder, file) = in_folder();
    let [here, there] = [(); 2].map(|()| TokenStore::new(SERVER, Some(file.clone())));
    assert_eq!(token(here.load().await.unwrap()), None);
    there.store_secret(Some("ours".to_owned())).unwrap();
    there.save(credentials("fresh")).await.unwrap();
    assert_eq!(token(here.load().await.unwrap()).as_deref(), Some("fresh"));
    assert_eq!(here.secret().unwrap().as_deref(), Some("ours"));
    assert_eq!(here.granted_scopes(), ["fish"]);
}

/// A token is used only for the server it was issued for, even if the label now names another
/// server.
#[tokio::test]
async fn tokens_of_another_server_are_not_used() {
    let (_folder, file) = in_folder();
    TokenStore::new(SERVER, Some(file.clone())).save(credentials("fresh")).await.unwrap();
    let other = TokenStore::new("https://evil.example/mcp", Some(file));
    assert_eq!(token(other.load().await.unwrap()), None);
}

/// The challenge is stored until the next login.
#[tokio::test]
async fn a_challenge_is_kept_until_the_next_login() {
    let store = TokenStore::new(SERVER, None);
    store.store_challenge("Bearer scope=\"fish\"");
    assert_eq!(store.challenge().as_deref(), Some("Bearer scope=\"fish\""));
    store.save(credentials("fresh")).await.unwrap();
    assert_eq!(store.challenge(), None);
}

/// Concurrent refreshes of the same token are serialized.
#[tokio::test]
async fn one_renews_at_a_time() {
    let (_folder, file) = in_folder();
    let [here, there] = [(); 2].map(|()| TokenStore::new(SERVER, Some(file.clone())));
    here.save(credentials("old")).await.unwrap();
    let first = here.acquire_refresh_guard().await.unwrap();
    assert!(first.is_some());
    let mut second = there.acquire_refresh_guard();
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert!(second.await.unwrap().is_some());
}

/// A12: an invalid file is not changed, and its content is not logged.
#[tokio::test]
async fn a_broken_file_is_an_error_without_its_content() {
    let (_folder, file) = in_folder();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{ \"credentials\": \"secret\" ").unwrap();
    let error = TokenStore::new(SERVER, Some(file)).load().await.unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

/// A12: whatever is stored or read is known to the redactor.
#[tokio::test]
async fn the_redactor_knows_every_token() {
    let (_folder, file) = in_folder();
    let redactor = std::sync::Arc::new(super::Redactor::default());
    let known = |text: &str| redactor.text(text) == "[secret]";
    let store = TokenStore::new(SERVER, Some(file.clone())).telling(&redactor);
    store.save(credentials("canary-stored")).await.unwrap();
    assert!(known("canary-stored"));
    store.store_secret(Some("canary-client".to_owned())).unwrap();
    assert!(known("canary-client"));
    // Another process logs in.
    let other = TokenStore::new(SERVER, Some(file));
    other.save(credentials("canary-of-another")).await.unwrap();
    assert!(!known("canary-of-another"));
    store.load().await.unwrap();
    assert!(known("canary-of-another"));
}
