//! Windows and subjects.

use super::*;

fn at(text: &str) -> Timestamp {
    serde_json::from_value(text.into()).unwrap()
}

/// Every moment is in one window, and the next one begins where it ends.
#[test]
fn windows_follow_each_other() {
    let cases = [
        (
            UsageSpan::Minute,
            "2026-11-17T10:49:35.5Z",
            "2026-11-17T10:49:00Z",
            "2026-11-17T10:50:00Z",
        ),
        (
            UsageSpan::Day,
            "2026-12-31T23:59:59.999999Z",
            "2026-12-31T00:00:00Z",
            "2027-01-01T00:00:00Z",
        ),
        (UsageSpan::Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        (UsageSpan::Month, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        (UsageSpan::Month, "2026-01-31T00:00:00Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    ];
    for (span, moment, start, end) in cases {
        let window = span.window(at(moment));
        assert_eq!(window, UsageWindow { starts_at: at(start), ends_at: at(end) }, "{moment}");
        assert_eq!(span.window(window.starts_at), window);
        assert_eq!(span.window(window.ends_at).starts_at, window.ends_at);
    }
    for span in UsageSpan::ALL {
        for moment in [Timestamp::MIN, Timestamp::MAX] {
            let window = span.window(moment);
            assert!(window.starts_at <= moment && moment <= window.ends_at, "{span:?} {window:?}");
        }
    }
}

/// A person is never taken for a key with the same name.
#[test]
fn holders_are_told_apart() {
    let tenant = TenantId::from("acme");
    let named = |key: Option<&str>, subject: Option<&str>| {
        let actor = Actor {
            key_id: key.map(str::to_owned),
            subject: subject.map(str::to_owned),
            project: None,
        };
        UsageSubject::holder(&tenant, &actor)
    };
    assert_ne!(named(Some("key_1"), None), named(None, Some("key_1")));
    assert_eq!(named(None, None), None);
    assert_eq!(named(Some("key_1"), None).unwrap().holder.as_deref(), Some("key_1"));
}
