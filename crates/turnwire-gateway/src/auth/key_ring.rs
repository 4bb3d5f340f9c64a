//! The keys of the store, as this process knows them.
//!
//! A key that was used is remembered, so that a request does not wait for the store. While any is
//! remembered, a task asks for changes several times a second: a revoked or expired key then ends
//! everything that was opened with it, within a second (A16). If the store cannot be read, keys
//! that are remembered stay valid, because a revocation cannot be read either.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};
use turnwire_contract::{Actor, ApiKey, ApiKeys, StoreError, Timestamp};

use super::{Clock, api_key::is_well_formed, identity::Identity, in_use::InUse};
use crate::{admission::KeyDigest, sync::lock};

/// How often changes of keys are asked for.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How long an answer of the store is waited for meanwhile, before expired keys are ended.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// How far back changes are asked for, beyond the time since the last answer: a transaction that
/// began earlier may become visible later.
const OVERLAP: Duration = Duration::from_secs(10);
/// How often each key is read again, in case its change was missed: the clock of the database may
/// have been set, or this machine may have been asleep.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Maximum number of keys read again at a time.
const MAX_READ_AGAIN: usize = 20;
/// Maximum number of unknown keys that are looked up at the same time. Anybody can invent keys with
/// the right checksum, and the connections of the store are needed for other things.
const MAX_LOOKUPS: usize = 4;
/// How long the lookup of a key waits for others.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How much later than the stored last use of a key the next one is stored.
const NOTE_AFTER: Duration = Duration::from_mins(1);
/// How often a server that needs no key checks that this is still so.
const CHECK_OPEN_EVERY: Duration = Duration::from_secs(1);

/// The keys of a store.
pub(super) struct KeyRing {
    store: Arc<dyn ApiKeys>,
    clock: Clock,
    known: Mutex<Known>,
    tasks: TaskTracker,
    /// Cancelled when the store is seen to have a key.
    has_keys: CancellationToken,
    /// When the store was last seen to have none.
    checked: Mutex<Option<Instant>>,
    lookups: Semaphore,
    /// Whether last uses are being stored.
    is_noting: AtomicBool,
}

#[derive(Default)]
struct Known {
    keys: HashMap<KeyDigest, KnownKey>,
    /// Whether the task that watches them runs.
    is_watched: bool,
}

/// A key that was used.
struct KnownKey {
    record: ApiKey,
    in_use: InUse,
    /// Time of the last use that was stored, in microseconds.
    noted_at: AtomicI64,
    /// When it was read from the store.
    read: Instant,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing")
            .field("n_known", &lock(&self.known).keys.len())
            .finish_non_exhaustive()
    }
}

