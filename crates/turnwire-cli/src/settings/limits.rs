//! `[limits]`: limits of runs and of the server.
//!
//! `docs/limits.md` says what happens at each limit. A test compares the two.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire::{Limits, engine::EngineParts};
use turnwire_gateway::{AdmissionLimits, AppOptions, HttpLimits, RequestLimits};

use super::{file::read_table, words::nanos};

/// How a limit is written in the file.
trait Written<T>: Sized {
    fn read(self) -> T;

    /// The number that stands for a default.
    fn of(usual: &T) -> u64;
}

/// Implements [`Written`] for numbers that mean themselves.
macro_rules! numbers {
    ($($number:ty => $meaning:ty: $read:expr;)*) => {$(
        impl Written<$meaning> for $number {
            fn read(self) -> $meaning {
                $read(self)
            }

            fn of(usual: &$meaning) -> u64 {
                u64::try_from(*usual).unwrap_or(u64::MAX)
            }
        }
    )*};
}

numbers! {
    NonZeroU32 => u32: NonZeroU32::get;
    NonZeroUsize => usize: NonZeroUsize::get;
    u32 => u32: u32::from;
}

/// Seconds: the keys end in `_sec`.
impl Written<Duration> for NonZeroU64 {
    fn read(self) -> Duration {
        Duration::from_secs(self.get())
    }

    fn of(usual: &Duration) -> u64 {
        usual.as_secs()
    }
}

/// Milliseconds: the key ends in `_ms`.
impl Written<Duration> for u64 {
    fn read(self) -> Duration {
        Duration::from_millis(self)
    }

    fn of(usual: &Duration) -> u64 {
        Self::try_from(usual.as_millis()).unwrap_or(Self::MAX)
    }
}

