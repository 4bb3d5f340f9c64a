use super::{Secret, hidden_in};

const KEY: &str = "sk-canary-1234";

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{:?}", Secret::new(KEY)), "***");
}

#[test]
fn a_key_is_hidden_in_quotations() {
    let check = |text, expected| assert_eq!(hidden_in(text, &Secret::new(KEY)), expected);
    check("bad key sk-canary-1234, bad", "bad key ***, bad");
    check("bad key sk-canary-1…", "bad key ***…");
    check("bad key sk-canar…", "bad key ***…");
    check("bad key sk-cana…", "bad key sk-cana…");
    check("bad key…", "bad key…");
    check("bad keys", "bad keys");
}

/// A placeholder key must not make a message unreadable.
#[test]
fn a_short_key_does_not_mask_ordinary_words() {
    for key in ["", "x", "none", "ollama", "EMPTY"] {
        for text in ["none of the models is EMPTY, said ollama: x…", "max…", "no…"] {
            assert_eq!(hidden_in(text, &Secret::new(key)), text, "{key}");
        }
    }
}
