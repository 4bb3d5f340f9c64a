//! `[[models.NAME.upstreams]]`: where a model is, if it is in several places.
//!
//! A model without this list is in one place, which the keys of `[models.NAME]` describe.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use turnwire_models::Secret;

use super::{
    model_kind::{EXAMPLE_URL, Kind},
    words::{check_url, not_set},
};
use crate::{
    environment::Environment,
    exit::{Problem, Result},
};

/// An upstream of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamSettings {
    /// Name in the log and in the report of `doctor`; no secret is in it.
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) api_key: Option<Secret>,
    /// Name of the model there, if it differs from the requested one.
    pub(crate) model: Option<String>,
    pub(crate) weight: u32,
    pub(crate) max_concurrency: Option<usize>,
}

impl UpstreamSettings {
    /// An only upstream.
    pub(crate) fn at(base_url: String, api_key: Option<Secret>) -> Self {
        let name = host_of(&base_url);
        Self { name, base_url, api_key, model: None, weight: 1, max_concurrency: None }
    }
}

/// How long the phases of a request may take, as far as the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ModelTimeouts {
    pub(crate) connect: Option<Duration>,
    pub(crate) first_content: Option<Duration>,
    /// Time that a request waits while all upstreams are at their limit.
    pub(crate) max_wait: Option<Duration>,
}

impl ModelTimeouts {
    /// Sets the time until the first content, if the file does not: half of the silence that ends a
    /// request (`model_silence_sec`), so that two upstreams can be asked within it. An only upstream
    /// has no such limit, because no other could answer.
    pub(super) fn complete(
        &mut self,
        path: &str,
        n_upstreams: usize,
        silence: Duration,
        mistakes: &mut Vec<String>,
    ) {
        match self.first_content {
            Some(time) if time >= silence => mistakes.push(format!(
                "{path}.first_content_timeout_sec: it has to be less than \
                 limits.model_silence_sec, which is {}",
                silence.as_secs()
            )),
            None if n_upstreams > 1 => self.first_content = Some(silence / 2),
            Some(_) | None => {}
        }
    }
}

/// Share of the requests of an upstream.
const USUAL_WEIGHT: u32 = 1;

/// One of several places where the model is; `base_url` of the model is then not set. All have the
/// `kind` of the model. See several upstreams.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawUpstream {
    /// Its name in the log and in the report of `turnwire doctor`
    name: Option<String>,
    /// The base URL of the server
    base_url: Option<String>,
    /// The model name sent to this upstream
    model: Option<String>,
    /// The variable with its API key
    api_key_env: Option<String>,
    /// Its share of the requests; with `0` it is used only if no other can be
    #[schemars(extend("default" = USUAL_WEIGHT))]
    weight: Option<u32>,
    /// Maximum number of concurrent requests
    max_concurrency: Option<std::num::NonZeroU32>,
}

/// A validated upstream of the file, without the environment.
#[derive(Debug)]
pub(super) struct NamedUpstream {
    /// Its place in the list; none if there is no list.
    place: Option<usize>,
    name: Option<String>,
    base_url: Option<String>,
    pub(super) model: Option<String>,
    api_key_env: Option<String>,
    weight: u32,
    max_concurrency: Option<usize>,
}

impl NamedUpstream {
    /// The upstream of a model without a list.
    pub(super) fn only(
        base_url: Option<String>,
        model: Option<String>,
        api_key_env: Option<String>,
    ) -> Self {
        let (place, name, weight, max_concurrency) = (None, None, 1, None);
        Self { place, name, base_url, model, api_key_env, weight, max_concurrency }
    }

    /// Whether the model has no list.
    pub(super) fn is_only(&self) -> bool {
        self.place.is_none()
    }

    /// The path of the table that describes it.
    pub(super) fn path(&self, model_path: &str) -> String {
        match self.place {
            Some(place) => format!("{model_path}.upstreams[{place}]"),
            None => model_path.to_owned(),
        }
    }

