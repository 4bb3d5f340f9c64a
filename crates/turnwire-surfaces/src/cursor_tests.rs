use proptest::prelude::*;
use serde_json::json;

use super::*;

/// R11.
#[test]
fn a_place_is_written_as_event_and_frame() {
    let cursor = Cursor::new(Seq(12), 3);
    assert_eq!(cursor.to_string(), "12.3");
    assert_eq!("12.3".parse(), Ok(cursor));
    assert_eq!(serde_json::to_value(cursor).unwrap(), json!("12.3"));
    assert_eq!(serde_json::from_value::<Cursor>(json!("12.3")).unwrap(), cursor);
}

#[test]
fn a_number_alone_is_all_of_an_event() {
    let whole = Cursor::all_of(Seq(12));
    assert_eq!("12".parse(), Ok(whole));
    assert_eq!(whole.to_string(), "12");
    assert_eq!(serde_json::from_value::<Cursor>(json!(12)).unwrap(), whole);
    assert!(!Cursor::new(Seq(12), 7).is_after(whole));
    assert!(Cursor::new(Seq(13), 0).is_after(whole));
}

#[test]
fn what_is_no_place_is_refused() {
    for text in ["", ".", "12.", ".0", "12.0.0", "-1", "+1", "1.-1", " 1", "1.x", "evt_1", "1e3"] {
        assert_eq!(text.parse::<Cursor>(), Err(ParseCursorError), "{text:?}");
    }
    assert!("99999999999999999999".parse::<Cursor>().is_err());
    assert!(serde_json::from_value::<Cursor>(json!("x")).unwrap_err().to_string().contains("12.0"));
    assert!(serde_json::from_value::<Cursor>(json!(null)).is_err());
}

#[test]
fn every_frame_comes_after_the_start() {
    assert!(Cursor::new(Seq(1), 0).is_after(Cursor::START));
    assert!(!Cursor::START.is_after(Cursor::default()));
}

proptest! {
    #[test]
    fn what_is_written_can_be_read(seq: u64, index: u32) {
        let cursor = Cursor::new(Seq(seq), index);
        prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}
