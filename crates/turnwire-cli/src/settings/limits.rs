//! `[limits]`: limits of runs and of the server.
//!
//! `docs/limits.md` says what happens at each limit. A test compares the two.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    time::Duration,
};

use serde::Deserialize;
use toml::Table;
use turnwire::{Limits, engine::EngineParts};
use turnwire_gateway::{AdmissionLimits, AppOptions, HttpLimits, RequestLimits};

use super::{
    file::{RawTable, read_table},
    words::nanos,
};

/// Defines the section as written in the file, and the list of its keys.
macro_rules! section {
    ($($key:ident: $number:ty,)*) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct RawLimits {
            $($key: Option<$number>,)*
        }

        impl RawTable for RawLimits {
            const KEYS: &'static [&'static str] = &[$(stringify!($key),)*];
        }
    };
}

section! {
    // Limits of a run.
    max_turns: NonZeroU32,
    max_tool_calls: NonZeroU32,
    max_cost: f64,
    max_parallel_calls: NonZeroU32,
    max_repeats: NonZeroU32,
    max_recoveries: NonZeroU32,
    wall_clock_sec: NonZeroU64,
    call_silence_sec: NonZeroU64,
    call_total_sec: NonZeroU64,
    call_attempts: NonZeroU32,
    model_silence_sec: NonZeroU64,
    model_total_sec: NonZeroU64,
    model_attempts: NonZeroU32,
    max_skipped_parts: u32,
    output_to_model_bytes: NonZeroUsize,
    output_in_journal_bytes: NonZeroUsize,
    max_turn_output_bytes: NonZeroUsize,
    max_run_output_bytes: NonZeroUsize,
    max_arguments_bytes: NonZeroUsize,
    // Limits on concurrent work.
    max_runs: NonZeroUsize,
    max_runs_per_tenant: NonZeroUsize,
    max_runs_per_key: NonZeroUsize,
    max_connections_per_key: NonZeroUsize,
    // Limits on a request.
    background_sec: NonZeroU64,
    max_body_bytes: NonZeroUsize,
    max_file_bytes: NonZeroUsize,
    max_input_file_bytes: NonZeroUsize,
    max_prompt_file_bytes: NonZeroUsize,
    max_json_depth: NonZeroUsize,
    max_json_keys: NonZeroUsize,
    max_json_values: NonZeroUsize,
    max_input_items: NonZeroUsize,
    max_tools: NonZeroUsize,
    max_schema_bytes: NonZeroUsize,
    body_timeout_sec: NonZeroU64,
    upload_timeout_sec: NonZeroU64,
    // Limits on a connection.
    max_connections: NonZeroUsize,
    max_unknown_connections_per_address: NonZeroUsize,
    max_requests_per_connection: NonZeroU32,
    max_header_bytes: NonZeroUsize,
    max_headers: NonZeroUsize,
    header_timeout_sec: NonZeroU64,
    body_idle_timeout_sec: NonZeroU64,
    idle_timeout_sec: NonZeroU64,
    connection_timeout_sec: NonZeroU64,
    write_timeout_sec: NonZeroU64,
    keep_alive_sec: NonZeroU64,
    max_gathering_ms: u64,
    socket_timeout_sec: NonZeroU64,
    max_socket_message_bytes: NonZeroUsize,
    max_socket_messages_per_sec: NonZeroU32,
    max_socket_queue: NonZeroUsize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LimitsSection {
    pub(super) runs: Limits,
    pub(super) server: ServerLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    pub(crate) http: HttpLimits,
    pub(crate) requests: RequestLimits,
    pub(crate) admission: AdmissionLimits,
    pub(crate) background_time: Duration,
    pub(crate) body_bytes: usize,
    pub(crate) file_bytes: usize,
    /// Maximum total size of files in concurrent requests to models.
    pub(crate) prompt_file_bytes: usize,
    /// Maximum time without data on a stream.
    pub(crate) heartbeat: Duration,
    /// Maximum time between two appends to an answer.
    pub(crate) gathering: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (options, parts) = (AppOptions::default(), EngineParts::default());
        Self {
            http: HttpLimits::default(),
            requests: options.requests,
            admission: options.admission,
            background_time: options.background_time,
            body_bytes: options.body_limit,
            file_bytes: options.upload_limit,
            prompt_file_bytes: parts.max_prompt_files,
            heartbeat: options.heartbeat,
            gathering: parts.max_gathering,
        }
    }
}

pub(super) fn limits(table: Table, mistakes: &mut Vec<String>) -> LimitsSection {
    let raw: RawLimits = read_table("limits.", table, mistakes);
    let max_cost = raw.max_cost.map(|cost| nanos("limits.max_cost", cost, mistakes));
    let runs = Limits { max_cost_nanos: max_cost.flatten(), ..of_runs(&raw) };
    LimitsSection { runs, server: of_server(&raw) }
}

