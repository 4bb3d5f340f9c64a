//! Limits of a request, and their settings.
//!
//! Every limit has a setting in `[limits]`, a stable error code or outcome, and a counter by the
//! name of its setting (`turnwire_limits_reached_total`). `docs/limits.md` lists them all.

use std::time::Duration;

use crate::json::JsonLimits;

/// Setting of [`ConnectionLimits::known`].
pub(crate) const MAX_CONNECTIONS: &str = "limits.max_connections";
/// Setting of [`ConnectionLimits::unknown_per_address`].
pub(crate) const MAX_UNKNOWN: &str = "limits.max_unknown_connections_per_address";
/// Setting of [`HttpLimits::write_time`].
pub(crate) const WRITE_TIMEOUT: &str = "limits.write_timeout_sec";
/// Setting of the maximum message size.
pub(crate) const MAX_MESSAGE: &str = "limits.max_socket_message_bytes";
/// Setting of the maximum number of frames per second.
pub(crate) const MAX_PER_SECOND: &str = "limits.max_socket_messages_per_sec";
/// Setting of the maximum number of queued turns.
pub(crate) const MAX_QUEUE: &str = "limits.max_socket_queue";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// Time to receive a JSON body.
    pub body_time: Duration,
    /// Time to receive an upload.
    pub upload_time: Duration,
    /// Limits on the structure of a JSON body.
    pub json: JsonLimits,
    /// Maximum number of input items.
    pub items: usize,
    /// Maximum number of tools.
    pub tools: usize,
    /// Maximum size of a JSON schema, in bytes.
    pub schema_bytes: usize,
    /// Maximum size of the arguments of a call in the input, in bytes.
    pub argument_bytes: usize,
    /// Maximum total size of the files the input refers to, in bytes of base64. Each reference
    /// counts.
    pub file_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_time: Duration::from_mins(2),
            upload_time: Duration::from_mins(30),
            json: JsonLimits::default(),
            items: 1_000,
            tools: 128,
            schema_bytes: 64 * 1024,
            argument_bytes: 256 * 1024,
            file_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Limits of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum total size of the headers, in bytes.
    pub header_bytes: usize,
    /// Maximum number of headers.
    pub headers: usize,
    /// Time to receive the headers.
    pub header_time: Duration,
    /// Maximum pause while receiving a body.
    pub body_pause: Duration,
    /// Maximum number of authenticated connections, including WebSockets.
    pub connections: usize,
    /// Maximum number of unauthenticated connections of one address.
    pub unknown_per_address: usize,
    /// Time a connection may be open without a request.
    pub idle_time: Duration,
    /// Time a connection accepts requests.
    pub connection_time: Duration,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Time for a client to read what is written to it.
    pub write_time: Duration,
    /// Time a WebSocket on `/v1/responses` may be used.
    pub socket_time: Duration,
    /// Maximum size of a WebSocket message, in bytes.
    pub socket_message_bytes: usize,
    /// Maximum number of frames per second on a WebSocket.
    pub socket_messages_per_second: u32,
    /// Maximum number of queued turns on a WebSocket.
    pub socket_queue: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            header_bytes: 32 * 1024,
            headers: 100,
            header_time: Duration::from_secs(10),
            body_pause: Duration::from_secs(30),
            connections: 5_000,
            unknown_per_address: 256,
            idle_time: Duration::from_mins(1),
            connection_time: Duration::from_hours(1),
            streams: 100,
            write_time: Duration::from_secs(30),
            socket_time: Duration::from_hours(1),
            socket_message_bytes: 1024 * 1024,
            socket_messages_per_second: 50,
            socket_queue: 16,
        }
    }
}

/// The settings of all limits that are counted.
pub const COUNTED: [&str; 31] = [
    "limits.max_body_bytes",
    "limits.max_file_bytes",
    "limits.max_json_depth",
    "limits.max_json_keys",
    "limits.max_json_values",
    "limits.max_input_items",
    "limits.max_tools",
    "limits.max_schema_bytes",
    "limits.max_arguments_bytes",
    "limits.max_input_file_bytes",
    "limits.body_timeout_sec",
    "limits.body_idle_timeout_sec",
    "limits.upload_timeout_sec",
    "limits.max_runs",
    "limits.max_runs_per_tenant",
    "limits.max_runs_per_key",
    "limits.max_connections_per_key",
    "limits.max_results_per_tenant",
    "limits.max_readers_per_link",
    "limits.max_readers_per_tenant",
    "limits.max_readers_per_address",
    MAX_CONNECTIONS,
    MAX_UNKNOWN,
    "limits.header_timeout_sec",
    "limits.idle_timeout_sec",
    "limits.connection_timeout_sec",
    WRITE_TIMEOUT,
    "limits.socket_timeout_sec",
    MAX_MESSAGE,
    MAX_PER_SECOND,
    MAX_QUEUE,
];

/// The settings of all quotas that are counted.
pub const COUNTED_QUOTAS: [&str; 7] = [
    "quotas.requests_per_minute",
    "quotas.tokens_per_minute",
    "quotas.tokens_per_day",
    "quotas.tool_calls_per_day",
    "quotas.cost_per_month",
    "quotas.runs_at_once",
    "quotas.stored_bytes",
];

/// The setting of the limit that an error code stands for.
pub(crate) fn limit_of(code: &str) -> Option<&'static str> {
    let limit = match code {
        "body_too_large" => "limits.max_body_bytes",
        "file_too_large" => "limits.max_file_bytes",
        "json_too_deep" => "limits.max_json_depth",
        "json_too_many_keys" => "limits.max_json_keys",
        "json_too_many_values" => "limits.max_json_values",
        "too_many_items" => "limits.max_input_items",
        "too_many_tools" => "limits.max_tools",
        "schema_too_large" => "limits.max_schema_bytes",
        "arguments_too_large" => "limits.max_arguments_bytes",
        "input_too_large" => "limits.max_input_file_bytes",
        "too_many_connections" => "limits.max_connections_per_key",
        "websocket_stream_limit_reached" => "limits.max_socket_queue",
        "websocket_connection_limit_reached" => "limits.socket_timeout_sec",
        _ => return None,
    };
    Some(limit)
}

/// Response extension with the setting of the limit that was reached, for the layer that counts
/// limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitReached(pub(crate) &'static str);
