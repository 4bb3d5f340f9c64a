//! Tokens of an identity provider.

use std::{collections::BTreeSet, fmt};

use async_trait::async_trait;

use super::Scope;
use crate::{TenantId, Timestamp};

/// Who a token was made for, and what it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// Tenant whose data the token gives access to.
    pub tenant: TenantId,
    /// The person or program, by the name that the provider gives it.
    pub subject: String,
    /// What the token allows.
    pub scopes: BTreeSet<Scope>,
    /// Time after which the token is not valid.
    pub expires_at: Timestamp,
}

/// Why a token was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is not valid. The text says why, and nothing of the token.
    #[error("{0}")]
    Invalid(String),
    /// The provider cannot be asked for its keys.
    #[error("{0}")]
    Unavailable(String),
}

/// Verifies the tokens of an identity provider.
#[async_trait]
pub trait TokenVerifier: fmt::Debug + Send + Sync {
    /// Returns the holder of a token that is valid now: it was signed by the provider, for this
    /// server, and has not expired.
    async fn verify(&self, token: &str) -> Result<TokenHolder, TokenError>;
}
