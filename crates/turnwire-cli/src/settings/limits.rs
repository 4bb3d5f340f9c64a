//! `[limits]`: how far a run may go.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    time::Duration,
};

use serde::Deserialize;
use toml::Table;
use turnwire::Limits;

use super::file::{RawTable, read_table};

/// The section as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLimits {
    max_turns: Option<NonZeroU32>,
    max_tool_calls: Option<NonZeroU32>,
    max_parallel_calls: Option<NonZeroU32>,
    max_repeats: Option<NonZeroU32>,
    max_recoveries: Option<NonZeroU32>,
    wall_clock_sec: Option<NonZeroU64>,
    call_silence_sec: Option<NonZeroU64>,
    call_total_sec: Option<NonZeroU64>,
    call_attempts: Option<NonZeroU32>,
    model_silence_sec: Option<NonZeroU64>,
    model_total_sec: Option<NonZeroU64>,
    model_attempts: Option<NonZeroU32>,
    max_skipped_parts: Option<u32>,
    output_to_model_bytes: Option<NonZeroUsize>,
    output_in_journal_bytes: Option<NonZeroUsize>,
}

impl RawTable for RawLimits {
    const KEYS: &'static [&'static str] = &[
        "max_turns",
        "max_tool_calls",
        "max_parallel_calls",
        "max_repeats",
        "max_recoveries",
        "wall_clock_sec",
        "call_silence_sec",
        "call_total_sec",
        "call_attempts",
        "model_silence_sec",
        "model_total_sec",
        "model_attempts",
        "max_skipped_parts",
        "output_to_model_bytes",
        "output_in_journal_bytes",
    ];
}

pub(super) fn limits(table: Table, mistakes: &mut Vec<String>) -> Limits {
    let raw: RawLimits = read_table("limits.", table, mistakes);
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
    limits
}

fn set<T>(limit: &mut T, wish: Option<T>) {
    if let Some(wish) = wish {
        *limit = wish;
    }
}

fn seconds(seconds: NonZeroU64) -> Duration {
    Duration::from_secs(seconds.get())
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
