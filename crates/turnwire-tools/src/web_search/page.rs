//! Opens pages requested by the model, through the egress client.

use reqwest::Url;
use turnwire_contract::{TenantId, ToolError};

use super::params::SearchParams;
use crate::{
    documents::{DocumentReader, Matches, PageText, Task},
    egress::{Egress, EgressError, Fetched},
};

const ACCEPT: &str = "text/html,application/xhtml+xml,text/plain;q=0.9,text/markdown;q=0.9,\
                      application/json;q=0.8,*/*;q=0.1";
/// Maximum number of characters of a page for the model.
const MAX_CHARACTERS: usize = 40_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// URL after redirects.
    pub(super) url: Url,
    /// Title; the URL if there is none.
    pub(super) title: String,
    /// The first characters of the text.
    pub(super) text: String,
    /// Number of characters of the whole text.
    pub(super) n_characters: usize,
    /// Where the pattern is.
    pub(super) matches: Matches,
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

/// Converts a page to text, and finds `pattern` in all of it.
pub(super) async fn read(
    documents: &DocumentReader,
    tenant: &TenantId,
    fetched: Fetched,
    pattern: Option<&str>,
) -> Result<Page, ToolError> {
    let Fetched { url, content_type, body, .. } = fetched;
    let (address, pattern) = (url.to_string(), pattern.map(str::to_owned));
    let task = Task::Page { url: address.clone(), content_type, pattern, most: MAX_CHARACTERS };
    let read = documents.page(tenant, task, &body.into()).await;
    let PageText { title, text, n_characters, matches } =
        read.map_err(|unread| ToolError::Failed(unread.reason))?;
    let title = super::engine::on_one_line(&title, 200);
    let title = if title.is_empty() { address } else { title };
    Ok(Page { url, title, text, n_characters, matches })
}
