use super::*;

fn told(text: &str) -> (Vec<String>, bool) {
    let mut told = Vec::new();
    let table = parse("f", text, &mut told);
    (told, table.is_some())
}

/// A key that is there twice is no reason not to check the rest.
#[test]
fn what_is_there_twice_is_told_with_its_path() {
    let twice = "it is there twice; keep one of them";
    let cases = [
        ("a = 1\na = 2\n", "f:2: a"),
        ("[s]\na = 1\n[t]\nb = 1\nb = 2\n", "f:5: t.b"),
        ("[s.t]\na = 1\na = 2\n", "f:3: s.t.a"),
        ("[[s]]\na = 1\n[[s]]\na = 1\na = 2\n", "f:5: s[1].a"),
        ("[s]\np = { a = 1, a = 2 }\n", "f:2: s.p.a"),
    ];
    for (text, place) in cases {
        assert_eq!(told(text), (vec![format!("{place}: {twice}")], true), "{text}");
    }
    let header = told("[s]\na = 1\n[s]\nb = 1\n");
    assert_eq!(header, (vec![format!("f:3: s: {twice}")], false));
}

#[test]
fn a_number_that_is_too_large_is_told_with_its_path() {
    let (told, is_readable) =
        told("[s]\na = 99999999999999999999\nb = [1, 0xFFFFFFFFFFFFFFFFFF]\n");
    assert!(is_readable);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "s.a: no number may be as large as 99999999999999999999");
    assert!(told[1].starts_with("s.b[1]: no number may be as large as "), "{told:?}");
}
