//! What reading an input may cost: bytes of memory and time, both linear in its size.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use tikv_jemalloc_ctl::thread;

use crate::Target;

/// Bytes that reading may allocate in all, whatever is freed meanwhile: a fixed part, and so many
/// for each byte of the input.
const ALLOCATED: u64 = 1024 * 1024;
const ALLOCATED_PER_BYTE: u64 = 1024;

/// The same for time. The program is not optimized and the machine is shared.
const TIME: Duration = Duration::from_millis(250);
const TIME_PER_BYTE: Duration = Duration::from_micros(10);

/// Number of times that a slow input is read before it counts as slow.
const TRIES: usize = 3;

/// Reads `input`. Returns what was wrong.
pub fn check(target: &Target, input: &[u8]) -> Result<(), String> {
    let size = input.len() as u64;
    let multiple = target.multiple;
    let max_time = (TIME + TIME_PER_BYTE * u32::try_from(size).unwrap_or(u32::MAX)) * multiple;
    let max_allocated = (ALLOCATED + ALLOCATED_PER_BYTE * size) * u64::from(multiple);
    // What is made once in a process is no cost of an input.
    let _ = catch_unwind(AssertUnwindSafe(|| (target.run)(b"")));
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let (before, began) = (allocated(), Instant::now());
        if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
            return Err("it panics".to_owned());
        }
        fastest = fastest.min(began.elapsed());
        let allocated = allocated().saturating_sub(before);
        if allocated > max_allocated {
            return Err(format!("it allocates {allocated} bytes for {size}"));
        }
        if fastest <= max_time {
            return Ok(());
        }
    }
    Err(format!("it takes {fastest:?} for {size} bytes"))
}

/// Bytes that this thread has ever allocated. Zero if the program has another allocator.
fn allocated() -> u64 {
    thread::allocatedp::read().map(thread::ThreadLocal::get).unwrap_or_default()
}
