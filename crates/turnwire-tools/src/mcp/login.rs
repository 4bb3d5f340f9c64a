//! OAuth login to a server, by a person in a browser.
//!
//! The login happens once, before the server is used, and its tokens are stored (see `tokens`): the
//! person opens the authorization URL, the browser is redirected to a local port, and the
//! authorization code is exchanged for tokens.

use std::{collections::BTreeSet, convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{Request, Response, StatusCode, body::Incoming, header, service::service_fn};
use hyper_util::rt::TokioIo;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, OAuthClientConfig,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::oauth::Authorization;
use crate::secret::Secret;

use turnwire_contract::partial_debug;

/// Client name for the authorization server.
const CLIENT_NAME: &str = "Turnwire";

/// Path of the redirect URI.
const CALLBACK_PATH: &str = "/callback";

/// Timeout for the request of the browser to the redirect URI.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Page shown after the redirect.
const CALLBACK_PAGE: &str = "<!doctype html><title>Turnwire</title><p>Turnwire received the response. \
                             You can close this page.";

/// A login in progress.
pub struct Login {
    manager: AuthorizationManager,
    authorization_url: String,
    redirect: String,
    listener: TcpListener,
}

impl Login {
    /// Discovers the authorization server, registers the client, and listens for the redirect.
    pub(super) async fn start(authorization: &Authorization) -> Result<Self, LoginError> {
        let options = authorization.options();
        let port = options.redirect_port.unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(LoginError::Port)?;
        let port = listener.local_addr().map_err(LoginError::Port)?.port();
        let redirect = format!("http://127.0.0.1:{port}{CALLBACK_PATH}");

        let tokens = &authorization.tokens;
        let mut manager = authorization.manager().await?;
        manager.set_credential_store(tokens.clone());
        let challenge = tokens.challenge();
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        let supports_metadata_url = found
            .metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .is_some_and(|supported| supported == true);
        manager.set_metadata(found.metadata);
        let scopes = scopes(authorization, &manager, challenge.is_some()).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();

        let metadata_url = options.client_metadata_url.as_ref().filter(|_| supports_metadata_url);
        let secret = if let Some(known) = options.client_id.as_ref().or(metadata_url) {
            let client = OAuthClientConfig::new(known.as_str(), redirect.as_str());
            let secret = options.client_secret.as_ref().filter(|_| options.client_id.is_some());
            manager.configure_client(match secret.map(Secret::reveal) {
                Some(secret) => client.with_client_secret(secret),
                None => client,
            })?;
            None
        } else {
            manager.register_client(CLIENT_NAME, &redirect, &scopes).await?.client_secret
        };
        tokens.store_secret(secret).map_err(LoginError::TokensNotStored)?;
        let authorization_url = manager.get_authorization_url(&scopes).await?;
        Ok(Self { manager, authorization_url, redirect, listener })
    }

    /// Returns the authorization URL, which the person opens.
    pub fn authorization_url(&self) -> &str {
        &self.authorization_url
    }

    /// Waits for the redirect, and stores the tokens. Has no timeout.
    pub async fn finish(self) -> Result<(), LoginError> {
        let tasks = TaskTracker::new();
        let (sender, mut callbacks) = mpsc::channel(1);
        let finished = loop {
            let callback = tokio::select! {
                callback = callbacks.recv() => callback,
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted.map_err(LoginError::Port)?;
                    tasks.spawn(serve(stream, sender.clone()));
                    continue;
                }
            };
            let Some(query) = callback else { break Err(LoginError::Refused(String::new())) };
            match self.exchange(&format!("{}?{query}", self.redirect)).await {
                // A request from another program; continue to wait for ours.
                Err(LoginError::UnknownCallback) => {
                    debug!("OAuth callback with an unknown state ignored");
                }
                finished => break finished,
            }
        };
        tasks.close();
        let _ = timeout(CALLBACK_TIMEOUT, tasks.wait()).await;
        finished
    }

    /// Completes the login with the redirect URL that the person copied, if the browser cannot
    /// reach this machine.
    pub async fn finish_with(self, address: &str) -> Result<(), LoginError> {
        self.exchange(address).await
    }

    async fn exchange(&self, address: &str) -> Result<(), LoginError> {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        if let Some(why) = refusal(query) {
            return Err(LoginError::Refused(why));
        }
        let callback = AuthorizationCallback::from_redirect_url(address)
            .map_err(|_| LoginError::UnknownCallback)?;
        let AuthorizationCallback { code, csrf_token, issuer, .. } = callback;
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref());
        match exchanged.await {
            Ok(_) => Ok(()),
            // Returned for an unknown `state`.
            Err(AuthError::InternalError(_)) => Err(LoginError::UnknownCallback),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the scopes to request: those in the settings, or those the server requires. After a
/// scope was missing, the granted ones are included.
async fn scopes(
    authorization: &Authorization,
    manager: &AuthorizationManager,
    was_refused: bool,
) -> Vec<String> {
    let mut scopes = match authorization.options().scopes.as_slice() {
        [] => manager.select_initial_scopes(&[]).await,
        scopes => scopes.to_vec(),
    };
    if was_refused {
        scopes.extend(authorization.tokens.granted_scopes());
    }
    let mut seen = BTreeSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    scopes
}

/// Returns the error code of the redirect, if the authorization server refused.
fn refusal(query: &str) -> Option<String> {
    let code = query.split('&').find_map(|pair| pair.strip_prefix("error="))?;
    // OAuth error codes contain only these characters.
    Some(code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect())
}

/// Serves the redirect URI.
async fn serve(stream: TcpStream, callbacks: mpsc::Sender<String>) {
    let callbacks = Arc::new(callbacks);
    let service = service_fn(move |request: Request<Incoming>| {
        let callbacks = Arc::clone(&callbacks);
        async move { Ok::<_, Infallible>(answer(&request, &callbacks).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(CALLBACK_TIMEOUT, serving).await {
        debug!(%error, "browser connection failed");
    }
}

async fn answer(request: &Request<Incoming>, callbacks: &mpsc::Sender<String>) -> Response<String> {
    if request.uri().path() != CALLBACK_PATH {
        let mut not_found = Response::new(String::new());
        *not_found.status_mut() = StatusCode::NOT_FOUND;
        return not_found;
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    // The receiver is closed after the matching redirect.
    let _ = callbacks.send(query).await;
    let mut response = Response::new(CALLBACK_PAGE.to_owned());
    let html = header::HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

partial_debug!(Login { redirect });

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No server has this label.
    #[error("there is no tool server `{0}`")]
    UnknownServer(String),
    /// The server has no `oauth` setting.
    #[error("`{0}` needs no login: it has no `oauth` in its settings")]
    NotConfigured(String),
    /// The server uses a grant without a person.
    #[error("`{0}` needs no login: it uses client credentials")]
    NotInteractive(String),
    /// The port of the redirect URI could not be opened.
    #[error("cannot listen on a local port for the redirect of the browser: {0}")]
    Port(#[source] io::Error),
    /// The tokens could not be stored.
    #[error("the tokens cannot be stored: {0}")]
    TokensNotStored(#[source] io::Error),
    /// The authorization server or the person refused.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The URL does not belong to this login.
    #[error("this is not the redirect address of this login")]
    UnknownCallback,
    /// The authorization server failed or violated the protocol.
    #[error("the authorization server cannot be used: {0}")]
    Server(#[source] AuthProblem),
}

/// Description of a problem with an authorization server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuthProblem(String);

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Server(AuthProblem(error.to_string()))
    }
}
