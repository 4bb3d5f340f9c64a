//! Statistics of the calls of configured tool servers: how many, how many failed, how long they
//! took.
//!
//! They are counters of this process: they cover its last 24 hours and no other worker. A list of
//! servers is read every few seconds, and must not read journals for it. Everything is bounded:
//! half hours of a day per server, the last durations per server and tool, and the number of
//! servers.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Mutex,
    time::Duration,
};

use turnwire_contract::{TenantId, Timestamp, ToolOutcome};

use crate::sync::lock;

/// Length of a period.
const PERIOD: Duration = Duration::from_mins(30);
/// Periods that are kept.
const MAX_PERIODS: i64 = 48;
/// Durations that are kept per server. Percentiles are those of the last calls.
const MAX_DURATIONS: usize = 500;
/// Durations that are kept per tool.
const MAX_TOOL_DURATIONS: usize = 32;
/// Tools per server that have durations. A server may have more; they have none.
const MAX_TOOLS: usize = 64;
/// Servers, counted per tenant. The one that was called longest ago gives way.
const MAX_SERVERS: usize = 500;

/// The calls of a server within the last 24 hours of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCalls {
    /// Number of calls that ended.
    pub n_calls: u64,
    /// Number of calls that failed, timed out, or have an unknown outcome.
    pub n_failed: u64,
    /// Median duration of the last calls.
    pub median: Option<Duration>,
    /// Duration that 95 % of the last calls did not exceed.
    pub p95: Option<Duration>,
    /// The half hours with calls, oldest first.
    pub periods: Vec<CallPeriod>,
    /// Median duration of the last calls of each tool, by its name as offered to models.
    pub tools: BTreeMap<String, Duration>,
}

/// The calls of a server within half an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPeriod {
    /// Start of the half hour.
    pub start: Timestamp,
    /// Number of calls that ended.
    pub n_calls: u64,
    /// Number of calls that failed.
    pub n_failed: u64,
    /// Mean duration, without cancelled calls.
    pub mean: Option<Duration>,
}

/// How a call ended, as far as it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Succeeded,
    Failed,
    /// A person ended it. Its duration says nothing about the server.
    Cancelled,
}

impl CallEnd {
    pub(crate) fn of(outcome: &ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Succeeded { .. } => Self::Succeeded,
            ToolOutcome::Cancelled | ToolOutcome::Denied { .. } | ToolOutcome::Skipped { .. } => {
                Self::Cancelled
            }
            ToolOutcome::Failed { .. }
            | ToolOutcome::TimedOut { .. }
            | ToolOutcome::InvalidArguments { .. }
            | ToolOutcome::NotFound { .. }
            | ToolOutcome::OutcomeUnknown { .. } => Self::Failed,
        }
    }
}

/// The statistics of all servers.
#[derive(Debug, Default)]
pub(crate) struct CallStatistics(Mutex<HashMap<(TenantId, String), Counters>>);

#[derive(Debug, Default)]
struct Counters {
    last_used: i64,
    periods: VecDeque<Period>,
    durations: VecDeque<Sample>,
    tools: BTreeMap<String, VecDeque<Sample>>,
}

#[derive(Debug, Default)]
struct Period {
    /// Number of the half hour since 1970.
    number: i64,
    n_calls: u64,
    n_failed: u64,
    n_timed: u32,
    total: Duration,
}

/// The duration of a call in a period.
#[derive(Debug, Clone, Copy)]
struct Sample {
    period: i64,
    elapsed: Duration,
}

impl CallStatistics {
    /// Counts a call of `tool` on `server` that ended at `now`.
    pub(crate) fn note(
        &self,
        (tenant, server, tool): (&TenantId, &str, &str),
        end: CallEnd,
        elapsed: Duration,
        now: Timestamp,
    ) {
        let mut servers = lock(&self.0);
        let key = (tenant.clone(), server.to_owned());
        if servers.len() >= MAX_SERVERS && !servers.contains_key(&key) {
            let oldest = servers.iter().min_by_key(|(_, counters)| counters.last_used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                servers.remove(&key);
            }
        }
        servers.entry(key).or_default().note(tool, end, elapsed, now);
    }

    /// Returns the calls of a server.
    pub(crate) fn calls(&self, tenant: &TenantId, server: &str, now: Timestamp) -> ServerCalls {
        let servers = lock(&self.0);
        let counters = servers.get(&(tenant.clone(), server.to_owned()));
        counters.map(|counters| counters.calls(now)).unwrap_or_default()
    }
}

impl Counters {
    fn note(&mut self, tool: &str, end: CallEnd, elapsed: Duration, now: Timestamp) {
        self.last_used = now.as_micros();
        let number = number_of(now);
        self.periods.retain(|period| is_recent(period.number, now));
        // A clock that was set back goes on with the last period.
        if self.periods.back().is_none_or(|last| last.number < number) {
            self.periods.push_back(Period { number, ..Period::default() });
        }
        let Some(period) = self.periods.back_mut() else { return };
        period.n_calls += 1;
        period.n_failed += u64::from(end == CallEnd::Failed);
        if end == CallEnd::Cancelled {
            return;
        }
        period.n_timed += 1;
        period.total += elapsed;
        let sample = Sample { period: number, elapsed };
        push(&mut self.durations, sample, MAX_DURATIONS);
        if self.tools.contains_key(tool) || self.tools.len() < MAX_TOOLS {
            push(self.tools.entry(tool.to_owned()).or_default(), sample, MAX_TOOL_DURATIONS);
        }
    }

    fn calls(&self, now: Timestamp) -> ServerCalls {
        let recent = self.periods.iter().filter(|period| is_recent(period.number, now));
        let periods: Vec<CallPeriod> = recent.map(Period::summary).collect();
        let median_of = |(name, samples): (&String, &VecDeque<Sample>)| {
            Some((name.clone(), percentile(samples, 50, now)?))
        };
        ServerCalls {
            n_calls: periods.iter().map(|period| period.n_calls).sum(),
            n_failed: periods.iter().map(|period| period.n_failed).sum(),
            median: percentile(&self.durations, 50, now),
            p95: percentile(&self.durations, 95, now),
            tools: self.tools.iter().filter_map(median_of).collect(),
            periods,
        }
    }
}

impl Period {
    fn summary(&self) -> CallPeriod {
        CallPeriod {
            start: Timestamp::from_micros(self.number.saturating_mul(period_micros())),
            n_calls: self.n_calls,
            n_failed: self.n_failed,
            mean: self.total.checked_div(self.n_timed),
        }
    }
}

fn period_micros() -> i64 {
    i64::try_from(PERIOD.as_micros()).unwrap_or(i64::MAX)
}

fn number_of(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(period_micros())
}

fn is_recent(number: i64, now: Timestamp) -> bool {
    number > number_of(now) - MAX_PERIODS
}

fn push(samples: &mut VecDeque<Sample>, sample: Sample, most: usize) {
    if samples.len() >= most {
        samples.pop_front();
    }
    samples.push_back(sample);
}

/// The smallest duration that at least `percent` of the recent samples do not exceed.
fn percentile(samples: &VecDeque<Sample>, percent: usize, now: Timestamp) -> Option<Duration> {
    let recent = samples.iter().filter(|sample| is_recent(sample.period, now));
    let mut sorted: Vec<Duration> = recent.map(|sample| sample.elapsed).collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
#[path = "call_statistics_tests.rs"]
mod tests;
