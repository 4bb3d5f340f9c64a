use super::{POSTGRES, SQLITE, is_word};

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn words_are_kept_with_their_collection() {
    assert_eq!((SQLITE.worded)(7, &["sea", "walrus", "sea"]), "sea walrus sea");
    assert_eq!((POSTGRES.worded)(7, &["sea", "walrus", "sea"]), "'#7' 'sea':1,3 'walrus':2");
}

/// A word is never parsed as query syntax.
#[test]
fn what_is_asked_is_no_language() {
    let asked = words("not near and");
    let fts = "scope : (\"c1\" OR \"c2\") AND words : (\"not\" OR \"near\" OR \"and\")";
    assert_eq!((SQLITE.asked)(&[1, 2], &asked), fts);
    assert_eq!((POSTGRES.asked)(&[1, 2], &asked), "('#1' | '#2') & ('not' | 'near' | 'and')");
}

#[test]
fn only_letters_and_digits_make_a_word() {
    assert!(["a", "2nd", "naïve", "東"].into_iter().all(is_word));
    assert!(!["", " ", "a b", "a'b", "a\"", "a:1", "a\\"].into_iter().any(is_word));
}
