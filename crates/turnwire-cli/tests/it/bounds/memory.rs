//! How much memory a process takes, with those that it has started.

use std::{
    fs,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Resident memory of a process and of what it has started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    pub(super) own: usize,
    pub(super) children: usize,
}

impl Resident {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let own: usize = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = threads.map(|thread| {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let each = children.split_whitespace().map(|pid| Self::of(pid.parse().unwrap()));
            each.map(|it| it.own + it.children).sum::<usize>()
        });
        Self { own: own * 1024, children: children.sum() }
    }

    fn or_more(self, other: Self) -> Self {
        Self { own: self.own.max(other.own), children: self.children.max(other.children) }
    }
}

/// Looks at the memory of a process all the time.
pub(super) struct Memory(Arc<Mutex<MemoryState>>);

struct MemoryState {
    now: Resident,
    peak: Resident,
}

impl Memory {
    pub(super) fn watch(pid: u32) -> Self {
        let now = Resident::of(pid);
        let state = Arc::new(Mutex::new(MemoryState { now, peak: now }));
        let looked_at = Arc::downgrade(&state);
        thread::spawn(move || {
            while let Some(state) = looked_at.upgrade() {
                let now = Resident::of(pid);
                let mut state = state.lock().unwrap();
                *state = MemoryState { now, peak: state.peak.or_more(now) };
                drop(state);
                thread::sleep(Duration::from_millis(15));
            }
        });
        Self(state)
    }

    /// Forgets the peak, and returns what is taken now.
    pub(super) fn restart(&self) -> Resident {
        let mut state = self.0.lock().unwrap();
        state.peak = state.now;
        state.now
    }

    pub(super) fn peak(&self) -> Resident {
        self.0.lock().unwrap().peak
    }
}
