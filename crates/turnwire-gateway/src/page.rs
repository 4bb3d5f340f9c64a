//! Paginated lists, in the format of the OpenAI API.

use serde::{Deserialize, Serialize};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::{IntoParams, ToSchema};

use crate::api_error::{ApiError, Result};

const USUAL: usize = 20;
const MAX_LIMIT: usize = 100;

/// Query parameters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// ID of an entry. The page starts after it.
    pub after: Option<String>,
    /// ID of an entry. The page ends before it.
    pub before: Option<String>,
    /// Maximum number of entries, 1 to 100. Default: 20.
    #[param(minimum = 1)]
    pub limit: Option<usize>,
    /// Sort order by time of creation: `asc` (oldest first) or `desc` (newest first).
    #[param(inline)]
    pub order: Option<Order>,
}

/// Sort order by time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Page<T> {
    /// Always `list`.
    pub object: &'static str,
    /// The entries of the page.
    pub data: Vec<T>,
    /// ID of the first entry. Null if the page is empty.
    pub first_id: Option<String>,
    /// ID of the last entry. Null if the page is empty.
    pub last_id: Option<String>,
    /// Whether there are more entries after this page.
    pub has_more: bool,
    /// Present if input fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<ResponseNote>,
}

/// The number of entries of a page, if a client asks for `limit`.
pub(crate) fn checked_limit(limit: Option<usize>) -> Result<usize> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("`limit` must be between 1 and {MAX_LIMIT}.");
        return Err(ApiError::bad_request("invalid_value", message).about("limit"));
    }
    Ok(limit)
}

/// The error of a page that begins after or before an entry `id` that the list does not have.
pub(crate) fn unknown_entry(param: &str, id: &str) -> ApiError {
    let message = format!("There is no entry '{id}' in this list.");
    ApiError::bad_request("invalid_value", message).about(param)
}

impl<T> Page<T> {
    /// The requested page of `all`, which is sorted oldest first.
    pub fn of(
        mut all: Vec<T>,
        params: &PageParams,
        usual_order: Order,
        id: impl Fn(&T) -> String,
    ) -> Result<Self> {
        let limit = checked_limit(params.limit)?;
        if params.order.unwrap_or(usual_order) == Order::Desc {
            all.reverse();
        }
        let position = |wanted: &Option<String>, name: &str| {
            let Some(wanted) = wanted else { return Ok(None) };
            let position = all.iter().position(|entry| id(entry) == *wanted);
            position.map(Some).ok_or_else(|| unknown_entry(name, wanted))
        };
        let first = position(&params.after, "after")?.map_or(0, |position| position + 1);
        let end = position(&params.before, "before")?.unwrap_or(all.len());
        let rest: Vec<T> = all.into_iter().take(end).skip(first).collect();
        let has_more = rest.len() > limit;
        let data: Vec<T> = rest.into_iter().take(limit).collect();
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Ok(Self { object: "list", data, first_id, last_id, has_more, turnwire: None })
    }
}
