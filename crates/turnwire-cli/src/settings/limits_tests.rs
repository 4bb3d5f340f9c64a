//! Every limit in the file takes effect.

use super::*;
use crate::settings::testing::{check_mistakes, keys_of};

/// All keys of the section, each with a different number.
fn numbered() -> Table {
    let numbers = (1_i64..).map(toml::Value::from);
    keys_of::<RawLimits>().into_iter().zip(numbers).collect()
}

/// The number that [`numbered`] assigns to a key.
fn number(key: &str) -> usize {
    1 + keys_of::<RawLimits>().iter().position(|known| known == key).expect(key)
}

fn time(key: &str) -> Duration {
    Duration::from_secs(number(key) as u64)
}

#[test]
fn every_limit_of_a_run_is_read() {
    let mut mistakes = Vec::new();
    assert_eq!(limits(Table::new(), &mut mistakes), LimitsSection::default());
    let read = limits(numbered(), &mut mistakes).runs;
    let mut expected = Limits::default();
    assert_eq!(mistakes, [""; 0]);
    expected.max_turns = 1;
    expected.max_tool_calls = 2;
    expected.ask_cost_nanos = Some(3_000_000_000);
    expected.max_cost_nanos = Some(4_000_000_000);
    expected.max_parallel_calls = 5;
    expected.max_repeats = 6;
    expected.max_recoveries = 7;
    expected.wall_clock = Duration::from_secs(8);
    expected.call_silence = Duration::from_secs(9);
    expected.call_total = Duration::from_secs(10);
    expected.call_attempts = 11;
    expected.model_silence = Duration::from_secs(12);
    expected.model_total = Duration::from_secs(13);
    expected.model_attempts = 14;
    expected.max_skipped_parts = 15;
    expected.output_to_model = 16;
    expected.output_in_journal = 17;
    expected.max_turn_output = 18;
    expected.max_run_output = 19;
    expected.max_arguments = 20;
    assert_eq!(read, expected);
}

/// A13: `serve` uses the limits in the file.
#[test]
fn every_limit_of_a_server_is_read() {
    let mut mistakes = Vec::new();
    let read = limits(numbered(), &mut mistakes).server;
    assert_eq!(mistakes, [""; 0]);
    let expected = ServerLimits {
        http: HttpLimits {
            header_bytes: number("max_header_bytes"),
            headers: number("max_headers"),
            header_time: time("header_timeout_sec"),
            body_pause: time("body_idle_timeout_sec"),
            connections: number("max_connections"),
            unknown_per_address: number("max_unknown_connections_per_address"),
            idle_time: time("idle_timeout_sec"),
            connection_time: time("connection_timeout_sec"),
            streams: u32::try_from(number("max_requests_per_connection")).unwrap(),
            write_time: time("write_timeout_sec"),
            socket_time: time("socket_timeout_sec"),
            socket_message_bytes: number("max_socket_message_bytes"),
            socket_messages_per_second: u32::try_from(number("max_socket_messages_per_sec"))
                .unwrap(),
            socket_queue: number("max_socket_queue"),
        },
        requests: RequestLimits {
            body_time: time("body_timeout_sec"),
            upload_time: time("upload_timeout_sec"),
            json: turnwire_gateway::JsonLimits {
                depth: number("max_json_depth"),
                keys: number("max_json_keys"),
                values: number("max_json_values"),
            },
            items: number("max_input_items"),
            tools: number("max_tools"),
            schema_bytes: number("max_schema_bytes"),
            argument_bytes: number("max_arguments_bytes"),
            file_bytes: number("max_input_file_bytes"),
        },
        admission: AdmissionLimits {
            runs: number("max_runs"),
            runs_per_tenant: number("max_runs_per_tenant"),
            runs_per_key: number("max_runs_per_key"),
            connections_per_key: number("max_connections_per_key"),
            results_per_tenant: number("max_results_per_tenant"),
            readers_per_link: number("max_readers_per_link"),
            readers_per_tenant: number("max_readers_per_tenant"),
            readers_per_address: number("max_readers_per_address"),
        },
        background_time: time("background_sec"),
        body_bytes: number("max_body_bytes"),
        file_bytes: number("max_file_bytes"),
        prompt_file_bytes: number("max_prompt_file_bytes"),
        keep_alive_interval: time("keep_alive_sec"),
        gathering: Duration::from_millis(number("max_gathering_ms") as u64),
    };
    assert_eq!(read, expected);
}

/// A13: every limit is a setting, and `docs/limits.md` describes every setting.
#[test]
fn every_limit_is_explained() {
    let explained = include_str!("../../../../docs/limits.md");
    let keys = keys_of::<RawLimits>();
    for key in &keys {
        assert!(explained.contains(&format!("| `{key}` |")), "docs/limits.md has no `{key}`");
    }
    for limit in turnwire_gateway::limits::COUNTED {
        let key = limit.strip_prefix("limits.").expect(limit);
        assert!(keys.iter().any(|known| known == key), "`{key}` is counted and is no setting");
    }
}

#[test]
fn a_limit_is_a_number_and_not_nothing() {
    check_mistakes(
        "[limits]\nmax_turns = 0\nwall_clock_sec = -1\nmax_tool_calls = \"many\"\nmax_turn = 1\n",
        &[],
        &[
            "limits.max_tool_calls: not a whole number from 1 on",
            "limits.max_turn: there is no such setting; did you mean `max_turns`?",
            "limits.max_turns: 0 is not a whole number from 1 on",
            "limits.wall_clock_sec: -1 is not a whole number from 1 on",
        ],
    );
}
