use super::*;

/// A6: what may be a key in an address is not shown.
#[test]
fn an_address_is_shown_without_its_secrets() {
    for (url, shown) in [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("https://user:pass@example.com:8443/mcp?key=k#f", "https://example.com:8443/mcp"),
        ("https://a@b@example.com", "https://example.com"),
        ("https://example.com?key=@", "https://example.com"),
        ("http://example.com/a@b", "http://example.com/a@b"),
        ("odd", "odd"),
    ] {
        assert_eq!(without_secrets(url), shown);
    }
}
