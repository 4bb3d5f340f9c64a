//! The `Range` header: requests for a part of a text, in bytes.
//!
//! Only a single range is supported. For any other `Range` the whole text is returned, as the
//! standard allows.

use axum::http::{HeaderMap, header};

/// The requested part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    Everything,
    /// A range of bytes, both ends included.
    Part {
        /// First byte, counted from 0.
        first: usize,
        /// Last byte.
        last: usize,
    },
    /// A range outside of the text.
    Beyond,
}

/// The range that the headers request of a text of `total` bytes.
pub(crate) fn range_of(headers: &HeaderMap, total: usize) -> Range {
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let range = range.and_then(|range| range.trim().strip_prefix("bytes="));
    range.and_then(|range| read(range.trim(), total)).unwrap_or(Range::Everything)
}

/// `None` if it is not a valid range.
fn read(range: &str, total: usize) -> Option<Range> {
    let (first, last) = range.split_once('-')?;
    let (first, last) = match (first, last) {
        ("", last) => (total.saturating_sub(number(last)?), total.checked_sub(1)),
        (first, "") => (number(first)?, total.checked_sub(1)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, total.checked_sub(1).map(|end| last.min(end)))
        }
    };
    match last {
        Some(last) if first <= last => Some(Range::Part { first, last }),
        _ => Some(Range::Beyond),
    }
}

/// A number that overflows becomes the maximum, which is past the end of any text.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
