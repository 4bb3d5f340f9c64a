use super::{TLS_SERVER_ROOT_CERTS, bundled, chain, client_trusting};

/// Every bundled certificate can be read, and a client trusts them.
#[test]
fn a_system_without_certificates_uses_the_bundled_ones() {
    assert!(TLS_SERVER_ROOT_CERTS.len() > 50);
    assert_eq!(bundled().count(), TLS_SERVER_ROOT_CERTS.len());
    client_trusting(false).build().unwrap();
}

#[test]
fn an_error_is_told_with_its_causes() {
    let error = client_trusting(false).user_agent("\n").build().unwrap_err();
    let told = chain(&error);
    assert!(told.starts_with("builder error: "), "{told}");
}
