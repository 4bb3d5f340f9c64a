use axum::http::HeaderValue;

use super::*;

fn asked(range: &'static str, total: usize) -> Range {
    let mut headers = HeaderMap::new();
    headers.insert(header::RANGE, HeaderValue::from_static(range));
    range_of(&headers, total)
}

fn part(first: usize, last: usize) -> Range {
    Range::Part { first, last }
}

/// R17: every form of a range, and invalid ones.
#[test]
fn ranges_are_read() {
    assert_eq!(range_of(&HeaderMap::new(), 10), Range::Everything);
    let cases = [
        ("bytes=0-3", part(0, 3)),
        ("bytes=3-3", part(3, 3)),
        ("bytes=4-", part(4, 9)),
        ("bytes=4-99", part(4, 9)),
        ("bytes=-3", part(7, 9)),
        ("bytes=-99", part(0, 9)),
        ("bytes=0-99999999999999999999999999", part(0, 9)),
        ("bytes=10-", Range::Beyond),
        ("bytes=10-20", Range::Beyond),
        ("bytes=-0", Range::Beyond),
        ("bytes=5-3", Range::Everything),
        ("bytes=0-1,3-4", Range::Everything),
        ("bytes=x-3", Range::Everything),
        ("bytes=-", Range::Everything),
        ("lines=1-2", Range::Everything),
    ];
    for (range, expected) in cases {
        assert_eq!(asked(range, 10), expected, "{range}");
    }
    assert_eq!(asked("bytes=0-", 0), Range::Beyond);
    assert_eq!(asked("bytes=-5", 0), Range::Beyond);
}
