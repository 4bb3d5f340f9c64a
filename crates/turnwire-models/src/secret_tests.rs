use super::Secret;

const KEY: &str = "sk-canary-1234";

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{:?}", Secret::new(KEY)), "***");
}

#[test]
fn a_key_is_hidden_in_quotations() {
    let check = |text, expected| assert_eq!(Secret::new(KEY).hidden_in(text), expected);
    check("bad key sk-canary-1234, bad", "bad key ***, bad");
    check("bad key sk-canary-1…", "bad key ***…");
    check("bad key s…", "bad key ***…");
    check("bad key…", "bad key…");
    check("bad keys", "bad keys");
    assert_eq!(Secret::new("").hidden_in("abc…"), "abc…");
}
