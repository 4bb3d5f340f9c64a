//! What is kept of a login: tokens, and who they were given to.
//!
//! In a file that only its owner can read, or in memory. The file is read for every request:
//! whoever logs in with another process is heard at once, and gateways that share the file share
//! its tokens.

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

use crate::sync::lock;

/// How long to wait for another process that renews the same tokens.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look whether it is done.
const NEXT_LOOK: Duration = Duration::from_millis(20);

/// What is kept of the login to one server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    /// The address of the server: its tokens are for nobody else.
    server: String,
    /// What proves who we are, if the authorization server has given us a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// The tokens, and the client they were given to.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<StoredCredentials>,
}

/// The tokens for one server. Clones are the same.
#[derive(Clone)]
pub(super) struct TokenStore {
    server: Arc<str>,
    place: Arc<Place>,
}

enum Place {
    File(PathBuf),
    Memory(Box<Mutex<InMemory>>),
}

#[derive(Default)]
struct InMemory {
    kept: Kept,
    challenge: Option<String>,
}

impl TokenStore {
    /// The tokens for `server`, in `file` or in memory.
    pub(super) fn new(server: &str, file: Option<PathBuf>) -> Self {
        let place = file.map_or_else(|| Place::Memory(Box::default()), Place::File);
        Self { server: server.into(), place: Arc::new(place) }
    }

    /// Remembers the secret that the authorization server has given us.
    pub(super) fn keep_secret(&self, secret: Option<String>) -> io::Result<()> {
        self.change(|kept| kept.client_secret = secret)
    }

    /// The secret that the authorization server has given us.
    pub(super) fn secret(&self) -> io::Result<Option<String>> {
        Ok(self.read()?.client_secret)
    }

    /// Remembers how the server has refused us: that says what the next login has to ask for.
    /// Beside the tokens, so that whoever writes it cannot lose newer ones.
    pub(super) fn keep_challenge(&self, challenge: &str) {
        match &*self.place {
            Place::File(path) => {
                let kept = write(&beside(path, "challenge"), challenge.as_bytes());
                kept.unwrap_or_else(|error| {
                    warn!(%error, "OAuth state not stored");
                });
            }
            Place::Memory(memory) => lock(memory).challenge = Some(challenge.to_owned()),
        }
    }

    /// How the server has refused us since the last login.
    pub(super) fn challenge(&self) -> Option<String> {
        match &*self.place {
            Place::File(path) => fs::read_to_string(beside(path, "challenge")).ok(),
            Place::Memory(memory) => lock(memory).challenge.clone(),
        }
    }

    fn forget_challenge(&self) {
        match &*self.place {
            // One that is not there is forgotten already.
            Place::File(path) => drop(fs::remove_file(beside(path, "challenge"))),
            Place::Memory(memory) => lock(memory).challenge = None,
        }
    }

    /// What we have been allowed.
    pub(super) fn granted_scopes(&self) -> Vec<String> {
        let credentials = self.read().ok().and_then(|kept| kept.credentials);
        credentials.map(|credentials| credentials.granted_scopes).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) -> io::Result<()> {
        let mut kept = self.read()?;
        change(&mut kept);
        self.server.as_ref().clone_into(&mut kept.server);
        match &*self.place {
            Place::File(path) => write(path, &serde_json::to_vec_pretty(&kept)?),
            Place::Memory(memory) => {
                lock(memory).kept = kept;
                Ok(())
            }
        }
    }

    /// What is kept; nothing if it is for another server.
    fn read(&self) -> io::Result<Kept> {
        let kept = match &*self.place {
            Place::File(path) => read(path)?,
            Place::Memory(memory) => lock(memory).kept.clone(),
        };
        Ok(if *kept.server == *self.server { kept } else { Kept::default() })
    }
}

fn read(path: &Path) -> io::Result<Kept> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        text => text?,
    };
    // The cause would quote the file.
    serde_json::from_slice(&text).map_err(|_| io::Error::other("it is not ours"))
}

/// Writes the whole file or nothing, readable by its owner alone from the first byte on.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = beside(path, "draft");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(draft, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read().map_err(not_kept)?.credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.change(|kept| kept.credentials = Some(credentials)).map_err(not_kept)?;
        self.forget_challenge();
        Ok(())
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.change(|kept| kept.credentials = None).map_err(not_kept)
    }

    /// A token that renews others is often good for one time only, so one process at a time uses
    /// it.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Place::File(path) = &*self.place else { return Ok(None) };
        let path = beside(path, "lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let until = Instant::now() + PATIENCE;
        let file: File = options.open(&path).map_err(not_kept)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(file))),
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(NEXT_LOOK).await,
                Err(TryLockError::WouldBlock) => {
                    let late = io::Error::other("another process holds them for too long");
                    return Err(not_kept(late));
                }
                Err(TryLockError::Error(error)) => return Err(not_kept(error)),
            }
        }
    }
}

fn not_kept(error: io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
