//! Counts and measurements.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnwire_contract::{Event, RecordedEvent, RunId, RunOutcome, ToolOutcome};

use crate::{
    checker::{GIVES_UP_AFTER, RunFacts, n_takeovers, outcome_of},
    observations::{FaultKind, InjectedFault, Observations},
    tool_log::ToolAction,
};

/// Durations in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<i64>);

impl Times {
    pub fn add(&mut self, micros: i64) {
        self.0.push(micros);
    }

    /// Returns the number of durations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a percentile in microseconds.
    pub fn percentile(&self, per_cent: usize) -> Option<i64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }

    /// Formats `p50 / p99 / max` in milliseconds.
    pub fn words(&self) -> String {
        let ms = |per_cent| self.percentile(per_cent).map_or(0, |micros| micros / 1_000);
        if self.is_empty() {
            return "none".to_owned();
        }
        let (p50, p99, max) = (ms(50), ms(99), ms(100));
        format!("p50 {p50} ms, p99 {p99} ms, max {max} ms (of {})", self.len())
    }

    fn json(&self) -> Value {
        let ms = |per_cent| self.percentile(per_cent).map(|micros| micros / 1_000);
        json!({ "n": self.len(), "p50_ms": ms(50), "p99_ms": ms(99), "max_ms": ms(100) })
    }
}

/// All counts and measurements.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Runs with a journal.
    pub n_runs: u64,
    /// Runs that were stored but never started; no client was told of them.
    pub n_never_began: u64,
    /// Events of all runs.
    pub n_events: u64,
    /// Runs by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Failed runs by failure code.
    pub failures: BTreeMap<String, u64>,
    /// Runs by shape.
    pub shapes: BTreeMap<&'static str, u64>,
    pub n_views: u64,
    /// Readers by surface.
    pub surfaces: BTreeMap<&'static str, u64>,
    pub n_connections: u64,
    /// Frames that readers received.
    pub n_frames: u64,
    pub n_takeovers: u64,
    /// Runs given up after too many takeovers.
    pub n_given_up: u64,
    pub n_calls: u64,
    /// Real executions of tools.
    pub n_executions: u64,
    /// Calls with an unknown outcome.
    pub n_unknown: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Kills of nodes that were executing runs.
    pub n_kills_at_work: u64,
    /// Appends rejected by fencing.
    pub n_fenced: u64,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a response.
    pub n_lost: u64,
    /// Unavailable responses without `Retry-After`.
    pub n_without_retry_after: u64,
    /// Conversations reported busy after the end of their run.
    pub n_busy_after_end: u64,
    /// From a kill to the takeover of a run.
    pub takeover: Times,
    /// From a cancel to the end of the run, on a worker without faults.
    pub cancel: Times,
    /// From the last event before a handover to the first one after it.
    pub drain: Times,
}

impl Figures {
    pub fn count(
        &mut self,
        run_id: &RunId,
        facts: &RunFacts,
        journal: &[RecordedEvent],
        faults: &[InjectedFault],
    ) {
        self.n_runs += 1;
        self.n_events += journal.len() as u64;
        *self.outcomes.entry(outcome_word(journal)).or_default() += 1;
        if let Some(submitted) = &facts.submitted {
            *self.shapes.entry(submitted.shape).or_default() += 1;
        }
        self.n_views += facts.views.len() as u64;
        for view in &facts.views {
            *self.surfaces.entry(view.surface.name()).or_default() += 1;
            self.n_connections += u64::from(view.n_connections);
            self.n_frames += view.seen.len() as u64;
        }
        let n_takeovers = n_takeovers(journal);
        self.n_takeovers += n_takeovers as u64;
        let has_failed = match outcome_of(journal) {
            Some(RunOutcome::Failed { failure }) => {
                *self.failures.entry(failure.code.clone()).or_default() += 1;
                true
            }
            _ => false,
        };
        self.n_given_up += u64::from(has_failed && n_takeovers >= GIVES_UP_AFTER);
        for recorded in journal {
            match &recorded.event {
                Event::ToolStarted { .. } => self.n_calls += 1,
                Event::ToolFinished { outcome: ToolOutcome::OutcomeUnknown { .. }, .. } => {
                    self.n_unknown += 1;
                }
                _ => {}
            }
        }
        let began = facts.tool_log.iter().filter(|line| line.what == ToolAction::Started);
        self.n_executions += began.count() as u64;
        self.measure(run_id, facts, journal, faults);
    }

