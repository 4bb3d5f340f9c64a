//! Signatures of webhooks, as Standard Webhooks specifies them.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Fewest bytes of a secret. A shorter one can be guessed.
const MIN_BYTES: usize = 16;

/// Reads secrets with and without padding.
const READER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A secret that a receiver and this server share.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

/// A text that is not a secret. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is `whsec_` and at least {MIN_BYTES} bytes in base64")]
pub struct NotASecret;

impl SigningSecret {
    /// Parses `whsec_…`.
    pub fn parse(text: &str) -> Result<Self, NotASecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(NotASecret)?;
        let key = READER.decode(encoded).map_err(|_| NotASecret)?;
        if key.len() < MIN_BYTES { Err(NotASecret) } else { Ok(Self(key)) }
    }

    /// Signs a message: `v1,…`.
    fn sign(&self, id: &str, seconds: i64, body: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body.as_bytes());
        let signature = general_purpose::STANDARD.encode(mac.finalize().into_bytes());
        Some(format!("v1,{signature}"))
    }
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Signs a message with every secret, for a receiver that knows one of them.
pub(super) fn signatures(secrets: &[SigningSecret], id: &str, seconds: i64, body: &str) -> String {
    let signatures = secrets.iter().filter_map(|secret| secret.sign(id, seconds, body));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
