//! A client of a Turnwire server: its runs, their events, and commands on them.
//!
//! [`mod@connect`] says which server and which key, [`credentials`] stores the keys of `turnwire
//! login`, [`failure`] words what can go wrong, [`run_feed`] follows a run over cut lines and
//! restarts of the server, and [`journal`] reads what is recorded of it.
//!
//! Redirects are not followed. The key belongs to one origin, and a server that has moved should be
//! named by its new address.

mod connect;
mod credentials;
mod failure;
mod journal;
mod remote_run;
mod run_feed;

use std::time::Duration;

use reqwest::{
    Client, Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, HeaderValue, LOCATION},
    redirect::Policy,
};
use serde_json::Value;
use turnwire_http::{chain, is_loopback};

pub(crate) use self::{
    connect::{connect, connect_if_named, named_server},
    credentials::Credentials,
    failure::ServerError,
    journal::write_journal,
    remote_run::{NewRun, follow, follow_started, start},
};
use crate::{
    addresses::ServerAddress,
    exit::{Problem, Result},
};

const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time for an answer that is not a stream.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// A server, and the key for it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ServerClient {
    http: Client,
    base: Url,
    /// Not shown by `Debug`.
    key: Option<HeaderValue>,
}

impl ServerClient {
    pub(crate) fn new(server: &ServerAddress, key: Option<&str>) -> Result<Self> {
        let base = server.url().clone();
        let key = key.map(bearer).transpose()?;
        let mut http =
            turnwire_http::client().connect_timeout(CONNECT_TIME).redirect(Policy::none());
        if is_loopback(&base) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| {
            Problem::failure(format!("cannot set up the client: {}", chain(&error)))
        })?;
        Ok(Self { http, base, key })
    }

    /// Returns the address of the server, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether a key would be sent over a line that others can read.
    pub(crate) fn sends_key_in_the_clear(&self) -> bool {
        self.key.is_some() && self.base.scheme() == "http" && !is_loopback(&self.base)
    }

    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<Value, ServerError> {
        self.answer(self.request(Method::GET, path, query)).await
    }

    pub(crate) async fn post(&self, path: &[&str], body: &Value) -> Result<Value, ServerError> {
        self.answer(self.request(Method::POST, path, &[]).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> Result<Value, ServerError> {
        self.answer(self.request(Method::DELETE, path, &[])).await
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, ServerError> {
        let response = self.send(request.timeout(ANSWER_TIME)).await?;
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_str(&text).map_err(|_| ServerError::NotTurnwire { url: self.url() })
    }

    /// Sends a request. Every answer but a success is an error.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ServerError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.unwrap_or("another address").to_owned();
            return Err(ServerError::Redirected { url: self.url(), to });
        }
        let text = response.text().await.unwrap_or_default();
        Err(ServerError::refused(self.url(), status.as_u16(), &text))
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key),
            None => request,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ServerError {
        ServerError::unreachable(self.url(), error)
    }

    fn url(&self) -> String {
        self.base().to_owned()
    }
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| Problem::usage("the API key has characters that no key has"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
#[path = "server_client_tests.rs"]
mod tests;
