//! Lists, a page at a time, as the official clients turn them.

use serde::{Deserialize, Serialize};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::{IntoParams, ToSchema};

use crate::refusal::Refusal;

const USUAL: usize = 20;
const MOST: usize = 100;

/// Which page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct PageWish {
    /// Begin after the entry of this id.
    pub after: Option<String>,
    /// End before the entry of this id.
    pub before: Option<String>,
    /// How many entries, 1 to 100; 20 if not set.
    #[param(minimum = 1)]
    pub limit: Option<usize>,
    /// `asc` or `desc`.
    #[param(inline)]
    pub order: Option<Order>,
}

/// Oldest first, or newest first.
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
    /// The entries.
    pub data: Vec<T>,
    /// The id of the first one.
    pub first_id: Option<String>,
    /// The id of the last one.
    pub last_id: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnwire: Option<ResponseNote>,
}

impl<T> Page<T> {
    /// The page of `all`, oldest first, that is wished for.
    pub fn of(
        mut all: Vec<T>,
        wish: &PageWish,
        usual_order: Order,
        id: impl Fn(&T) -> String,
    ) -> Result<Self, Refusal> {
        let limit = wish.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            let message = format!("`limit` must be between 1 and {MOST}.");
            return Err(Refusal::bad_request("invalid_value", message).about("limit"));
        }
        if wish.order.unwrap_or(usual_order) == Order::Desc {
            all.reverse();
        }
        let place = |wanted: &Option<String>, name: &str| {
            let Some(wanted) = wanted else { return Ok(None) };
            let place = all.iter().position(|entry| id(entry) == *wanted);
            place.map(Some).ok_or_else(|| {
                let message = format!("There is no entry '{wanted}' in this list.");
                Refusal::bad_request("invalid_value", message).about(name)
            })
        };
        let first = place(&wish.after, "after")?.map_or(0, |place| place + 1);
        let end = place(&wish.before, "before")?.unwrap_or(all.len());
        let rest: Vec<T> = all.into_iter().take(end).skip(first).collect();
        let has_more = rest.len() > limit;
        let data: Vec<T> = rest.into_iter().take(limit).collect();
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Ok(Self { object: "list", data, first_id, last_id, has_more, turnwire: None })
    }
}
