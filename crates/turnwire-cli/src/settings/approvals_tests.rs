use super::*;

fn read(text: &str) -> (ApprovalSettings, Vec<String>) {
    let mut mistakes = Vec::new();
    let settings = approvals(text.parse().unwrap(), &mut mistakes);
    (settings, mistakes)
}

/// A7: definitions are pinned by default, and approvals are set per effect class.
#[test]
fn the_section_is_read() {
    assert_eq!(read(""), (ApprovalSettings::default(), Vec::new()));
    assert!(ApprovalSettings::default().pin_definitions);
    let text = "once = 'always'\nidempotent = 'always'\npure = 'never'\nexpire_after_sec = 90\n\
                pin_definitions = false\nunknown_outcomes = 'ask'";
    let expected = ApprovalSettings {
        ask_before: vec![Effect::Idempotent, Effect::Once],
        expire_after: Some(Duration::from_secs(90)),
        pin_definitions: false,
        unknown_outcomes: UnknownOutcomes::Ask,
    };
    assert_eq!(read(text), (expected, Vec::new()));
}

#[test]
fn mistakes_are_told() {
    let (settings, mistakes) =
        read("once = 'alwais'\nexpire_after_sec = 0\ntwice = 'never'\nunknown_outcomes = 'askk'");
    assert_eq!(settings.unknown_outcomes, UnknownOutcomes::Ask, "the careful reading");
    assert_eq!(settings.ask_before, [Effect::Once], "the careful reading, until it is repaired");
    assert_eq!(
        mistakes,
        [
            "approvals.twice: there is no such setting; there are `pure`, `idempotent`, `once`, \
             `expire_after_sec`, `pin_definitions`, `unknown_outcomes`",
            "approvals.once: there is no `alwais`; did you mean `always`?",
            "approvals.expire_after_sec: `0` is not a time; give some seconds",
            "approvals.unknown_outcomes: there is no `askk`; did you mean `ask`?",
        ]
    );
}
