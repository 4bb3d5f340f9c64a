//! Settings of the web search in a request.

use reqwest::Url;
use serde_json::Value;

/// The supported part of a tool entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SearchParams {
    /// Allowed domains; all if not set.
    allowed: Option<Vec<String>>,
    blocked: Vec<String>,
    /// Country of the user, as two letters.
    pub(super) country: Option<String>,
    /// Whether only search results may be used and no page opened.
    pub(super) is_offline: bool,
    size: Size,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Size {
    Low,
    #[default]
    Medium,
    High,
}

impl SearchParams {
    /// Parses a tool entry. Missing and invalid fields are ignored.
    pub(super) fn read(entry: &Value) -> Self {
        let country = entry.pointer("/user_location/country").and_then(Value::as_str);
        let size = match entry.get("search_context_size").and_then(Value::as_str) {
            Some("low") => Size::Low,
            Some("high") => Size::High,
            _ => Size::Medium,
        };
        Self {
            allowed: domains(entry, "/filters/allowed_domains"),
            blocked: domains(entry, "/filters/blocked_domains").unwrap_or_default(),
            country: country.filter(|country| country.len() == 2).map(str::to_ascii_uppercase),
            is_offline: entry.get("external_web_access") == Some(&Value::Bool(false)),
            size,
        }
    }

    /// Returns the number of results for the model; `usual` is the operator's setting.
    pub(super) fn most(&self, usual: usize) -> usize {
        match self.size {
            Size::Low => usual.div_ceil(2),
            Size::Medium => usual,
            Size::High => usual.saturating_mul(2),
        }
    }

    /// Returns the domains to pass to the search engine.
    pub(super) fn domains(&self) -> Vec<String> {
        self.allowed.clone().unwrap_or_default()
    }

    /// Whether a page may be shown.
    pub(super) fn takes(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_on = |domain: &String| {
            let above = host.strip_suffix(domain.as_str());
            above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(is_on))
            && !self.blocked.iter().any(is_on)
    }
}

fn domains(entry: &Value, place: &str) -> Option<Vec<String>> {
    let domains = entry.pointer(place)?.as_array()?;
    let domain = |domain: &Value| Some(domain.as_str()?.trim().to_ascii_lowercase());
    Some(domains.iter().filter_map(domain).filter(|domain| !domain.is_empty()).collect())
}
