//! The current time and new ids.
//!
//! Both come from one type, so that a test can make them deterministic and compare whole journals.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;
use turnwire_contract::Timestamp;
use uuid::Uuid;

use crate::sync::lock;

/// 2026-01-01T00:00:00Z, the start of simulated time.
const SIMULATED_START: u128 = 1_767_225_600_000_000;

/// Source of the current time and of new ids.
#[derive(Debug)]
pub struct ClockAndIds(Source);

#[derive(Debug)]
enum Source {
    System,
    Simulated { began: Instant, ids: Mutex<HashMap<&'static str, u64>> },
    ByHand(AtomicI64),
}

impl ClockAndIds {
    /// Uses the system clock and random ids.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Uses the runtime's clock, which a test can pause, and ids that count from 1.
    ///
    /// Must be called inside a runtime.
    pub fn simulated() -> Self {
        Self(Source::Simulated { began: Instant::now(), ids: Mutex::default() })
    }

    /// Uses a clock that stands still until [`set`](Self::set) is called, and random ids.
    pub fn by_hand(now: Timestamp) -> Self {
        Self(Source::ByHand(AtomicI64::new(now.as_micros())))
    }

    /// Sets a clock that is set by hand. Others cannot be set.
    pub fn set(&self, now: Timestamp) {
        if let Source::ByHand(micros) = &self.0 {
            micros.store(now.as_micros(), Ordering::Relaxed);
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let micros = match &self.0 {
            Source::System => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
            }
            Source::Simulated { began, .. } => SIMULATED_START + began.elapsed().as_micros(),
            Source::ByHand(micros) => {
                return Timestamp::from_micros(micros.load(Ordering::Relaxed));
            }
        };
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Returns a new id that starts with `prefix`.
    pub fn new_id(&self, prefix: &'static str) -> String {
        match &self.0 {
            Source::System | Source::ByHand(_) => format!("{prefix}_{}", Uuid::new_v4().simple()),
            Source::Simulated { ids, .. } => {
                let mut ids = lock(ids);
                let n = ids.entry(prefix).or_default();
                *n += 1;
                format!("{prefix}_{n}")
            }
        }
    }
}
