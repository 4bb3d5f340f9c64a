use super::*;

fn secrets(headers: &[(&str, &str)]) -> ServerSecrets {
    let mut secrets = ServerSecrets::default();
    for (name, value) in headers {
        assert!(secrets.add(name, SecretText::new(*value)));
    }
    secrets
}

#[test]
fn headers_survive_the_way_through_bytes() {
    for headers in [&[][..], &[("a", "")], &[("x-key", "k1"), ("authorization", "Bearer ü=\n;")]] {
        let written = secrets(headers);
        assert_eq!(ServerSecrets::from_bytes(&written.to_bytes()), Some(written));
    }
    assert_eq!(ServerSecrets::from_bytes(b"name without value"), None);
    assert_eq!(ServerSecrets::from_bytes(&[0xff, 0]), None);
}

#[test]
fn a_header_is_supplied_once_whatever_its_case() {
    let mut written = secrets(&[("X-Key", "first")]);
    assert!(!written.add("x-KEY", SecretText::new("second")));
    let found: Vec<_> = written.headers().map(|(name, value)| (name, value.reveal())).collect();
    assert_eq!(found, [("x-key", "first")]);
}

#[test]
fn debug_output_has_no_values() {
    let written = secrets(&[("x-key", "canary-value")]);
    let (_, value) = written.headers().next().expect("one header");
    let shown = format!("{written:?} {value:?}");
    assert!(shown.contains("x-key") && !shown.contains("canary"), "{shown}");
}
