//! The loop: ask the model, run the tools, record every step.
//!
//! Reading order:
//!
//! * [`runs`] is what others may ask: start, look, follow; `asking` is what may be asked of a
//!   run wherever it is: cancel, approve.
//! * `takeover` goes on with a run that another worker left; `caretaker` finds such runs, and
//!   leaves ours to others; `standing` says how the engine is.
//! * `run_loop` is the whole run on one page; it carries out and decides nothing.
//! * [`run_state`] is what the events mean and what comes next: a pure fold; `citations` is what
//!   an answer cites, `output` how much the model may say.
//! * [`live_run`] is the one door to the journal.
//! * `discovery`, `model_turn` and `tool_call` carry out the three steps that take time;
//!   `prompt_files` reads the files that a question to the model names.
//! * [`policy`] says what people are asked about; [`definition`] and `pinning` notice tools that
//!   change; `lanes` bounds how many calls go on at the same time.
//! * [`toolbox`], `told_to_model`, `compaction`, `deadline`, `retry` and [`failures`] are what those
//!   lean on.
//! * [`memory`] keeps everything in this process; [`ambient`] gives time and ids.
//!
//! The engine never formats anything for a client, knows no provider and no database.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod ambient;
mod asking;
mod beginning;
mod capabilities;
mod caretaker;
mod citations;
mod compaction;
mod deadline;
pub mod definition;
mod depth;
mod discovery;
pub mod failures;
mod lanes;
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
mod standing;
mod sync;
mod takeover;
mod told_to_model;
mod tool_call;
pub mod toolbox;
mod work_time;

pub use ambient::Ambient;
pub use asking::{AnswerError, Answered};
pub use live_run::LiveRun;
pub use memory::{MemoryBlobStore, MemoryEventLog, MemoryPins, MemoryRunStore};
pub use policy::ApprovalPolicy;
pub use run_state::{RunState, Step};
pub use runs::{EngineParts, ForgetError, RunHandle, Runs, Start, StartError};
pub use toolbox::{Toolbox, ToolboxError};
