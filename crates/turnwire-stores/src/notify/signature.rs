//! Signatures of what is in Redis, because other clients may be able to write there.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a signature.
const LENGTH: usize = 32;

/// A secret shared by all workers on a database.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps the secret stored in the database.
    pub(crate) fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Returns an id of the database that does not reveal the secret.
    pub(crate) fn database(&self) -> String {
        let digest = format!("{:x}", Sha256::digest(format!("the name of {}", self.0)));
        digest.chars().take(16).collect()
    }

    /// Returns `body` prefixed with a signature that holds under this name alone.
    pub(crate) fn sign(&self, name: &str, body: &[u8]) -> Vec<u8> {
        let signature = self.mac(name, body).map(|mac| mac.finalize().into_bytes());
        let mut signed = Vec::with_capacity(LENGTH + body.len());
        signed.extend_from_slice(signature.as_deref().unwrap_or_default());
        signed.extend_from_slice(body);
        signed
    }

    /// Returns the body if its signature is valid.
    pub(crate) fn check<'a>(&self, name: &str, signed: &'a [u8]) -> Option<&'a [u8]> {
        let (signature, body) = signed.split_at_checked(LENGTH)?;
        self.mac(name, body)?.verify_slice(signature).ok()?;
        Some(body)
    }

    /// Like [`sign`](Self::sign), with the signature behind the body: what is signed so sorts as
    /// the bodies do, if none is the beginning of another.
    pub(crate) fn sign_behind(&self, name: &str, body: &[u8]) -> Vec<u8> {
        let mut signed = self.sign(name, body);
        let length = signed.len() - body.len();
        signed.rotate_left(length);
        signed
    }

    /// Returns the body in front of its signature, if that is valid.
    pub(crate) fn check_behind<'a>(&self, name: &str, signed: &'a [u8]) -> Option<&'a [u8]> {
        let (body, signature) = signed.split_at_checked(signed.len().checked_sub(LENGTH)?)?;
        self.mac(name, body)?.verify_slice(signature).ok()?;
        Some(body)
    }

    fn mac(&self, name: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac.update(body);
        Some(mac)
    }
}
