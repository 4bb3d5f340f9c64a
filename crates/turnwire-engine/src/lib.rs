//! The agent loop: ask the model, run the tools, record every step.
//!
//! Reading order:
//!
//! * [`runs`] is the public API: start, find, follow. `start_run` creates a run and its journal.
//!   `commands` cancels, approves and replies, on any worker.
//! * `run_loop` executes the steps of a run and decides nothing. `run_context` is what the steps
//!   use and return.
//! * [`run_state`] is a pure fold over the events: `fold` applies an event, `next_step` decides,
//!   `closing` closes what is open, `questions` handles approvals and questions of tools.
//!   `citations` finds citations, `output` limits the model's output.
//! * [`live_run`] appends to the journal. `stopping` stops a run or hands it over, `people` records
//!   approvals and replies.
//! * `discovery`, `model_turn` and `tool_call` execute the steps that take time. `prompt_files`
//!   reads the files named in a prompt. `call_timers`, `large_output` and `tool_result` belong to
//!   tool calls.
//! * `takeover` continues a run of another worker. `lease_keeper` sends heartbeats, claims
//!   abandoned runs and releases leases; `lease_state` is what it knows. `run_feed` follows the
//!   runs of a tenant for lists and passes on `run_changes`. `capabilities` checks whether this
//!   worker can execute a run. `ephemeral` is the journal of runs that need no durable store.
//!   `polls` notes what each thread is doing. `status` reports on the engine, and `observers` are
//!   told what runs record.
//! * [`settings`] is what a reload replaces while runs are at work.
//! * [`quotas`] counts what tenants use, with the other servers of the store. [`access`] says who
//!   may use which model and tool, and `offers` lists what exists for the principal.
//! * [`policy`] decides which calls need an approval. [`definition`] and `pinning` detect changed
//!   tools. `concurrency` limits parallel calls. `work_time` measures a run against its time limit.
//! * [`schemas`] bounds what schemas from outside cost, and checks arguments against them.
//! * [`toolbox`], `compaction`, `deadline`, `depth`, `retry`, `sync` and [`failures`] are used by
//!   all of these.
//! * [`memory`] implements the stores in memory. [`clock_and_ids`] provides time and ids.
//!
//! The engine formats nothing for clients and depends on no provider and no database.
#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

pub mod access;
mod call_statistics;
mod call_timers;
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
mod ephemeral;
pub mod failures;
mod gathering;
mod large_output;
mod lease_keeper;
mod lease_state;
pub mod live_run;
pub mod memory;
mod model_turn;
mod model_wait;
mod observers;
mod offers;
mod output;
mod pinning;
pub mod policy;
mod polls;
mod prompt_files;
pub mod quotas;
mod retry;
mod run_changes;
mod run_context;
mod run_feed;
mod run_handle;
mod run_loop;
mod run_servers;
pub mod run_state;
pub mod runs;
pub mod schemas;
pub mod settings;
mod start_run;
mod status;
mod sync;
mod takeover;
mod tool_call;
mod tool_result;
mod tool_try;
pub mod toolbox;
mod trace_context;
mod when_woken;
mod work_time;

pub use access::{Access, AccessRules, Principal, ServerAccess};
pub use call_statistics::{CallPeriod, ServerCalls};
pub use clock_and_ids::ClockAndIds;
pub use commands::{AnswerError, AnswerOutcome};
pub use live_run::LiveRun;
pub use memory::{
    MemoryApiKeys, MemoryAuditLog, MemoryBlobStore, MemoryJournal, MemoryPins, MemoryRunStore,
    MemoryShares,
};
pub use policy::ApprovalPolicy;
pub use polls::{LongPoll, PollWatch};
pub use quotas::{
    Measure, Quota, QuotaAnswer, QuotaOptions, QuotaStatus, Quotas, RunSlot, SubjectUsage,
};
pub use run_changes::RunChange;
pub use run_handle::RunHandle;
pub use run_state::{RunState, Step};
pub use runs::{DeleteError, EngineParts, Runs, StartError, StartOptions};
pub use schemas::{SchemaTooComplex, check_schema, with_usable_schemas};
pub use settings::EngineSettings;
pub use tool_try::{ListedTool, one_call};
pub use toolbox::{Toolbox, ToolboxError};
pub use when_woken::WhenWoken;

/// Result of what appends to a journal, and may find it lost.
type Result<T, E = turnwire_contract::JournalError> = std::result::Result<T, E>;