/// Defines the section as written in the file: the keys, and what each of them sets. The defaults
/// are those of the places.
macro_rules! section {
    ($($(#[$doc:meta])* $key:ident: $number:ty $(=> $($place:ident).+)*,)*) => {
        /// Limits of runs, requests and connections. limits.md describes what happens when each is
        /// exceeded.
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct RawLimits {
            $(
                $(#[$doc])*
                #[schemars(extend("default" = usual(stringify!($key))))]
                $key: Option<$number>,
            )*
        }

        impl RawLimits {
            /// Sets the limits that are in the file.
            fn apply(&self, limits: &mut LimitsSection) {
                $($(
                    if let Some(number) = self.$key {
                        limits.$($place).+ = number.read();
                    }
                )*)*
            }
        }

        /// The default of a key, if it has one.
        fn usual(key: &str) -> Option<u64> {
            let usual = LimitsSection::default();
            $(
                if key == stringify!($key) {
                    let places: &[u64] = &[$(<$number>::of(&usual.$($place).+)),*];
                    return places.first().copied();
                }
            )*
            None
        }
    };
}

section! {
    // Limits of a run.
    /// Model turns per run
    max_turns: NonZeroU32 => runs.max_turns,
    /// Tool calls per run
    max_tool_calls: NonZeroU32 => runs.max_tool_calls,
    /// Cost of a run from which a person is asked before it goes on after tool calls. Less than
    /// `max_cost`
    ask_cost: f64,
    /// Budget of a run, in the currency of the prices of its models: once it is reached, the model
    /// is not asked again
    max_cost: f64,
    /// Concurrent tool calls per run
    max_parallel_calls: NonZeroU32 => runs.max_parallel_calls,
    /// Consecutive turns with the same calls and the same results
    max_repeats: NonZeroU32 => runs.max_repeats,
    /// Workers that may die during a run without progress before the run fails
    max_recoveries: NonZeroU32 => runs.max_recoveries,
    /// Working time of a run, without waiting for a person
    wall_clock_sec: NonZeroU64 => runs.wall_clock,
    /// How long a tool may be silent
    call_silence_sec: NonZeroU64 => runs.call_silence,
    /// Total duration of a call
    call_total_sec: NonZeroU64 => runs.call_total,
    /// Attempts for a call that fails temporarily, if it may be repeated
    call_attempts: NonZeroU32 => runs.call_attempts,
    /// How long the model may be silent
    model_silence_sec: NonZeroU64 => runs.model_silence,
    /// Duration of one model answer
    model_total_sec: NonZeroU64 => runs.model_total,
    /// Attempts for one model answer
    model_attempts: NonZeroU32 => runs.model_attempts,
    /// Unreadable parts of an answer that are skipped before the turn ends; 0: none
    max_skipped_parts: u32 => runs.max_skipped_parts,
    /// Size of a result that the model receives
    output_to_model_bytes: NonZeroUsize => runs.output_to_model,
    /// Size of a result in the journal; larger results are stored in full as a blob
    output_in_journal_bytes: NonZeroUsize => runs.output_in_journal,
    /// Size of one model answer
    max_turn_output_bytes: NonZeroUsize => runs.max_turn_output,
    /// Total size of all model answers of a run
    max_run_output_bytes: NonZeroUsize => runs.max_run_output,
    /// Size of the arguments of a call
    max_arguments_bytes: NonZeroUsize => runs.max_arguments => server.requests.argument_bytes,
    // Limits on concurrent work.
    /// Concurrent runs of this process
    max_runs: NonZeroUsize => server.admission.runs,
    /// Concurrent runs of one tenant
    max_runs_per_tenant: NonZeroUsize => server.admission.runs_per_tenant,
    /// Concurrent runs of one API key
    max_runs_per_key: NonZeroUsize => server.admission.runs_per_key,
    /// Open requests, streams and WebSockets of one API key
    max_connections_per_key: NonZeroUsize => server.admission.connections_per_key,
    /// Full results of calls that callers with a key of one tenant read at the same time
    max_results_per_tenant: NonZeroUsize => server.admission.results_per_tenant,
    /// Open requests and streams with one share link
    max_readers_per_link: NonZeroUsize => server.admission.readers_per_link,
    /// Open requests and streams with share links of one tenant
    max_readers_per_tenant: NonZeroUsize => server.admission.readers_per_tenant,
    /// Open requests and streams of one address with share links
    max_readers_per_address: NonZeroUsize => server.admission.readers_per_address,
    // Limits on a request.
    /// Duration of a background run
    background_sec: NonZeroU64 => server.background_time,
    /// Size of a JSON body
    max_body_bytes: NonZeroUsize => server.body_bytes,
    /// Size of an uploaded file; at most 64 MiB, larger values have no effect
    max_file_bytes: NonZeroUsize => server.file_bytes,
    /// Total size of the files that an input references, in base64
    max_input_file_bytes: NonZeroUsize => server.requests.file_bytes,
    /// Total size of the files in all concurrent model requests
    max_prompt_file_bytes: NonZeroUsize => server.prompt_file_bytes,
    /// Nesting depth of a JSON body
    max_json_depth: NonZeroUsize => server.requests.json.depth,
    /// Keys in a JSON body
    max_json_keys: NonZeroUsize => server.requests.json.keys,
    /// Values in a JSON body
    max_json_values: NonZeroUsize => server.requests.json.values,
    /// Items of an input
    max_input_items: NonZeroUsize => server.requests.items,
    /// Tools of a request
    max_tools: NonZeroUsize => server.requests.tools,
    /// Size of a schema
    max_schema_bytes: NonZeroUsize => server.requests.schema_bytes,
    /// Time to receive a JSON body
    body_timeout_sec: NonZeroU64 => server.requests.body_time,
    /// Time to receive an upload
    upload_timeout_sec: NonZeroU64 => server.requests.upload_time,
    // Limits on a connection.
    /// Client connections, including WebSockets
    max_connections: NonZeroUsize => server.http.connections,
    /// Connections of one address without an authenticated request
    max_unknown_connections_per_address: NonZeroUsize => server.http.unknown_per_address,
    /// Concurrent requests on one HTTP/2 connection
    max_requests_per_connection: NonZeroU32 => server.http.streams,
    /// Total size of the headers of a request
    max_header_bytes: NonZeroUsize => server.http.header_bytes,
    /// Number of headers of a request
    max_headers: NonZeroUsize => server.http.headers,
    /// Time to receive the headers
    header_timeout_sec: NonZeroU64 => server.http.header_time,
    /// How long a body may pause
    body_idle_timeout_sec: NonZeroU64 => server.http.body_pause,
    /// How long a connection may be open without a request
    idle_timeout_sec: NonZeroU64 => server.http.idle_time,
    /// How long a connection accepts requests
    connection_timeout_sec: NonZeroU64 => server.http.connection_time,
    /// How long a client may leave written data unread
    write_timeout_sec: NonZeroU64 => server.http.write_time,
    /// The longest silence on a stream
    keep_alive_sec: NonZeroU64 => server.keep_alive_interval,
    /// How long parts of an answer wait for those that follow when many answers are streamed at
    /// once; `0`: never
    max_gathering_ms: u64 => server.gathering,
    /// How long a WebSocket of `/v1/responses` may be open
    socket_timeout_sec: NonZeroU64 => server.http.socket_time,
    /// Size of a WebSocket message
    max_socket_message_bytes: NonZeroUsize => server.http.socket_message_bytes,
    /// WebSocket frames per second
    max_socket_messages_per_sec: NonZeroU32 => server.http.socket_messages_per_second,
    /// Turns queued on a WebSocket
    max_socket_queue: NonZeroUsize => server.http.socket_queue,
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
    pub(crate) keep_alive_interval: Duration,
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
            keep_alive_interval: options.keep_alive_interval,
            gathering: parts.max_gathering,
        }
    }
}

pub(super) fn limits(table: Table, mistakes: &mut Vec<String>) -> LimitsSection {
    let raw: RawLimits = read_table("limits", table, mistakes);
    let mut limits = LimitsSection::default();
    raw.apply(&mut limits);
    let max_cost = raw.max_cost.map(|cost| nanos("limits.max_cost", cost, mistakes));
    limits.runs.max_cost_nanos = max_cost.flatten();
    let ask_cost = raw.ask_cost.map(|cost| nanos("limits.ask_cost", cost, mistakes));
    limits.runs.ask_cost_nanos = ask_cost.flatten();
    let (soft, hard) = (limits.runs.ask_cost_nanos, limits.runs.max_cost_nanos);
    if soft.zip(hard).is_some_and(|(soft, hard)| soft >= hard) {
        let why = "the run would end at `max_cost` before anybody is asked; set it below";
        mistakes.push(format!("limits.ask_cost: {why}"));
    }
    limits
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
