use super::*;

fn history() -> Vec<Entry> {
    let items = [
        Item::user("a"),
        Item::assistant("1"),
        Item::user("b"),
        Item::assistant("2"),
        Item::user("a"),
    ];
    items.into_iter().enumerate().map(|(n, item)| Entry::new(format!("msg_{n}"), item)).collect()
}

/// A message is found by its number, or by its content if a page counts wrong.
#[test]
fn a_message_is_found_where_the_page_has_it() {
    let position = |n, text: &str| position_of(&history(), n, &Item::user(text));
    assert_eq!(position(1, "a"), Some(0), "the first of two equal ones");
    assert_eq!(position(3, "a"), Some(4));
    assert_eq!(
        position(2, "changed"),
        Some(2),
        "an edited message replaces the one at its position"
    );
    assert_eq!(position(1, "b"), Some(2), "a page that sends only its last message");
    assert_eq!(position(4, "new"), None, "nothing to remove");
}
