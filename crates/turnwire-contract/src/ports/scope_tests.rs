use super::*;

#[test]
fn a_scope_is_read_as_it_is_written() {
    for text in ["runs:read", "operator", "use:*", "use:team:research", "use:a"] {
        let scope: Scope = text.parse().unwrap();
        assert_eq!(scope.to_string(), text);
        let json = serde_json::to_string(&scope).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Scope>(&json).unwrap(), scope);
    }
    assert_eq!("use:*".parse(), Ok(Scope::UseAll));
}

#[test]
fn own_scopes_have_a_bounded_form() {
    let longest = format!("use:{}", "x".repeat(59));
    assert_eq!(longest.parse::<Scope>().unwrap().as_str(), longest);
    let too_long = format!("{longest}x");
    for text in ["use:", "use", "use:a b", "use:a*", "use:é", "use:**", "research", &too_long] {
        assert_eq!(text.parse::<Scope>(), Err(UnknownScope(text.to_owned())), "{text}");
    }
}

#[test]
fn own_scopes_with_a_common_beginning_differ() {
    let [a, b]: [Scope; 2] = ["use:a", "use:ab"].map(|text| text.parse().unwrap());
    assert_ne!(a, b);
}