    /// Returns what is missing: its key, what is wrong, and what to do. `has_usual_url` says
    /// whether `OPENAI_BASE_URL` stands for a missing address.
    pub(super) fn missing(
        &self,
        kind: Kind,
        has_usual_url: bool,
        environment: &Environment,
    ) -> Vec<(&'static str, String, String)> {
        let mut missing = Vec::new();
        if self.base_url.is_none() && !has_usual_url && kind.usual_url().is_none() {
            let hint = format!("give the address of the server, such as {EXAMPLE_URL}");
            missing.push(("base_url", "missing".to_owned(), hint));
        }
        if let Some(variable) = &self.api_key_env
            && !environment.is_set(variable)
        {
            let hint = "set it, or take the line out of the settings if the server needs no key";
            missing.push(("api_key_env", not_set(variable), hint.to_owned()));
        }
        missing
    }

    /// Adds what the environment says. `OPENAI_BASE_URL` (`usual_url`) replaces the address of the
    /// default model, and stands for a missing one.
    pub(super) fn with_environment(
        &self,
        model_path: &str,
        kind: Kind,
        is_default: bool,
        usual_url: Option<&String>,
        environment: &Environment,
    ) -> Result<UpstreamSettings> {
        let missing = self.missing(kind, usual_url.is_some(), environment);
        if let Some((key, why, hint)) = missing.into_iter().next() {
            let path = self.path(model_path);
            return Err(Problem::usage(format!("{path}.{key}: {why}")).hint(hint));
        }
        let (base_url, is_ours) = match (&self.base_url, usual_url) {
            (_, Some(url)) if is_default => (url.clone(), true),
            (Some(url), _) => (url.clone(), false),
            (None, Some(url)) => (url.clone(), true),
            // Otherwise it was missing.
            (None, None) => (kind.usual_url().unwrap_or_default().to_owned(), true),
        };
        let api_key = match &self.api_key_env {
            Some(variable) => environment.get(variable),
            // The provider's well-known variable is used only for the provider's own URL, so that
            // the key is not sent elsewhere.
            None if is_ours => kind.usual_key_variable().and_then(|name| environment.get(name)),
            None => None,
        };
        Ok(UpstreamSettings {
            name: self.name.clone().unwrap_or_else(|| host_of(&base_url)),
            base_url,
            api_key: api_key.map(Secret::from),
            model: self.model.clone(),
            weight: self.weight,
            max_concurrency: self.max_concurrency,
        })
    }
}

/// Returns the upstreams of the model at `path`: those of its list, or `only`. `model` and
/// `api_key_env` of the model apply to all that have none of their own.
pub(super) fn named_upstreams(
    path: &str,
    only: NamedUpstream,
    written: Vec<RawUpstream>,
    mistakes: &mut Vec<String>,
) -> Vec<NamedUpstream> {
    if written.is_empty() {
        return vec![only];
    }
    if only.base_url.is_some() {
        mistakes.push(format!("{path}.base_url: give each of its upstreams a base_url instead"));
    }
    let written = written.into_iter().enumerate();
    let upstreams: Vec<_> =
        written.map(|(place, raw)| upstream(path, place, raw, &only, mistakes)).collect();
    for (n, upstream) in upstreams.iter().enumerate() {
        let is_taken = |other: &NamedUpstream| other.name.is_some() && other.name == upstream.name;
        if upstreams.iter().take(n).any(is_taken) {
            mistakes.push(format!("{path}.upstreams[{n}].name: another upstream has this name"));
        }
    }
    upstreams
}

fn upstream(
    path: &str,
    place: usize,
    raw: RawUpstream,
    model: &NamedUpstream,
    mistakes: &mut Vec<String>,
) -> NamedUpstream {
    let path = format!("{path}.upstreams[{place}]");
    check_url(&format!("{path}.base_url"), raw.base_url.as_deref(), EXAMPLE_URL, mistakes);
    let max_concurrency =
        raw.max_concurrency.map(|n| usize::try_from(n.get()).unwrap_or(usize::MAX));
    NamedUpstream {
        place: Some(place),
        name: raw.name,
        base_url: raw.base_url,
        model: raw.model.or_else(|| model.model.clone()),
        api_key_env: raw.api_key_env.or_else(|| model.api_key_env.clone()),
        weight: raw.weight.unwrap_or(USUAL_WEIGHT),
        max_concurrency,
    }
}

/// Returns the host and port of a URL. The user name and password that a URL may have are left out.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod tests;
