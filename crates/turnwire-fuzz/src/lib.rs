//! Hostile input for every reader of strangers' bytes.
//!
//! A [`Target`] is a function that reads bytes, with the folders of its corpus. The program `fuzz`
//! runs all targets on inputs that [`Mutator`] makes from the corpus, and [`bounds`] says what an
//! input may cost. The same targets run under libFuzzer, which looks for new paths through the
//! code: see `scripts/fuzz`.
//!
//! An input that was found is kept in `corpus/TARGET/`; every run begins with these.

pub mod bounds;
mod mutator;
mod targets;

pub use mutator::Mutator;
pub use targets::{TARGETS, Target};
