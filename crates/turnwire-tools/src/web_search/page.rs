//! Opens pages requested by the model, through the egress client.

use std::time::Duration;

use reqwest::Url;
use tracing::warn;
use turnwire_contract::ToolError;

use super::{
    params::SearchParams,
    reading::{Readable, readable},
};
use crate::egress::{Egress, EgressError, Fetched};

const ACCEPT: &str = "text/html,application/xhtml+xml,text/plain;q=0.9,text/markdown;q=0.9,\
                      application/json;q=0.8,*/*;q=0.1";
/// Timeout of the conversion to text.
const READING: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// URL after redirects.
    pub(super) url: Url,
    /// Title; the URL if there is none.
    pub(super) title: String,
    pub(super) text: String,
}

/// Fetches the page at `address` without converting it.
pub(super) async fn fetch(
    egress: &Egress,
    address: &str,
    params: &SearchParams,
) -> Result<Fetched, ToolError> {
    let refuse = || ToolError::failed("the request does not allow pages of that domain");
    let asked = egress.check(address).map_err(ToolError::failed)?;
    if !params.takes(&asked) {
        return Err(refuse());
    }
    let fetched = egress.get(address, ACCEPT).await.map_err(problem)?;
    if !params.takes(&fetched.url) {
        return Err(refuse());
    }
    match fetched.status {
        200..=299 => Ok(fetched),
        status @ (429 | 500..=599) => Err(ToolError::Transient(answered(status))),
        status => Err(ToolError::Failed(answered(status))),
    }
}

fn answered(status: u16) -> String {
    format!("the page answered with status {status}")
}

fn problem(error: EgressError) -> ToolError {
    if error.may_pass() {
        ToolError::Transient(error.to_string())
    } else {
        ToolError::failed(error)
    }
}

/// Converts a page to text, on a blocking thread because a page may be long.
pub(super) async fn read(fetched: Fetched) -> Result<Page, ToolError> {
    let Fetched { url, content_type, body, .. } = fetched;
    let address = url.to_string();
    let reading = tokio::task::spawn_blocking({
        let address = address.clone();
        move || readable(&body, content_type.as_deref(), &address)
    });
    let cannot = || ToolError::failed("the page cannot be read");
    let read = tokio::time::timeout(READING, reading).await.map_err(|_| cannot())?;
    let read = read.map_err(|error| {
        warn!(%error, "page extraction panicked");
        cannot()
    })?;
    let Readable { title, text } = read.map_err(ToolError::failed)?;
    let title = super::engine::on_one_line(&title, 200);
    Ok(Page { url, title: if title.is_empty() { address } else { title }, text })
}
