//! Keys among other input.

use super::*;

#[test]
fn esc_is_told_from_keys_that_begin_with_it() {
    let typed = TypedAhead::default();
    let key = |bytes: &[u8]| first_key(bytes, Some(&typed));
    assert_eq!(key(b"\x1b"), Some(Key::Escape));
    assert_eq!(key(b"\x02"), Some(Key::CtrlB));
    assert_eq!(key(b"hello\x1b"), Some(Key::Escape));
    assert_eq!(key(b"\x1b[A\x1bOP\x1b[1;5Cx"), None, "arrows and function keys");
    assert_eq!(key(b"\x1b[Ax\x1b"), Some(Key::Escape));
    assert_eq!(key(b"\x1bb"), None, "Alt-B");
    assert_eq!(key(b"\x1b["), None, "cut off");
    assert_eq!(key(b"\x1b\x1b"), Some(Key::Escape));
    assert_eq!(key(b""), None);
}

#[test]
fn text_is_kept_for_the_next_prompt() {
    let typed = TypedAhead::default();
    for piece in [&b"ab\x7fc\x1b[Ad"[..], b"\xc3", b"\xa9\xc3\xa4\x7f", b"\n\x1bxe"] {
        assert_eq!(first_key(piece, Some(&typed)), None);
    }
    assert_eq!(typed.take(), "acdée");
    assert_eq!(typed.take(), "");
}

/// In a chat letters belong to the next message.
#[test]
fn letters_are_keys_if_nothing_is_typed_ahead() {
    assert_eq!(first_key(b"xo", None), Some(Key::Open));
    assert_eq!(first_key(b"?", None), Some(Key::Help));
    assert_eq!(first_key(b"\x1bo\x1b[?1x", None), None, "Alt-O, and a report of the terminal");
    assert_eq!(first_key(b"o?", Some(&TypedAhead::default())), None);
}
