use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The example of the Standard Webhooks specification.
#[test]
fn the_example_of_the_specification_is_signed_alike() {
    let secrets = [SigningSecret::parse(SECRET).unwrap()];
    let body = r#"{"test": 2432232314}"#;
    let signed = signatures(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
    assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/// While a secret is changed, the old and the new one sign.
#[test]
fn every_secret_signs() {
    let (old, new) = (SECRET, "whsec_AAECAwQFBgcICQoLDA0ODw==");
    let parsed = |texts: &[&str]| -> Vec<SigningSecret> {
        texts.iter().map(|text| SigningSecret::parse(text).unwrap()).collect()
    };
    let signed = |texts: &[&str]| signatures(&parsed(texts), "evt_1", 1, "{}");
    assert_eq!(signed(&[new, old]), format!("{} {}", signed(&[new]), signed(&[old])));
    assert_ne!(signed(&[new]), signed(&[old]));
}

/// A secret is refused without being repeated, and never shown.
#[test]
fn what_is_not_a_secret_is_refused() {
    for text in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%"] {
        assert_eq!(SigningSecret::parse(text), Err(NotASecret), "{text}");
    }
    let without_padding = SigningSecret::parse("whsec_AAECAwQFBgcICQoLDA0ODw");
    assert_eq!(without_padding, SigningSecret::parse("whsec_AAECAwQFBgcICQoLDA0ODw=="));
    assert_eq!(format!("{:?}", without_padding.unwrap()), "***");
}
