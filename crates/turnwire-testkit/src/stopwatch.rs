//! Times what a benchmark does.

use std::{
    env,
    hint::black_box,
    time::{Duration, Instant},
};

/// Does the work once to warm up and then `n_samples` times, and prints the fastest and the median
/// time, and how many items that is in a second. Words on the command line choose benchmarks by
/// their names.
pub fn measure<T>(name: &str, n_samples: usize, n_items: usize, mut work: impl FnMut() -> T) {
    let mut words = env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| name.contains(&word)) {
        return;
    }
    black_box(work());
    let mut times: Vec<Duration> = (0..n_samples.max(1))
        .map(|_| {
            let begin = Instant::now();
            black_box(work());
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    for (what, time) in [("fastest", times.first()), ("median", times.get(times.len() / 2))] {
        let time = time.copied().unwrap_or_default();
        tell(name, what, time, n_items);
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
fn tell(name: &str, what: &str, time: Duration, n_items: usize) {
    let per_second = n_items as f64 / time.as_secs_f64();
    println!("{name:<45} {what:<8} {time:>12.3?} {:>12.3} M items/s", per_second / 1e6);
}
