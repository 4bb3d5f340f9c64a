use std::time::{Duration, SystemTime};

use super::{Endpoint, SetupError, waiting_time};
use crate::secret::Secret;

#[test]
fn a_waiting_time_is_seconds_or_a_date() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
    let check = |value, expected| assert_eq!(waiting_time(value, now), expected, "{value}");
    check("7", Some(Duration::from_secs(7)));
    check(" 0.5 ", Some(Duration::from_millis(500)));
    check("Fri, 02 Jan 1970 00:01:00 GMT", Some(Duration::from_mins(1)));
    check("Thu, 01 Jan 1970 00:00:00 GMT", Some(Duration::ZERO));
    for odd in ["", "soon", "-3", "NaN", "inf", "1e300"] {
        check(odd, None);
    }
}

#[test]
fn mistakes_in_the_settings_show_at_once() {
    for url in ["", "example.com/v1", "ftp://example.com", "http://"] {
        let result = Endpoint::new(url, "/x", Duration::from_secs(1));
        assert_eq!(result.err(), Some(SetupError::BaseUrl(url.to_owned())));
    }
    let endpoint = Endpoint::new("http://example.com/v1/", "/x", Duration::from_secs(1)).unwrap();
    assert_eq!(endpoint.url.as_str(), "http://example.com/v1/x");
    let key = Some(Secret::new("two\nlines"));
    let result = endpoint.with_key(reqwest::header::AUTHORIZATION, "Bearer ", key);
    assert_eq!(result.err(), Some(SetupError::ApiKey));
}

#[test]
fn an_endpoint_does_not_print_its_key() {
    let key = Secret::new("sk-canary-1234");
    let endpoint = Endpoint::new("http://example.com", "/x", Duration::from_secs(1))
        .unwrap()
        .with_key(reqwest::header::AUTHORIZATION, "Bearer ", Some(key))
        .unwrap();
    let printed = format!("{endpoint:?}");
    assert!(!printed.contains("canary"), "{printed}");
}
