//! The data key of a tenant, and the format of the values that it encrypts.
//!
//! A text becomes `~1:`, the ID of the key, `:`, the nonce and the ciphertext in base64. JSON does
//! not begin with `~`, so a column of JSON says by itself whether it is encrypted. Bytes begin with
//! one that UTF-8 never has. The column and row of a value are the associated data of its
//! encryption (AEAD): a ciphertext that was moved to another row, column or tenant is refused.

use std::fmt;

use base64::Engine;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce, aead::AeadInOut};
use sha2::{Digest, Sha256};
use turnwire_contract::{BlobId, ConversationId, FileId, RunId, TenantId};
use zeroize::Zeroizing;

use crate::{
    database::{DatabaseError, Result},
    secret_box::{BASE64, KEY_LENGTH, NONCE_LENGTH, random},
};

/// Begins every encrypted text. Another format gets another number.
const MARKER: &str = "~1:";
/// A pattern of SQL for encrypted texts, and texts that only look so.
pub(crate) const SEALED: &str = "~1:%";
/// Begins encrypted bytes, before the marker. No text in UTF-8 has this byte.
const NOT_TEXT: u8 = 0xff;
/// Length of the ID of a key.
const ID_LENGTH: usize = 8;
/// Length of a nonce in base64.
const NONCE_LETTERS: usize = NONCE_LENGTH / 3 * 4;
/// Length of what is in front of a nonce.
const HEADER_LENGTH: usize = MARKER.len() + ID_LENGTH + 1;
/// Length of the proof at the end of a ciphertext.
const TAG_LENGTH: usize = 16;

/// What the keys are used for.
const PURPOSE: &str = "turnwire stored values 1";

/// The keys of list IDs are derived from them for this purpose.
const LIST_IDS: &str = "turnwire input list ids 1";

/// Where a value is stored: the associated data of its encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    column: &'static str,
    row: &'a str,
    part: i64,
}

impl<'a> Place<'a> {
    /// The events of a run from `first_seq` on.
    pub(crate) fn events(run_id: &'a RunId, first_seq: i64) -> Self {
        Self { column: "run_events.body", row: run_id.as_str(), part: first_seq }
    }

    pub(crate) fn request(run_id: &'a RunId) -> Self {
        Self { column: "runs.request", row: run_id.as_str(), part: 0 }
    }

    pub(crate) fn input_text(run_id: &'a RunId) -> Self {
        Self { column: "runs.input_text", row: run_id.as_str(), part: 0 }
    }

    /// An entry by the ID in its row. Its run and its conversation can be deleted without it.
    pub(crate) fn entry(id: &'a str) -> Self {
        Self { column: "entries.entry", row: id, part: 0 }
    }

    pub(crate) fn metadata(id: &'a ConversationId) -> Self {
        Self { column: "conversations.metadata", row: id.as_str(), part: 0 }
    }

    pub(crate) fn command(run_id: &'a RunId) -> Self {
        Self { column: "commands.command", row: run_id.as_str(), part: 0 }
    }

    pub(crate) fn blob(id: &'a BlobId) -> Self {
        Self { column: "blobs.body", row: id.as_str(), part: 0 }
    }

    /// A slice of a file.
    pub(crate) fn slice(file_id: &'a FileId, place: i64) -> Self {
        Self { column: "file_slices.body", row: file_id.as_str(), part: place }
    }

    pub(crate) fn input_list(id: &'a str) -> Self {
        Self { column: "input_lists.item", row: id, part: 0 }
    }

    pub(crate) fn catalogue(id: &'a str) -> Self {
        Self { column: "catalogues.tools", row: id, part: 0 }
    }

    /// Returns what is authenticated together with a value. Lengths keep two places apart whose
    /// parts are the same text.
    fn bound_to(self, tenant: &TenantId) -> Vec<u8> {
        let texts = [PURPOSE, tenant.as_str(), self.column, self.row];
        let mut bytes = Vec::with_capacity(160);
        for text in texts {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(&self.part.to_be_bytes());
        bytes
    }
}

/// A key of one tenant.
pub(crate) struct DataKey {
    tenant: TenantId,
    id: String,
    key: Zeroizing<[u8; KEY_LENGTH]>,
}

impl DataKey {
    pub(crate) fn new(tenant: &TenantId, id: &str, key: Zeroizing<[u8; KEY_LENGTH]>) -> Self {
        Self { tenant: tenant.clone(), id: id.to_owned(), key }
    }

