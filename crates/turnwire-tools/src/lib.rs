//! What the model can use: adapters of the [`Tool`](turnwire_contract::Tool) port.
//!
//! Reading order: [`function`] makes a tool out of a typed Rust function, [`output`] is what
//! such a function may return, and [`schema`] is what the model is told about its arguments.
//!
//! This crate only adapts. Checking arguments, timeouts, retries, cancellation and events are
//! the engine's, once, for all tools.

pub mod function;
pub mod output;
pub mod schema;

pub use function::{FunctionTool, NoArguments};
pub use output::{IntoToolOutput, Json};
