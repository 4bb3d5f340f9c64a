//! Keys among other input.

use super::*;

#[test]
fn esc_is_told_from_keys_that_begin_with_it() {
    let key = first_key;
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
