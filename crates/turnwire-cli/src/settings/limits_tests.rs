//! Every limit of the file arrives where it belongs.

use super::*;
use crate::settings::testing::{check_keys, check_mistakes};

#[test]
fn the_keys_of_the_section_are_known() {
    check_keys::<RawLimits>("limits");
}

#[test]
fn every_limit_is_read() {
    let mut mistakes = Vec::new();
    let mut expected = limits(Table::new(), &mut mistakes);
    assert_eq!(expected, Limits::default());
    let numbers = (1_i64..).map(toml::Value::from);
    let keys = RawLimits::KEYS.iter().map(|key| (*key).to_owned());
    let read = limits(keys.zip(numbers).collect(), &mut mistakes);
    assert_eq!(mistakes, [""; 0]);
    expected.max_turns = 1;
    expected.max_tool_calls = 2;
    expected.max_parallel_calls = 3;
    expected.max_repeats = 4;
    expected.max_recoveries = 5;
    expected.wall_clock = Duration::from_secs(6);
    expected.call_silence = Duration::from_secs(7);
    expected.call_total = Duration::from_secs(8);
    expected.call_attempts = 9;
    expected.model_silence = Duration::from_secs(10);
    expected.model_total = Duration::from_secs(11);
    expected.model_attempts = 12;
    expected.max_skipped_parts = 13;
    expected.output_to_model = 14;
    expected.output_in_journal = 15;
    assert_eq!(read, expected);
}

#[test]
fn a_limit_is_a_number_and_not_nothing() {
    check_mistakes(
        "[limits]\nmax_turns = 0\nwall_clock_sec = -1\nmax_tool_calls = \"many\"\nmax_turn = 1\n",
        &[],
        &[
            "limits.max_tool_calls: invalid type: string \"many\", expected a nonzero u32",
            "limits.max_turn: there is no such setting; did you mean `max_turns`?",
            "limits.max_turns: invalid value: integer `0`, expected a nonzero u32",
            "limits.wall_clock_sec: invalid value: integer `-1`, expected a nonzero u64",
        ],
    );
}
