//! Tells clients where their quotas stand, in the headers that OpenAI's clients know.
//!
//! Handlers build their responses themselves and know nothing of quotas. So a layer puts
//! [`RateLimitHeaders`] into each request, whoever starts a run fills them, and the layer adds the
//! headers to whatever was answered, also to an error.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use turnwire_engine::{Measure, QuotaAnswer, QuotaStatus};

use crate::sync::lock;

/// Header with a warning that a budget is nearly spent.
const WARNING: HeaderName = HeaderName::from_static("turnwire-quota-warning");

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Where the headers of a response are collected.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateLimitHeaders(Arc<Mutex<HeaderMap>>);

impl RateLimitHeaders {
    /// Notes what the response to the request has to say.
    pub(crate) fn note(&self, answer: &QuotaAnswer) {
        *lock(&self.0) = headers(&answer.quotas);
    }
}

/// The layer that adds the headers.
pub(crate) async fn attach(mut request: Request, next: Next) -> Response {
    let slot = RateLimitHeaders::default();
    request.extensions_mut().insert(slot.clone());
    let mut response = next.run(request).await;
    let headers = std::mem::take(&mut *lock(&slot.0));
    response.headers_mut().extend(headers);
    response
}

fn headers(quotas: &[QuotaStatus]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Of several quotas, the one with the least left; of tokens, those of a minute first.
    let tightest = |measure| {
        let quotas = quotas.iter().filter(|status| status.measure == measure);
        quotas.min_by_key(|status| status.remaining)
    };
    let tokens = tightest(Measure::TokensPerMinute).or(tightest(Measure::TokensPerDay));
    for (names, status) in [(REQUESTS, tightest(Measure::RequestsPerMinute)), (TOKENS, tokens)] {
        let Some(status) = status else { continue };
        let values =
            [status.max.to_string(), status.remaining.to_string(), in_words(status.resets_in)];
        for (name, value) in names.into_iter().zip(values) {
            headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
        }
    }
    let nearly = quotas.iter().filter(|status| status.is_nearly_spent);
    if let Some(status) = nearly.min_by_key(|status| status.remaining) {
        headers.extend(HeaderValue::from_str(&warning(status)).ok().map(|value| (WARNING, value)));
    }
    headers
}

fn warning(status: &QuotaStatus) -> String {
    let whose = if status.is_of_key { "key" } else { "tenant" };
    let used = u128::from(status.max.saturating_sub(status.remaining));
    let percent = used * 100 / u128::from(status.max.max(1));
    format!("{percent}% of the budget of the {whose} for this month is used")
}

/// A duration as `1h2m3s`, rounded up to seconds.
fn in_words(time: Duration) -> String {
    let seconds = whole_seconds(time);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Seconds, rounded up: whoever waits that long has waited long enough.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
#[path = "quota_headers_tests.rs"]
mod tests;
