//! Output on standard output.

use super::*;

/// `None` is a status line.
fn written(shared: bool, texts: &[Option<&str>]) -> String {
    let mut answer = Answer::new(Vec::new(), shared);
    for text in texts {
        match text {
            Some(text) => answer.write(text).unwrap(),
            None => answer.end_open_line().unwrap(),
        }
    }
    answer.finish().unwrap();
    String::from_utf8(answer.out).unwrap()
}

#[test]
fn alone_it_is_byte_for_byte_with_an_end() {
    assert_eq!(written(false, &[Some("Hi "), None, Some("\n"), Some("you.")]), "Hi \nyou.\n");
    assert_eq!(written(false, &[Some("Hi.\n")]), "Hi.\n");
    assert_eq!(written(false, &[]), "");
    assert_eq!(written(false, &[None]), "");
}

#[test]
fn shared_the_status_gets_a_line_of_its_own_and_no_empty_line_follows() {
    assert_eq!(written(true, &[Some("Hi "), None, Some("\n"), Some("you.")]), "Hi \nyou.\n");
    assert_eq!(written(true, &[Some("Hi "), None, None, Some("\nyou.")]), "Hi \nyou.\n");
    assert_eq!(written(true, &[Some("Hi "), None, Some("\n\nyou.")]), "Hi \n\nyou.\n");
    assert_eq!(written(true, &[Some("Hi\n"), None, Some("\nyou.")]), "Hi\n\nyou.\n");
}

#[test]
fn a_line_that_was_closed_is_not_closed_again() {
    assert_eq!(written(true, &[Some("Hi"), None]), "Hi\n");
    assert_eq!(written(true, &[Some("Hi"), None, Some("\n")]), "Hi\n");
}
