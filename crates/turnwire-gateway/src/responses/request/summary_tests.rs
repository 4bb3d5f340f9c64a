use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

use super::{open_summary, seal_summary};

#[test]
fn what_others_made_is_not_opened() {
    let other_version = BASE64_STANDARD.encode(r#"{"turnwire_summary":2,"text":"x"}"#);
    let other_thing = BASE64_STANDARD.encode(r#"{"text":"x"}"#);
    for foreign in ["", "gAAAAABo", "not base64!", &other_version, &other_thing] {
        assert_eq!(open_summary(foreign), None, "{foreign}");
    }
}

proptest! {
    #[test]
    fn comes_back_whole(text: String) {
        prop_assert_eq!(open_summary(&seal_summary(&text)), Some(text));
    }
}