impl KeyRing {
    pub(super) fn new(store: Arc<dyn ApiKeys>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            known: Mutex::default(),
            tasks: TaskTracker::new(),
            has_keys: CancellationToken::new(),
            checked: Mutex::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            is_noting: AtomicBool::new(false),
        })
    }

    /// Cancelled when the store has a key: what is opened without one ends then.
    pub(super) fn has_keys_token(&self) -> CancellationToken {
        self.has_keys.child_token()
    }

    /// Whether the store was seen to have a key.
    pub(super) fn was_seen_with_keys(&self) -> bool {
        self.has_keys.is_cancelled()
    }

    /// Whether the store has a key. Asks it at most once a second. If it cannot be asked, the last
    /// answer counts; without one, the error.
    pub(super) async fn has_keys(&self) -> Result<bool, StoreError> {
        if self.was_seen_with_keys() {
            return Ok(true);
        }
        let checked = *lock(&self.checked);
        if checked.is_some_and(|at| at.elapsed() < CHECK_OPEN_EVERY) {
            return Ok(false);
        }
        match self.store.has_keys().await {
            Ok(true) => self.has_keys.cancel(),
            Ok(false) => *lock(&self.checked) = Some(Instant::now()),
            Err(_) if checked.is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(self.was_seen_with_keys())
    }

    /// The holder of the key `text`. `None` if there is no such key, or it is not valid.
    pub(super) async fn identify(
        self: &Arc<Self>,
        text: &str,
    ) -> Result<Option<Identity>, StoreError> {
        if !is_well_formed(text) {
            return Ok(None);
        }
        let digest = KeyDigest::of(text);
        let identity = self.identity(digest);
        if identity.is_some() {
            return Ok(identity);
        }
        let busy = |_| StoreError::Unavailable("too many unknown keys are looked up".to_owned());
        let permit = timeout(LOOKUP_TIMEOUT, self.lookups.acquire()).await.map_err(busy)?;
        let found = self.store.find_key(&digest.hex()).await?;
        drop(permit);
        let Some(record) = found.filter(|record| record.is_valid_at((self.clock)())) else {
            return Ok(None);
        };
        self.has_keys.cancel();
        self.remember(digest, record);
        Ok(self.identity(digest))
    }

    /// The holder of a key that is remembered and valid.
    fn identity(&self, digest: KeyDigest) -> Option<Identity> {
        let now = (self.clock)();
        let known = lock(&self.known);
        let key = known.keys.get(&digest).filter(|key| key.record.is_valid_at(now))?;
        let ApiKey { key_id, tenant, project, scopes, expires_at, .. } = &key.record;
        Some(Identity {
            tenant: tenant.clone(),
            key: Some(digest),
            actor: Some(Arc::new(Actor {
                key_id: Some(key_id.clone()),
                project: project.clone(),
                subject: None,
            })),
            scopes: scopes.clone(),
            expires_at: *expires_at,
            validity: Some(key.in_use.begin(now)),
        })
    }

    fn remember(self: &Arc<Self>, digest: KeyDigest, record: ApiKey) {
        let noted_at = record.last_used_at.map_or(0, Timestamp::as_micros);
        let key = KnownKey {
            record,
            in_use: InUse::new((self.clock)()),
            noted_at: AtomicI64::new(noted_at),
            read: Instant::now(),
        };
        let mut known = lock(&self.known);
        known.keys.entry(digest).or_insert(key);
        if !known.is_watched {
            known.is_watched = true;
            // Ends with the ring, so nothing waits for it.
            self.tasks.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Applies the changes of the last time. Returns whether the store could be asked.
    async fn look(&self, since: Duration) -> bool {
        let changed = match self.store.changed_keys(since).await {
            Ok(changed) => changed,
            Err(error) => {
                debug!(%error, "changes of API keys unknown");
                return false;
            }
        };
        for record in changed {
            if let Some(digest) = KeyDigest::from_hex(&record.digest) {
                self.update(digest, Some(record));
            }
        }
        true
    }

    /// Reads keys again whose last reading was long ago.
    async fn read_again(&self) {
        let is_old = |key: &KnownKey| key.read.elapsed() >= READ_AGAIN_AFTER;
        let old: Vec<KeyDigest> = {
            let known = lock(&self.known);
            let old = known.keys.iter().filter(|(_, key)| is_old(key));
            old.map(|(digest, _)| *digest).take(MAX_READ_AGAIN).collect()
        };
        for digest in old {
            let Ok(found) = self.store.find_key(&digest.hex()).await else { return };
            self.update(digest, found);
        }
    }

    /// Takes over what the store has of a key. What is open with it ends if the key does.
    fn update(&self, digest: KeyDigest, found: Option<ApiKey>) {
        let now = (self.clock)();
        let mut known = lock(&self.known);
        let Some(key) = known.keys.get_mut(&digest) else { return };
        if let Some(record) = found.filter(|record| record.is_valid_at(now)) {
            key.record = record;
            key.read = Instant::now();
        } else {
            key.in_use.end();
            known.keys.remove(&digest);
        }
    }

    /// Ends keys that expired, and forgets keys that are not used. Returns whether any is left.
    fn tidy(&self) -> bool {
        let now = (self.clock)();
        let mut known = lock(&self.known);
        known.keys.retain(|_, key| {
            let is_valid = key.record.is_valid_at(now);
            if !is_valid {
                key.in_use.end();
            }
            is_valid && !key.in_use.is_idle(now)
        });
        known.is_watched = !known.keys.is_empty();
        known.is_watched
    }

    /// Stores the last uses of keys, in the background: others may wait for the same rows.
    fn note_uses(self: &Arc<Self>) {
        if self.is_noting.load(Ordering::Relaxed) {
            return;
        }
        let mut used: Vec<(String, Timestamp)> =
            lock(&self.known).keys.values().filter_map(KnownKey::use_to_note).collect();
        if used.is_empty() {
            return;
        }
        used.sort();
        self.is_noting.store(true, Ordering::Relaxed);
        let ring = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = ring.store.note_uses(&used).await {
                warn!(%error, "last uses of API keys not stored");
            }
            ring.is_noting.store(false, Ordering::Relaxed);
        });
    }
}

impl KnownKey {
    /// The last use, if it is to be stored.
    fn use_to_note(&self) -> Option<(String, Timestamp)> {
        let used_at = self.in_use.used_at();
        let noted_at = Timestamp::from_micros(self.noted_at.load(Ordering::Relaxed));
        if used_at.since(noted_at) < NOTE_AFTER {
            return None;
        }
        self.noted_at.store(used_at.as_micros(), Ordering::Relaxed);
        Some((self.record.key_id.clone(), used_at))
    }
}

/// Looks for changes until no key is remembered.
async fn watch(ring: Weak<KeyRing>) {
    let mut answered = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let Some(ring) = ring.upgrade() else { return };
        let began = Instant::now();
        let look = ring.look(answered.elapsed() + OVERLAP);
        if timeout(LOOK_TIMEOUT, look).await.unwrap_or(false) {
            answered = began;
            let _ = timeout(LOOK_TIMEOUT, ring.read_again()).await;
        }
        ring.note_uses();
        if !ring.tidy() {
            return;
        }
    }
}
