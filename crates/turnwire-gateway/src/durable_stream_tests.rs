use super::*;

fn head(last: u64) -> JournalHead {
    JournalHead { last: Seq(last), is_over: false }
}

#[test]
fn offsets_sort_as_text_and_are_read_back() {
    assert!(offset(Seq(9)) < offset(Seq(10)));
    assert_eq!(parse_offset(Some(&offset(Seq(9))), &head(9)), Ok(Seq(9)));
    assert_eq!(parse_offset(Some("-1"), &head(9)), Ok(Seq::START));
    assert_eq!(parse_offset(None, &head(9)), Ok(Seq::START));
    assert_eq!(parse_offset(Some("now"), &head(9)), Ok(Seq(9)));
}

/// A1, C11: an offset that this stream never gave out is refused.
#[test]
fn other_offsets_are_refused() {
    for text in ["", "-2", "+1", "1.5", "10", " 1", "99999999999999999999999", "0x1", "../1"] {
        let refused = parse_offset(Some(text), &head(9)).unwrap_err();
        assert_eq!(refused.code, "invalid_offset", "{text:?}");
    }
}

#[test]
fn a_cursor_never_repeats() {
    let current = next_cursor(None);
    let ahead = (current + 5).to_string();
    assert_eq!(next_cursor(Some(&ahead)), current + 6);
    assert!(next_cursor(Some("1")) >= current);
    assert!(next_cursor(Some("not a number")) >= current);
    assert_eq!(next_cursor(Some(&u64::MAX.to_string())), u64::MAX);
}
