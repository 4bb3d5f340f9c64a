use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

use super::{unwrap_summary, wrap_summary};

/// The value says that it is not encrypted, whatever the field is called.
#[test]
fn a_summary_says_that_it_is_not_encrypted() {
    assert_eq!(wrap_summary("They met."), "turnwire:not-encrypted:summary:v1:VGhleSBtZXQu");
}

#[test]
fn what_others_made_is_not_opened() {
    let bare = BASE64_STANDARD.encode("x");
    let not_text = format!("{}{}", super::MARK, BASE64_STANDARD.encode([0xff, 0xfe]));
    for foreign in
        ["", "gAAAAABo", "not base64!", super::MARK.trim_end_matches(':'), &bare, &not_text]
    {
        assert_eq!(unwrap_summary(foreign), None, "{foreign}");
    }
}

proptest! {
    #[test]
    fn comes_back_whole(text: String) {
        prop_assert_eq!(unwrap_summary(&wrap_summary(&text)), Some(text));
    }
}
