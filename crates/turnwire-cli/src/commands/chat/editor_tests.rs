//! When a message is complete.

use super::is_complete;

#[test]
fn a_message_goes_on_after_a_backslash_and_in_a_code_block() {
    for complete in ["", "hello", "a \\ b", "```\ncode\n```", "one\ntwo"] {
        assert!(is_complete(complete), "{complete:?}");
    }
    for open in ["hello\\", "```", "look:\n```rust\nfn a() {}", "```\na\n```\n```"] {
        assert!(!is_complete(open), "{open:?}");
    }
}
