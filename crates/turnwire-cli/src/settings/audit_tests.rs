//! Valid and invalid settings of the audit log.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

#[test]
fn changes_are_recorded_unless_the_file_says_otherwise() {
    assert_eq!(demo_settings("", &[]).unwrap().audit, AuditLevel::Changes);
    let said = |word: &str| demo_settings(&format!("[audit]\nrecord = \"{word}\"\n"), &[]);
    assert_eq!(said("none").unwrap().audit, AuditLevel::None);
    assert_eq!(said("reads").unwrap().audit, AuditLevel::Reads);
}

#[test]
fn what_is_wrong_is_told() {
    check_mistakes(
        "[audit]\nrecord = \"read\"\n",
        &[],
        &["audit.record: `read`: did you mean `reads`?"],
    );
}
