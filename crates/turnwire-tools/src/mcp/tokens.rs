//! Storage of tokens and of the client they were issued to.
//!
//! The tokens are in a file readable only by its owner, or in memory. The file is read for every
//! request, so that a login in another process takes effect at once, and processes can share the
//! file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::redactor::Redactor;
use crate::sync::lock;

/// Maximum time to wait for another process that refreshes the same tokens.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The stored login to one server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredLogin {
    /// URL of the server. Its tokens are not used for any other server.
    server: String,
    /// Client secret, if the authorization server issued one.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// The tokens and the client they were issued to.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<StoredCredentials>,
}

/// The tokens for one server. Clones share the same store.
#[derive(Clone)]
pub(super) struct TokenStore {
    server: Arc<str>,
    storage: Arc<Storage>,
    /// Is told every token, so that none is repeated.
    redactor: Option<Arc<Redactor>>,
}

enum Storage {
    File(PathBuf),
    Memory(Box<Mutex<InMemory>>),
}

#[derive(Default)]
struct InMemory {
    stored: StoredLogin,
    challenge: Option<String>,
}

impl TokenStore {
    /// The tokens for `server`, in `file` or in memory.
    pub(super) fn new(server: &str, file: Option<PathBuf>) -> Self {
        let storage = file.map_or_else(|| Storage::Memory(Box::default()), Storage::File);
        Self { server: server.into(), storage: Arc::new(storage), redactor: None }
    }

    /// Tells `redactor` every token.
    pub(super) fn telling(self, redactor: &Arc<Redactor>) -> Self {
        Self { redactor: Some(Arc::clone(redactor)), ..self }
    }

    /// Stores the client secret issued by the authorization server.
    pub(super) fn store_secret(&self, secret: Option<String>) -> io::Result<()> {
        self.change(|stored| stored.client_secret = secret)
    }

    /// Returns the client secret issued by the authorization server.
    pub(super) fn secret(&self) -> io::Result<Option<String>> {
        Ok(self.read()?.client_secret)
    }

    /// Stores the challenge of the server, which contains the scopes for the next login. Stored in
    /// a separate file, so that writing it cannot overwrite newer tokens.
    pub(super) fn store_challenge(&self, challenge: &str) {
        match &*self.storage {
            Storage::File(path) => {
                let stored = write(&with_suffix(path, "challenge"), challenge.as_bytes());
                stored.unwrap_or_else(|error| {
                    warn!(%error, "OAuth state not stored");
                });
            }
            Storage::Memory(memory) => lock(memory).challenge = Some(challenge.to_owned()),
        }
    }

    /// Returns the challenge since the last login.
    pub(super) fn challenge(&self) -> Option<String> {
        match &*self.storage {
            Storage::File(path) => fs::read_to_string(with_suffix(path, "challenge")).ok(),
            Storage::Memory(memory) => lock(memory).challenge.clone(),
        }
    }

    fn clear_challenge(&self) {
        match &*self.storage {
            // A missing file is not an error.
            Storage::File(path) => drop(fs::remove_file(with_suffix(path, "challenge"))),
            Storage::Memory(memory) => lock(memory).challenge = None,
        }
    }

    pub(super) fn granted_scopes(&self) -> Vec<String> {
        let credentials = self.read().ok().and_then(|stored| stored.credentials);
        credentials.map(|credentials| credentials.granted_scopes).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut StoredLogin)) -> io::Result<()> {
        let mut stored = self.read()?;
        change(&mut stored);
        self.server.as_ref().clone_into(&mut stored.server);
        self.tell(&stored);
        match &*self.storage {
            Storage::File(path) => write(path, &serde_json::to_vec_pretty(&stored)?),
            Storage::Memory(memory) => {
                lock(memory).stored = stored;
                Ok(())
            }
        }
    }

    /// Returns the stored login; empty if it is for another server.
    fn read(&self) -> io::Result<StoredLogin> {
        let stored = match &*self.storage {
            Storage::File(path) => read(path)?,
            Storage::Memory(memory) => lock(memory).stored.clone(),
        };
        if *stored.server != *self.server {
            return Ok(StoredLogin::default());
        }
        self.tell(&stored);
        Ok(stored)
    }

    fn tell(&self, stored: &StoredLogin) {
        let Some(redactor) = &self.redactor else { return };
        let credentials = stored.credentials.as_ref();
        let tokens = credentials.and_then(|credentials| credentials.token_response.as_ref());
        // The JSON response of the authorization server.
        let tokens = tokens.and_then(|tokens| serde_json::to_value(tokens).ok());
        let tokens = tokens.unwrap_or_default();
        let tokens = ["access_token", "refresh_token", "id_token"]
            .into_iter()
            .filter_map(|name| tokens.get(name)?.as_str());
        for secret in tokens.chain(stored.client_secret.as_deref()) {
            redactor.learn(secret);
        }
    }
}

fn read(path: &Path) -> io::Result<StoredLogin> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoredLogin::default()),
        text => text?,
    };
    // The error would contain the content of the file.
    let unreadable = "the file does not contain tokens of Turnwire";
    serde_json::from_slice(&text).map_err(|_| io::Error::other(unreadable))
}

/// Writes the file atomically. It is never readable by others.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = with_suffix(path, "draft");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(draft, path)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

#[async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read().map_err(store_error)?.credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.change(|stored| stored.credentials = Some(credentials)).map_err(store_error)?;
        self.clear_challenge();
        Ok(())
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.change(|stored| stored.credentials = None).map_err(store_error)
    }

    /// A refresh token can often be used only once, so one process at a time uses it.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Storage::File(path) = &*self.storage else { return Ok(None) };
        let path = with_suffix(path, "lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let until = Instant::now() + LOCK_TIMEOUT;
        let file: File = options.open(&path).map_err(store_error)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(file))),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    sleep(LOCK_POLL_INTERVAL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let late = io::Error::other("another process has locked them for too long");
                    return Err(store_error(late));
                }
                Err(TryLockError::Error(error)) => return Err(store_error(error)),
            }
        }
    }
}

fn store_error(error: io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
