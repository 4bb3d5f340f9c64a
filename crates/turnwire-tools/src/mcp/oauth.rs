//! OAuth: the parts shared by logins and connections, and the client credentials grant.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, ClientCredentialsConfig, CredentialRefreshGuard,
    CredentialStore, JwtSigningAlgorithm, OAuthClientConfig, StoredCredentials,
};
use tokio::{runtime::Handle, task::spawn_blocking};
use tracing::warn;

use super::{
    http::HttpClient,
    options::{Grant, OAuthOptions, SigningAlgorithm},
    redactor::Redactor,
    tokens::TokenStore,
};
use crate::secret::Secret;

use turnwire_contract::partial_debug;

type Result<T, E = AuthError> = std::result::Result<T, E>;

/// Minimum remaining lifetime of a token that is used.
const MIN_LIFETIME: Duration = Duration::from_secs(30);

/// Placeholder for the redirect URI, which is not used once there are tokens.
const UNUSED_REDIRECT_URI: &str = "http://127.0.0.1/callback";

/// The tokens for one server, and the settings to get them.
#[derive(Clone)]
pub(super) struct Authorization {
    url: String,
    options: OAuthOptions,
    pub(super) tokens: TokenStore,
    redactor: Arc<Redactor>,
}

impl Authorization {
    pub(super) fn new(url: &str, options: &OAuthOptions, redactor: &Arc<Redactor>) -> Self {
        let tokens = TokenStore::new(url, options.token_file.clone()).telling(redactor);
        let (url, options) = (url.to_owned(), options.clone());
        Self { url, options, tokens, redactor: Arc::clone(redactor) }
    }

    pub(super) fn options(&self) -> &OAuthOptions {
        &self.options
    }

    /// Whether a person has to log in if there are no tokens.
    pub(super) fn needs_login(&self) -> bool {
        self.options.grant == Grant::AuthorizationCode
    }

    /// Returns an HTTP client that sends and refreshes tokens.
    pub(super) async fn client(&self, http: HttpClient) -> Result<AuthClient<HttpClient>> {
        let manager = match &self.options.grant {
            Grant::AuthorizationCode => self.with_stored_login().await?,
            Grant::ClientCredentials | Grant::ClientCredentialsWithKey { .. } => {
                let mut manager = self.manager().await?;
                manager.set_credential_store(ClientCredentialsTokens::new(self.clone()));
                manager
            }
        };
        Ok(AuthClient::new(http, manager))
    }

    /// Uses the tokens of the last login. Without them the server is contacted anyway, because its
    /// challenge contains the required scopes.
    async fn with_stored_login(&self) -> Result<AuthorizationManager> {
        let mut manager = self.manager().await?;
        manager.set_credential_store(self.tokens.clone());
        match manager.initialize_from_store().await {
            Ok(true) => self.configure_stored_client(&mut manager).await?,
            Ok(false) => {}
            // The token may still be valid while the authorization server is unavailable.
            Err(error) => {
                let error = self.redactor.error(&error);
                warn!(%error, "authorization server unavailable");
            }
        }
        Ok(manager)
    }

