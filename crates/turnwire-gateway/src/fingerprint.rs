//! Hashes of what clients send: fingerprints of requests, and IDs that follow from theirs.

use sha2::{Digest, Sha256};
use turnwire_contract::{ConversationId, TenantId};

/// Number of bytes of the hash in an ID.
const ID_BYTES: usize = 16;

/// SHA-256 of the parts, one after the other, in hexadecimal digits.
pub(crate) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

/// The conversation for the name that a client of a protocol gave it. The same name is the same
/// conversation, but no tenant and no other protocol gets to it.
pub(crate) fn conversation_id(protocol: &str, tenant: &TenantId, name: &str) -> ConversationId {
    // A line break separates the parts; neither a protocol nor a tenant has one.
    let hash = Sha256::digest(format!("{protocol}\n{tenant}\n{name}"));
    let (id, _) = hash.split_at(ID_BYTES);
    ConversationId::new(format!("conv_{}", hex::encode(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tenants whose clients use the same name have two conversations.
    #[test]
    fn a_name_is_one_conversation_per_tenant_and_protocol() {
        let id = |protocol: &str, tenant: &str, name: &str| {
            conversation_id(protocol, &TenantId::from(tenant), name)
        };
        assert_eq!(id("p", "a", "chat"), id("p", "a", "chat"));
        assert_ne!(id("p", "a", "chat"), id("p", "b", "chat"));
        assert_ne!(id("p", "a", "chat"), id("p", "a", "chat2"));
        assert_ne!(id("p", "a", "chat"), id("q", "a", "chat"));
        assert_eq!(id("p", "a", "chat").as_str().len(), "conv_".len() + 2 * ID_BYTES);
    }

    /// The hash is that of all bytes, whatever the parts.
    #[test]
    fn a_fingerprint_is_the_hash_of_all_parts() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint([]), empty);
        assert_eq!(fingerprint([&b"ab"[..], b"c"]), fingerprint([&b"abc"[..]]));
    }
}
