//! The loop: ask the model, run the tools, record every step.
//!
//! Reading order:
//!
//! * [`runs`] is what others may ask: start, look, follow; `asking` is what may be asked of a
//!   run wherever it is: cancel, approve.
//! * `takeover` goes on with a run that another worker left; `lease_keeper` finds such runs, and
//!   leaves ours to others; `status` says how the engine is.
//! * `run_loop` is the whole run on one page; it carries out and decides nothing.
//! * [`run_state`] is what the events mean and what comes next: a pure fold; `citations` is what
//!   an answer cites, `output` how much the model may say.
//! * [`live_run`] is the one door to the journal.
//! * `discovery`, `model_turn` and `tool_call` carry out the three steps that take time;
//!   `prompt_files` reads the files that a question to the model names.
//! * [`policy`] says what people are asked about; [`definition`] and `pinning` notice tools that
//!   change; `concurrency` bounds how many calls go on at the same time.
//! * [`toolbox`], `tool_result`, `compaction`, `deadline`, `retry` and [`failures`] are what those
//!   lean on.
//! * [`memory`] keeps everything in this process; [`clock_and_ids`] gives time and ids.
//!
//! The engine never formats anything for a client, knows no provider and no database.
#![warn(clippy::wildcard_enum_match_arm)]

mod capabilities;
mod citations;
pub mod clock_and_ids;
mod commands;
mod compaction;
mod concurrency;
mod deadline;
pub mod definition;
mod depth;
mod discovery;
pub mod failures;
mod lease_keeper;
pub mod live_run;
pub mod memory;
mod model_turn;
mod output;
mod pinning;
pub mod policy;
mod prompt_files;
mod retry;
mod run_loop;
pub mod run_state;
pub mod runs;
mod start_run;
mod status;
mod sync;
mod takeover;
mod tool_call;
mod tool_result;
pub mod toolbox;
mod work_time;

pub use clock_and_ids::ClockAndIds;
pub use commands::{AnswerError, AnswerOutcome};
pub use live_run::LiveRun;
pub use memory::{MemoryBlobStore, MemoryJournal, MemoryPins, MemoryRunStore};
pub use policy::ApprovalPolicy;
pub use run_state::{RunState, Step};
pub use runs::{DeleteError, EngineParts, RunHandle, Runs, Start, StartError};
pub use toolbox::{Toolbox, ToolboxError};