    /// Returns the ID of a new key.
    pub(super) fn new_id() -> Result<String> {
        Ok(hex::encode(*random::<{ ID_LENGTH / 2 }>().map_err(no_randomness)?))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key of the hash that is the ID of an input list.
    pub(crate) fn for_list_ids(&self) -> Zeroizing<[u8; KEY_LENGTH]> {
        let mut hash = Sha256::new();
        hash.update(LIST_IDS);
        hash.update(*self.key);
        Zeroizing::new(hash.finalize().into())
    }

    /// Encrypts a text that is stored at `place`.
    pub(crate) fn seal(&self, place: Place<'_>, text: &mut String) -> Result<()> {
        let (nonce, sealed) = self.encrypt(place, std::mem::take(text).into_bytes())?;
        text.reserve(HEADER_LENGTH + NONCE_LETTERS + sealed.len() / 3 * 4 + 4);
        text.push_str(MARKER);
        text.push_str(&self.id);
        text.push(':');
        BASE64.encode_string(nonce, text);
        BASE64.encode_string(sealed, text);
        Ok(())
    }

    /// Encrypts bytes that are stored at `place`.
    pub(crate) fn seal_bytes(&self, place: Place<'_>, bytes: &[u8]) -> Result<Vec<u8>> {
        let (nonce, sealed) = self.encrypt(place, bytes.to_vec())?;
        let header = [&[NOT_TEXT], MARKER.as_bytes(), self.id.as_bytes(), b":"].concat();
        Ok([&header, &nonce[..], &sealed].concat())
    }

    fn encrypt(
        &self,
        place: Place<'_>,
        mut bytes: Vec<u8>,
    ) -> Result<([u8; NONCE_LENGTH], Vec<u8>)> {
        let nonce = *random::<NONCE_LENGTH>().map_err(no_randomness)?;
        let bound_to = place.bound_to(&self.tenant);
        bytes.reserve(TAG_LENGTH);
        let done = self.cipher().encrypt_in_place(&XNonce::from(nonce), &bound_to, &mut bytes);
        done.map_err(|error| DatabaseError::InvalidValue(error.to_string()))?;
        Ok((nonce, bytes))
    }

    /// Decrypts the text at `place`. `None` if it was changed or belongs elsewhere.
    pub(super) fn open(&self, place: Place<'_>, sealed: &SealedText<'_>) -> Option<String> {
        let (nonce, rest) = sealed.rest.split_at_checked(NONCE_LETTERS)?;
        let nonce = BASE64.decode(nonce).ok()?;
        let bytes = BASE64.decode(rest).ok()?;
        String::from_utf8(self.decrypt(place, nonce.try_into().ok()?, bytes)?).ok()
    }

    /// The same for bytes.
    pub(super) fn open_bytes(&self, place: Place<'_>, sealed: &SealedBytes<'_>) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.rest.split_first_chunk::<NONCE_LENGTH>()?;
        self.decrypt(place, *nonce, rest.to_vec())
    }

    fn decrypt(
        &self,
        place: Place<'_>,
        nonce: [u8; NONCE_LENGTH],
        mut bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let bound_to = place.bound_to(&self.tenant);
        self.cipher().decrypt_in_place(&XNonce::from(nonce), &bound_to, &mut bytes).ok()?;
        Some(bytes)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key).into())
    }
}

impl fmt::Debug for DataKey {
    /// Prints the ID, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A text that looks encrypted.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealedText<'a> {
    pub(super) key_id: &'a str,
    rest: &'a str,
}

impl<'a> SealedText<'a> {
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let (key_id, rest) = text.strip_prefix(MARKER)?.split_at_checked(ID_LENGTH)?;
        let is_id = key_id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let rest = rest.strip_prefix(':').filter(|_| is_id)?;
        Some(Self { key_id, rest })
    }

    /// Whether a nonce and a ciphertext follow.
    pub(super) fn is_whole(&self) -> bool {
        let ciphertext = self.rest.get(NONCE_LETTERS..).map(|rest| BASE64.decode(rest));
        ciphertext.is_some_and(|bytes| bytes.is_ok_and(|bytes| bytes.len() >= TAG_LENGTH))
    }
}

/// Bytes that look encrypted.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealedBytes<'a> {
    pub(super) key_id: &'a str,
    rest: &'a [u8],
}

impl<'a> SealedBytes<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.strip_prefix(&[NOT_TEXT])?.split_at_checked(HEADER_LENGTH)?;
        let key_id = SealedText::of(std::str::from_utf8(header).ok()?)?.key_id;
        Some(Self { key_id, rest })
    }
}

fn no_randomness(error: getrandom::Error) -> DatabaseError {
    DatabaseError::Unavailable(format!("there are no random numbers: {error}"))
}

#[cfg(test)]
#[path = "data_key_tests.rs"]
mod tests;