    fn measure(
        &mut self,
        run_id: &RunId,
        facts: &RunFacts,
        journal: &[RecordedEvent],
        faults: &[InjectedFault],
    ) {
        for fault in faults.iter().filter(|fault| fault.owned.contains(run_id)) {
            let next = journal.windows(2).find_map(|pair| match pair {
                [before, after] => {
                    let is_it = matches!(after.event, Event::RunTakenOver { .. })
                        && after.at.as_micros() >= fault.at;
                    is_it.then(|| (before.at.as_micros(), after.at.as_micros()))
                }
                _ => None,
            });
            let Some((before, after)) = next else { continue };
            match fault.kind {
                FaultKind::Kill => self.takeover.add(after - fault.at),
                FaultKind::Term => self.drain.add(after - before.max(fault.at)),
                _ => {}
            }
        }
        let ended_at = journal.last().map(|recorded| recorded.at.as_micros());
        if let (Some(cancel), Some(ended_at)) = (&facts.cancel, ended_at)
            && outcome_of(journal) == Some(&RunOutcome::Cancelled)
        {
            let disturbs = |fault: &InjectedFault| {
                fault.at <= ended_at && fault.until + 2_000_000 >= cancel.asked_at
            };
            let was_disturbed =
                faults.iter().any(|fault| disturbs(fault) && fault.owned.contains(run_id))
                    || faults.iter().any(|fault| disturbs(fault) && fault.node.is_none());
            if !was_disturbed {
                self.cancel.add((ended_at - cancel.asked_at).max(0));
            }
        }
    }

    /// Adds what concerns no single run.
    pub fn close(&mut self, seen: &Observations) {
        for fault in &seen.faults {
            *self.faults.entry(fault.kind).or_default() += 1;
            let is_kill_at_work = fault.kind == FaultKind::Kill && !fault.owned.is_empty();
            self.n_kills_at_work += u64::from(is_kill_at_work);
        }
        let tally = &seen.tally;
        self.n_fenced = tally.fenced.values().sum();
        self.statuses.clone_from(&tally.statuses);
        self.n_lost = tally.n_lost;
        self.n_without_retry_after = tally.n_without_retry_after;
        self.n_busy_after_end = tally.n_busy_after_end;
    }

    /// Returns names and values, in display order.
    pub fn rows(&self) -> Vec<(String, String)> {
        let row = |name: &str, value: &dyn ToString| (name.to_owned(), value.to_string());
        let listed = |pairs: Vec<String>| pairs.join(", ");
        let mut rows = vec![
            row("runs", &self.n_runs),
            row("… by shape", &listed(pairs(&self.shapes))),
            row("… by outcome", &listed(pairs(&self.outcomes))),
            row("… that failed, by code", &listed(pairs(&self.failures))),
            row("… that failed after many deaths", &self.n_given_up),
            row("… that never began", &self.n_never_began),
            row("events", &self.n_events),
            row("readers", &self.n_views),
            row("… by surface", &listed(pairs(&self.surfaces))),
            row("… connections", &self.n_connections),
            row("… frames", &self.n_frames),
            row("kills of a node at work", &self.n_kills_at_work),
        ];
        rows.extend(self.faults.iter().map(|(kind, n)| row(kind.name(), n)));
        rows.extend([
            row("takeovers", &self.n_takeovers),
            row("writers turned away", &self.n_fenced),
            row("calls started", &self.n_calls),
            row("… executions", &self.n_executions),
            row("… with an unknown outcome", &self.n_unknown),
            row("answers by status", &listed(pairs(&self.statuses))),
            row("requests without an answer", &self.n_lost),
            row("503 without Retry-After", &self.n_without_retry_after),
            row("conversations busy after their end", &self.n_busy_after_end),
            row("takeover after a kill", &self.takeover.words()),
            row("cancel, worker undisturbed", &self.cancel.words()),
            row("gap of a handover", &self.drain.words()),
        ]);
        rows
    }

    pub fn json(&self) -> Value {
        let faults: BTreeMap<&str, u64> =
            self.faults.iter().map(|(kind, n)| (kind.name(), *n)).collect();
        json!({
            "runs": self.n_runs,
            "shapes": self.shapes,
            "outcomes": self.outcomes,
            "failures": self.failures,
            "given_up": self.n_given_up,
            "never_began": self.n_never_began,
            "events": self.n_events,
            "readers": self.n_views,
            "surfaces": self.surfaces,
            "connections": self.n_connections,
            "frames": self.n_frames,
            "kills_at_work": self.n_kills_at_work,
            "deeds": faults,
            "takeovers": self.n_takeovers,
            "fenced": self.n_fenced,
            "calls": self.n_calls,
            "executions": self.n_executions,
            "unknown_outcomes": self.n_unknown,
            "statuses": self.statuses,
            "lost_requests": self.n_lost,
            "without_retry_after": self.n_without_retry_after,
            "busy_after_end": self.n_busy_after_end,
            "takeover": self.takeover.json(),
            "cancel": self.cancel.json(),
            "drain": self.drain.json(),
        })
    }
}

fn pairs<K: ToString, V: ToString>(counted: &BTreeMap<K, V>) -> Vec<String> {
    counted.iter().map(|(key, n)| format!("{} {}", n.to_string(), key.to_string())).collect()
}

fn outcome_word(journal: &[RecordedEvent]) -> &'static str {
    match outcome_of(journal) {
        Some(RunOutcome::Completed) => "completed",
        Some(RunOutcome::Incomplete { .. }) => "incomplete",
        Some(RunOutcome::Failed { .. }) => "failed",
        Some(RunOutcome::Cancelled) => "cancelled",
        None => "without an end",
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.percentile(50), None);
        for n in 1..=200 {
            times.add(n * 1_000);
        }
        assert_eq!(times.percentile(50), Some(100_000));
        assert_eq!(times.percentile(99), Some(198_000));
        assert_eq!(times.percentile(100), Some(200_000));
    }
}
