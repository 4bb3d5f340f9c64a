use super::*;

#[track_caller]
fn check(pieces: &[&str], expected: &[&str]) {
    let mut cleaner = Cleaner::new();
    let kept: Vec<String> = pieces.iter().map(|piece| cleaner.clean(piece).into_owned()).collect();
    assert_eq!(kept, expected);
}

/// S4-5.
#[test]
fn clean_text_is_not_copied() {
    let mut cleaner = Cleaner::new();
    for text in ["", "plain", "tab\tline\nreturn\r", "é 漢 😀", "0°C £5 «quoted»", "\u{a0}"]
    {
        assert!(matches!(cleaner.clean(text), Cow::Borrowed(same) if same == text), "{text:?}");
    }
}

/// S4-5.
#[test]
fn text_after_a_closed_sequence_is_not_copied() {
    let mut cleaner = Cleaner::new();
    assert_eq!(cleaner.clean("é\u{1b}[31mred\u{1b}[0m"), "éred");
    assert!(matches!(cleaner.clean("plain"), Cow::Borrowed("plain")));
}

/// S4-5.
#[test]
fn nul_and_other_controls_are_taken_out() {
    check(&["a\0b\u{7}c\u{8}d\u{b}e\u{c}f\u{1f}g\u{7f}h"], &["abcdefgh"]);
    check(&["a\tb\nc\rd"], &["a\tb\nc\rd"]);
    check(&["a\tb\0\nc\rd\n"], &["a\tb\nc\rd\n"]);
}

/// C1: Some terminals treat `U+009B` as a CSI.
#[test]
fn controls_are_taken_out() {
    check(&["a\u{80}b\u{9b}31mc\u{9f}d\u{a0}e"], &["ab31mcd\u{a0}e"]);
}

/// S4-5.
#[test]
fn colours_and_titles_are_stripped() {
    check(&["\u{1b}[1;31mred\u{1b}[0m text"], &["red text"]);
    check(&["\u{1b}]0;title\u{7}after"], &["after"]);
    check(&["\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"], &["link"]);
    check(&["\u{1b}[2J\u{1b}[Hhome"], &["home"]);
}

/// S4-5.
#[test]
fn a_sequence_split_over_pieces_is_stripped() {
    check(&["a\u{1b}", "[3", "1", "mred"], &["a", "", "", "red"]);
    check(&["x\u{1b}]0;ti", "tle", "\u{7}y"], &["x", "", "y"]);
    check(&["é\u{1b}[", "1mü"], &["é", "ü"]);
}

#[test]
fn a_sequence_that_is_never_closed_costs_one_line() {
    check(&["\u{1b}]0;evil", "swallowed\nshown", "more"], &["", "\nshown", "more"]);
    check(&["\u{1b}]0;evil\n\nshown"], &["\n\nshown"]);
}

/// S2-21.
#[test]
fn characters_beside_and_inside_sequences_survive_or_go_whole() {
    check(&["\u{1b}[é1mx"], &["x"]);
    check(&["漢\u{1b}[31m字\0😀"], &["漢字😀"]);
}

#[test]
fn a_new_text_begins_outside_of_any_sequence() {
    let mut cleaner = Cleaner::new();
    assert_eq!(cleaner.clean("\u{1b}]0;open"), "");
    cleaner.reset();
    assert_eq!(cleaner.clean("shown"), "shown");
}

proptest::proptest! {
    /// The result does not depend on how a text is cut, and contains no control sequence.
    #[test]
    fn pieces_add_up_to_the_whole(
        text in "([a-zé漢\\n\\t ]|\u{1b}\\[[0-9]{0,2}m|\u{1b}\\]0;[a-z]{0,3}\u{7}|\u{1b}|\0|\u{9b}){0,12}",
        cut in 0_usize..40,
    ) {
        let cut = text.floor_char_boundary(cut);
        let mut cleaner = Cleaner::new();
        let mut pieces = cleaner.clean(&text[..cut]).into_owned();
        pieces.push_str(&cleaner.clean(&text[cut..]));
        proptest::prop_assert_eq!(&pieces, &clean(&text));
        proptest::prop_assert!(!pieces.chars().any(is_unwanted));
    }
}