fn of_runs(raw: &RawLimits) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits.max_turns, raw.max_turns.map(NonZeroU32::get));
    set(&mut limits.max_tool_calls, raw.max_tool_calls.map(NonZeroU32::get));
    set(&mut limits.max_parallel_calls, raw.max_parallel_calls.map(NonZeroU32::get));
    set(&mut limits.max_repeats, raw.max_repeats.map(NonZeroU32::get));
    set(&mut limits.max_recoveries, raw.max_recoveries.map(NonZeroU32::get));
    set(&mut limits.wall_clock, raw.wall_clock_sec.map(seconds));
    set(&mut limits.call_silence, raw.call_silence_sec.map(seconds));
    set(&mut limits.call_total, raw.call_total_sec.map(seconds));
    set(&mut limits.call_attempts, raw.call_attempts.map(NonZeroU32::get));
    set(&mut limits.model_silence, raw.model_silence_sec.map(seconds));
    set(&mut limits.model_total, raw.model_total_sec.map(seconds));
    set(&mut limits.model_attempts, raw.model_attempts.map(NonZeroU32::get));
    set(&mut limits.max_skipped_parts, raw.max_skipped_parts);
    set(&mut limits.output_to_model, raw.output_to_model_bytes.map(NonZeroUsize::get));
    set(&mut limits.output_in_journal, raw.output_in_journal_bytes.map(NonZeroUsize::get));
    set(&mut limits.max_turn_output, raw.max_turn_output_bytes.map(NonZeroUsize::get));
    set(&mut limits.max_run_output, raw.max_run_output_bytes.map(NonZeroUsize::get));
    set(&mut limits.max_arguments, raw.max_arguments_bytes.map(NonZeroUsize::get));
    limits
}

fn of_server(raw: &RawLimits) -> ServerLimits {
    let mut limits = ServerLimits::default();
    set(&mut limits.background_time, raw.background_sec.map(seconds));
    set(&mut limits.body_bytes, raw.max_body_bytes.map(NonZeroUsize::get));
    set(&mut limits.file_bytes, raw.max_file_bytes.map(NonZeroUsize::get));
    set(&mut limits.prompt_file_bytes, raw.max_prompt_file_bytes.map(NonZeroUsize::get));
    set(&mut limits.heartbeat, raw.keep_alive_sec.map(seconds));
    set(&mut limits.gathering, raw.max_gathering_ms.map(Duration::from_millis));
    set_admission(&mut limits.admission, raw);
    set_requests(&mut limits.requests, raw);
    set_http(&mut limits.http, raw);
    limits
}

fn set_admission(limits: &mut AdmissionLimits, raw: &RawLimits) {
    set(&mut limits.runs, raw.max_runs.map(NonZeroUsize::get));
    set(&mut limits.runs_per_tenant, raw.max_runs_per_tenant.map(NonZeroUsize::get));
    set(&mut limits.runs_per_key, raw.max_runs_per_key.map(NonZeroUsize::get));
    set(&mut limits.connections_per_key, raw.max_connections_per_key.map(NonZeroUsize::get));
}

fn set_requests(limits: &mut RequestLimits, raw: &RawLimits) {
    set(&mut limits.file_bytes, raw.max_input_file_bytes.map(NonZeroUsize::get));
    set(&mut limits.json.depth, raw.max_json_depth.map(NonZeroUsize::get));
    set(&mut limits.json.keys, raw.max_json_keys.map(NonZeroUsize::get));
    set(&mut limits.json.values, raw.max_json_values.map(NonZeroUsize::get));
    set(&mut limits.items, raw.max_input_items.map(NonZeroUsize::get));
    set(&mut limits.tools, raw.max_tools.map(NonZeroUsize::get));
    set(&mut limits.schema_bytes, raw.max_schema_bytes.map(NonZeroUsize::get));
    set(&mut limits.argument_bytes, raw.max_arguments_bytes.map(NonZeroUsize::get));
    set(&mut limits.body_time, raw.body_timeout_sec.map(seconds));
    set(&mut limits.upload_time, raw.upload_timeout_sec.map(seconds));
}

fn set_http(limits: &mut HttpLimits, raw: &RawLimits) {
    set(&mut limits.connections, raw.max_connections.map(NonZeroUsize::get));
    let per_address = raw.max_unknown_connections_per_address;
    set(&mut limits.unknown_per_address, per_address.map(NonZeroUsize::get));
    set(&mut limits.streams, raw.max_requests_per_connection.map(NonZeroU32::get));
    set(&mut limits.header_bytes, raw.max_header_bytes.map(NonZeroUsize::get));
    set(&mut limits.headers, raw.max_headers.map(NonZeroUsize::get));
    set(&mut limits.header_time, raw.header_timeout_sec.map(seconds));
    set(&mut limits.body_pause, raw.body_idle_timeout_sec.map(seconds));
    set(&mut limits.idle_time, raw.idle_timeout_sec.map(seconds));
    set(&mut limits.connection_time, raw.connection_timeout_sec.map(seconds));
    set(&mut limits.write_time, raw.write_timeout_sec.map(seconds));
    set(&mut limits.socket_time, raw.socket_timeout_sec.map(seconds));
    set(&mut limits.socket_message_bytes, raw.max_socket_message_bytes.map(NonZeroUsize::get));
    let per_second = raw.max_socket_messages_per_sec;
    set(&mut limits.socket_messages_per_second, per_second.map(NonZeroU32::get));
    set(&mut limits.socket_queue, raw.max_socket_queue.map(NonZeroUsize::get));
}

fn set<T>(limit: &mut T, choice: Option<T>) {
    if let Some(choice) = choice {
        *limit = choice;
    }
}

fn seconds(seconds: NonZeroU64) -> Duration {
    Duration::from_secs(seconds.get())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
