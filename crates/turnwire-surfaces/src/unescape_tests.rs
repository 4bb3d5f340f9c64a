use super::*;

/// The text decoded from `inside` while the string is open.
#[track_caller]
fn check_open(inside: &str, expected: &str) {
    let mut unescape = Unescape::default();
    assert_eq!(unescape.push(inside), None);
    assert_eq!(unescape.text(), expected);
}

/// The text decoded from `inside` after the closing quote, however it was cut into pieces.
#[track_caller]
fn check_closed(inside: &str, expected: &str) {
    let written = format!("{inside}\" rest");
    let mut whole = Unescape::default();
    assert_eq!(whole.push(&written), Some(" rest"));
    assert_eq!(whole.take(), expected);
    assert_eq!(whole.text(), "", "the next string begins empty");

    let mut by_character = Unescape::default();
    let closed_at = written.char_indices().position(|(at, character)| {
        by_character.push(&written[at..at + character.len_utf8()]).is_some()
    });
    assert_eq!(closed_at, Some(inside.chars().count()));
    assert_eq!(by_character.take(), expected);
}

#[test]
fn plain_text_is_itself() {
    check_open("", "");
    check_open("héllo\nthere", "héllo\nthere");
    check_closed("héllo", "héllo");
}

#[test]
fn every_escape_is_decoded() {
    check_closed(r#"\"\\\/\n\t\r\b\f"#, "\"\\/\n\t\r\u{8}\u{c}");
    check_closed(r"\u00e9\u20AC", "é€");
    check_closed(r"C:\\new\\dir", r"C:\new\dir");
}

#[test]
fn an_unfinished_escape_is_held_back() {
    check_open(r"a\", "a");
    check_open(r"a\u", "a");
    check_open(r"a\u00e", "a");
    check_open(r"a\u00e9", "aé");
    check_open(r"a\ud83d", "a");
    check_open(r"a\ud83d\", "a");
    check_open(r"a\ud83d\ude0", "a");
    check_open(r"a\ud83d\ude00", "a😀");
}

#[test]
fn half_a_pair_becomes_a_replacement_character() {
    check_closed(r"\ud83d", "\u{fffd}");
    check_closed(r"\ud83dx", "\u{fffd}x");
    check_closed(r"\ud83d\n", "\u{fffd}\n");
    check_closed(r"\ud83d\u0041", "\u{fffd}A");
    check_closed(r"\ud83d\ud83d\ude00", "\u{fffd}😀");
    check_closed(r"\ude00x", "\u{fffd}x");
    check_closed(r"\ud83d\q", "\u{fffd}\\q");
}

#[test]
fn the_corners_of_the_surrogate_ranges_are_right() {
    check_closed(r"\ud800\udc00", "\u{10000}");
    check_closed(r"\udbff\udfff", "\u{10ffff}");
    check_closed(r"\ud7ff\ue000", "\u{d7ff}\u{e000}");
}

#[test]
fn what_is_no_escape_stays_as_it_was_written() {
    check_closed(r"C:\dir", r"C:\dir");
    check_closed(r"\u12xy", "\u{fffd}xy");
    check_closed(r"\u12\n", "\u{fffd}\n");
    check_closed(r"\ud83d\u1x", "\u{fffd}\u{fffd}x");
}

#[test]
fn a_quote_after_broken_digits_closes_the_string() {
    check_closed(r"\u12", "\u{fffd}");
}
