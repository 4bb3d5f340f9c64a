//! The `turnwire` binary.

use std::process::ExitCode;

/// A server lives for months: what a burst of work needed must go back to the system, which the
/// allocator of the C library does by chance.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    turnwire_cli::main()
}
