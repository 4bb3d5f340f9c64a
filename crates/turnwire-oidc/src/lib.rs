//! Verifies the tokens of an `OpenID` Connect provider.
//!
//! The provider is known by its issuer alone: where its keys are is discovered, and keys are
//! fetched when they are needed and again while they are used (`keys`), so that a provider can
//! rotate them. What a valid token means to Turnwire is up to the operator: which claim has the
//! tenant, and which one the scopes (`claims`).
//!
//! Signature and times are checked by `jsonwebtoken`. Only algorithms with a public key are
//! accepted.

#![warn(missing_docs)]

mod claims;
mod keys;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jsonwebtoken::{
    Algorithm, Validation, decode, decode_header,
    errors::{Error, ErrorKind},
};
use serde_json::{Map, Value};
use turnwire_contract::{TokenError, TokenHolder, TokenVerifier};

pub use self::claims::ClaimRules;
use self::keys::ProviderKeys;

/// By how much clocks may differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// Accepted algorithms: those with a public key, so that whoever can verify cannot sign.
const OTHERS: [Algorithm; 3] = [Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];
const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Whose tokens are accepted, and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcOptions {
    /// The provider, exactly as it names itself in its tokens, such as
    /// `https://login.example.com/realms/staff`.
    pub issuer: String,
    /// Audiences whose tokens are accepted: the name of this server at the provider.
    pub audiences: Vec<String>,
    /// What claims mean.
    pub claims: ClaimRules,
}

/// Verifies the tokens of one provider.
#[derive(Debug)]
pub struct Oidc {
    options: OidcOptions,
    keys: Arc<ProviderKeys>,
}

impl Oidc {
    /// Prepares to verify tokens. The provider is asked when the first one comes, so a server
    /// starts without it.
    pub fn new(options: OidcOptions) -> Result<Self, reqwest::Error> {
        let keys = ProviderKeys::new(&options.issuer)?;
        Ok(Self { options, keys })
    }

    /// Asks the provider for its keys, and returns how many there are that can verify a token.
    pub async fn check(&self) -> Result<usize, String> {
        Ok(self.keys.fetch().await?.len())
    }

    fn rules(&self, algorithm: Algorithm) -> Validation {
        let mut rules = Validation::new(algorithm);
        rules.leeway = LEEWAY.as_secs();
        rules.validate_nbf = true;
        rules.set_issuer(&[&self.options.issuer]);
        rules.set_audience(&self.options.audiences);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        rules
    }
}

#[async_trait]
impl TokenVerifier for Oidc {
    async fn verify(&self, token: &str) -> Result<TokenHolder, TokenError> {
        let header = decode_header(token).map_err(|error| invalid(&error))?;
        if !RSA.contains(&header.alg) && !OTHERS.contains(&header.alg) {
            return Err(TokenError::Invalid("it is not signed with a public key".to_owned()));
        }
        // Nobody who checks a token knows extensions that a token says must be known (RFC 7515).
        if header.crit.is_some() {
            return Err(TokenError::Invalid("it needs an unknown extension".to_owned()));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let rules = self.rules(header.alg);
        let claims = decode::<Map<String, Value>>(token, &key, &rules)
            .map_err(|error| invalid(&error))?
            .claims;
        self.options.claims.holder(&claims, LEEWAY).map_err(TokenError::Invalid)
    }
}

/// Says why a token is not valid. Nothing of the token is in it.
fn invalid(error: &Error) -> TokenError {
    let why = match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAlgorithm => "its algorithm is not that of the key",
        ErrorKind::MissingRequiredClaim(claim) => {
            return TokenError::Invalid(format!("the claim `{claim}` is missing"));
        }
        _ => "it is not a signed JSON web token",
    };
    TokenError::Invalid(why.to_owned())
}