    /// Configures the client ID and secret of the last login.
    async fn configure_stored_client(&self, manager: &mut AuthorizationManager) -> Result<()> {
        let stored = self.tokens.load().await?;
        let Some(client_id) = stored.map(|stored| stored.client_id) else { return Ok(()) };
        let ours = self.options.client_id.as_deref() == Some(client_id.as_str());
        let secret = match &self.options.client_secret {
            Some(secret) if ours => Some(secret.reveal().to_owned()),
            _ => {
                self.tokens.secret().map_err(|e| AuthError::CredentialStoreError(e.to_string()))?
            }
        };
        let client = OAuthClientConfig::new(client_id, UNUSED_REDIRECT_URI);
        manager.configure_client(match secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        })
    }

    /// Creates a manager for the authorization server.
    pub(super) async fn manager(&self) -> Result<AuthorizationManager> {
        if self.options.private_addresses {
            AuthorizationManager::new_allowing_private_addresses(&self.url).await
        } else {
            AuthorizationManager::new(&self.url).await
        }
    }

    /// Gets a token with the client credentials grant.
    ///
    /// Runs on a separate thread, because the future of the protocol library is not `Send`.
    async fn request_token(&self) -> Result<StoredCredentials> {
        let (authorization, runtime) = (self.clone(), Handle::current());
        let exchange = move || runtime.block_on(authorization.exchange());
        let token = spawn_blocking(exchange).await;
        token.unwrap_or_else(|crash| Err(AuthError::InternalError(crash.to_string())))
    }

    async fn exchange(&self) -> Result<StoredCredentials> {
        let mut manager = self.manager().await?;
        manager.set_credential_store(self.tokens.clone());
        let challenge = self.tokens.challenge();
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        manager.set_metadata(found.metadata);
        let scopes = match self.options.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            scopes => scopes.to_vec(),
        };
        let credentials = self.client_credentials(scopes)?;
        manager.validate_client_credentials_metadata(&credentials)?;
        manager.configure_client_credentials(&credentials)?;
        manager.exchange_client_credentials(&credentials).await?;
        self.tokens.load().await?.ok_or(AuthError::AuthorizationRequired)
    }

    fn client_credentials(&self, scopes: Vec<String>) -> Result<ClientCredentialsConfig> {
        let missing = |what: &str| AuthError::ClientCredentialsError(format!("{what} is not set"));
        let client_id = self.options.client_id.clone().ok_or_else(|| missing("the client's id"))?;
        let resource = Some(self.url.clone());
        Ok(match &self.options.grant {
            Grant::ClientCredentialsWithKey { key, algorithm } => {
                ClientCredentialsConfig::PrivateKeyJwt {
                    client_id,
                    signing_key: key.reveal().as_bytes().to_vec(),
                    signing_algorithm: match algorithm {
                        SigningAlgorithm::Rs256 => JwtSigningAlgorithm::RS256,
                        SigningAlgorithm::Es256 => JwtSigningAlgorithm::ES256,
                    },
                    token_endpoint_audience: None,
                    scopes,
                    resource,
                }
            }
            Grant::AuthorizationCode | Grant::ClientCredentials => {
                let secret = self.options.client_secret.as_ref().map(Secret::reveal);
                let secret = secret.ok_or_else(|| missing("the client's secret"))?;
                ClientCredentialsConfig::ClientSecret {
                    client_id,
                    client_secret: secret.to_owned(),
                    scopes,
                    resource,
                }
            }
        })
    }
}

partial_debug!(Authorization { options });

/// Tokens from the client credentials grant, requested when there is no valid one.
///
/// The protocol library asks for a token before every request, and for a refresh after one was
/// refused. This grant has no refresh token, so a refresh requests a new token.
struct ClientCredentialsTokens {
    authorization: Authorization,
    /// Whether the last token was or may have been refused. True initially, so that a new
    /// connection starts with a new token.
    was_refused: AtomicBool,
    exchange_lock: Arc<tokio::sync::Mutex<()>>,
}

impl ClientCredentialsTokens {
    fn new(authorization: Authorization) -> Self {
        let (was_refused, exchange_lock) = (AtomicBool::new(true), Arc::default());
        Self { authorization, was_refused, exchange_lock }
    }
}

#[async_trait]
impl CredentialStore for ClientCredentialsTokens {
    async fn load(&self) -> Result<Option<StoredCredentials>> {
        let _guard = self.exchange_lock.lock().await;
        let stored = self.authorization.tokens.load().await?;
        let was_refused = self.was_refused.swap(false, Ordering::AcqRel);
        if let Some(stored) = stored.filter(|stored| !was_refused && is_fresh(stored)) {
            return Ok(Some(stored));
        }
        self.authorization.request_token().await.map(Some).inspect_err(|error| {
            let error = self.authorization.redactor.error(error);
            warn!(%error, "token request failed");
        })
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<()> {
        self.authorization.tokens.save(credentials).await
    }

    async fn clear(&self) -> Result<()> {
        self.authorization.tokens.clear().await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>> {
        self.was_refused.store(true, Ordering::Release);
        Ok(None)
    }
}

/// Whether the token is valid for some time, as far as known.
fn is_fresh(stored: &StoredCredentials) -> bool {
    let Some(token) = &stored.token_response else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age =
        Duration::from_secs(now.as_secs().saturating_sub(stored.token_received_at.unwrap_or(0)));
    // The JSON response of the authorization server.
    let response = serde_json::to_value(token).unwrap_or_default();
    let lifetime = response.get("expires_in").and_then(serde_json::Value::as_u64);
    lifetime.is_none_or(|seconds| age + MIN_LIFETIME < Duration::from_secs(seconds))
}
