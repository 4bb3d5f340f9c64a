//! Executes a scripted run in simulated time and returns its journal.
//!
//! With a paused clock (`#[tokio::test(start_paused = true)]`) the result is deterministic: the
//! same script gives the same journal, to the microsecond.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use turnwire_contract::{
    ApprovalAnswer, CallId, Decision, Event, Item, Limits, Model, NoToolServers, RecordedEvent,
    Reply, RunOutcome, RunRequest, ServerUse, TenantId, Tool, ToolServers,
};
use turnwire_engine::{
    ApprovalPolicy, ClockAndIds, EngineParts, QuotaOptions, RunHandle, Runs, Toolbox,
};
use turnwire_models::{Scripted, Turn};

/// A run to execute.
pub struct TestBench {
    model: Arc<dyn Model>,
    tools: Vec<Arc<dyn Tool>>,
    servers: Arc<dyn ToolServers>,
    request: RunRequest,
    tool_silent_interval: Duration,
    policy: ApprovalPolicy,
    quotas: QuotaOptions,
}

/// A command to the run.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    CancelRun,
    CancelCall(CallId),
    /// Resolves the approval of this call.
    Resolve(CallId, Decision),
    /// Resolves the approval of this call, with edits or a reason.
    Answer(CallId, ApprovalAnswer),
    /// Answers the question of this call's tool.
    Reply(CallId, Reply),
}

/// A completed run.
#[derive(Debug)]
pub struct Played {
    /// All of its events.
    pub journal: Vec<Arc<RecordedEvent>>,
    pub outcome: RunOutcome,
    /// The engine it ran on.
    pub runs: Runs,
    pub run: RunHandle,
}

impl TestBench {
    /// Creates a run of this script, with the input "Go.".
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::with_model(Arc::new(Scripted::new(turns)))
    }

    /// Creates a run with this model, with the input "Go.".
    pub fn with_model(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            tools: Vec::new(),
            servers: Arc::new(NoToolServers),
            request: RunRequest::new("scripted", vec![Item::user("Go.")]),
            tool_silent_interval: Duration::from_secs(5),
            policy: ApprovalPolicy::default(),
            quotas: QuotaOptions::default(),
        }
    }

    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds tool servers, all of which the run uses.
    pub fn servers(mut self, servers: impl ToolServers + 'static) -> Self {
        let labels = servers.labels(&self.request.tenant);
        self.request.servers = labels.into_iter().map(ServerUse::all_of).collect();
        self.servers = Arc::new(servers);
        self
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.request.limits);
        self
    }

    pub fn request(mut self, change: impl FnOnce(&mut RunRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// Sets the interval between two `ToolSilent` events.
    pub fn tool_silent_interval(mut self, tool_silent_interval: Duration) -> Self {
        self.tool_silent_interval = tool_silent_interval;
        self
    }

    pub fn policy(mut self, policy: ApprovalPolicy) -> Self {
        self.policy = policy;
        self
    }

    pub fn quotas(mut self, quotas: QuotaOptions) -> Self {
        self.quotas = quotas;
        self
    }

    /// Creates the engine and returns it with the request to start.
    pub fn set_up(self) -> (Runs, RunRequest) {
        let mut tools = Toolbox::default();
        for tool in self.tools {
            tools.add(tool).expect("the tools of a stage fit into one toolbox");
        }
        let mut request = self.request;
        request.tools.extend(tools.specs());
        let runs = Runs::new(EngineParts {
            tools,
            servers: self.servers,
            any_model: Some(self.model),
            clock_and_ids: Arc::new(ClockAndIds::simulated()),
            tool_silent_interval: self.tool_silent_interval,
            policy: self.policy,
            quotas: self.quotas,
            ..EngineParts::default()
        });
        (runs, request)
    }

    /// Executes the run to its end.
    pub async fn play(self) -> Played {
        self.play_with(|_| None).await
    }

    /// Executes the run to its end. After each event `director` may return a command.
    pub async fn play_with(
        self,
        mut director: impl FnMut(&RecordedEvent) -> Option<Act>,
    ) -> Played {
        let (runs, request) = self.set_up();
        let run = runs.start(request).await.expect("the run starts");
        let mut events = run.events().await.expect("the run can be followed");
        let mut journal = Vec::new();
        while let Some(recorded) = events.next().await {
            let recorded = recorded.expect("the journal can be read");
            if let Some(act) = director(&recorded) {
                perform(&runs, &run, act).await;
            }
            journal.push(recorded);
        }
        let outcome = run.outcome().await;
        Played { journal, outcome, runs, run }
    }
}

async fn perform(runs: &Runs, run: &RunHandle, act: Act) {
    match act {
        Act::CancelRun => run.cancel(),
        Act::CancelCall(call_id) => {
            run.cancel_call(&call_id);
        }
        Act::Resolve(call_id, decision) => {
            let tenant = TenantId::default();
            runs.resolve(&tenant, run.id(), &call_id, decision)
                .await
                .expect("the answer is recorded");
        }
        Act::Answer(call_id, answer) => {
            let tenant = TenantId::default();
            runs.answer(&tenant, run.id(), &call_id, answer).await.expect("the answer is recorded");
        }
        Act::Reply(call_id, reply) => {
            let tenant = TenantId::default();
            runs.reply(&tenant, run.id(), &call_id, None, reply, "test")
                .await
                .expect("the answer is recorded");
        }
    }
}

impl Played {
    /// Returns the events without their envelopes.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.journal.iter().map(|recorded| &recorded.event)
    }
}

impl std::fmt::Debug for TestBench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("request", &self.request).finish_non_exhaustive()
    }
}
