//! What every handler works with.

use std::{future::pending, sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{Library, Limits, RunRequest, ServerUse, ToolKind, ToolSpec};
use turnwire_engine::Runs;

use crate::{
    admission::{Admission, AdmissionLimits},
    door::{Caller, Door, DoorOptions},
    health::Readiness,
    limits::RequestLimits,
    metrics::Metrics,
    sse::HEARTBEAT,
};

/// What the operator says about the server, beside what the engine is made of.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// The model that is asked when a request names none.
    pub default_model: String,
    /// The model that answers for names that no model goes by. Without one, such a name is
    /// refused.
    pub fallback_model: Option<String>,
    /// What the model is told on `/chat` and `/ws/chat`.
    pub instructions: Option<String>,
    /// How far a run may go.
    pub limits: Limits,
    /// For how many messages of a chat the model is shown the results of tools whole.
    pub whole_results_for: u32,
    /// How far a run in the background may go.
    pub background_time: Duration,
    /// How many bytes of a JSON body are read.
    pub body_limit: usize,
    /// How many bytes an uploaded file may have.
    pub upload_limit: usize,
    /// How much else a request may bring.
    pub requests: RequestLimits,
    /// Who may come in.
    pub door: DoorOptions,
    /// How much is admitted at once.
    pub admission: AdmissionLimits,
    /// By what name this server is known among those that share its store.
    pub worker: Option<String>,
    /// The longest silence on a stream.
    pub heartbeat: Duration,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            default_model: "default".to_owned(),
            fallback_model: None,
            instructions: None,
            limits: Limits::default(),
            whole_results_for: 3,
            background_time: Duration::from_hours(24),
            body_limit: 4 * 1024 * 1024,
            upload_limit: 64 * 1024 * 1024,
            requests: RequestLimits::default(),
            door: DoorOptions::default(),
            admission: AdmissionLimits::default(),
            worker: None,
            heartbeat: HEARTBEAT,
        }
    }
}

/// What every handler works with. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    runs: Runs,
    library: Arc<dyn Library>,
    options: AppOptions,
    door: Door,
    admission: Admission,
    metrics: Metrics,
    readiness: Readiness,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl App {
    /// An app around the engine `runs`, with the files of `library`.
    pub fn new(runs: Runs, library: Arc<dyn Library>, options: AppOptions) -> Self {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let door = Door::new(&options.door);
        let admission = Admission::new(options.admission.clone());
        let parts = Parts {
            runs,
            library,
            options,
            door,
            admission,
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            tasks,
            closing,
        };
        Self(Arc::new(parts))
    }

    /// The engine.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// The files.
    pub fn library(&self) -> &Arc<dyn Library> {
        &self.0.library
    }

    /// What the operator said.
    pub fn options(&self) -> &AppOptions {
        &self.0.options
    }

    /// Who may come in.
    pub fn door(&self) -> &Door {
        &self.0.door
    }

    /// What is admitted just now.
    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Whether the store answered when it was last asked.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Where work goes that outlives its request.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Falls when the server is to close.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Whether streams end now, and their clients read on elsewhere: the server closes, and the
    /// runs go on without it.
    pub(crate) fn ends_streams(&self) -> bool {
        self.closing().is_cancelled() && self.runs().outlive_us()
    }

    /// Waits until streams [end](Self::ends_streams). Made once for a stream, so that streams
    /// do not get in each other's way with every frame.
    pub(crate) fn streams_end(&self) -> impl Future<Output = ()> + Send + 'static {
        let (outlive_us, closing) = (self.runs().outlive_us(), self.closing().child_token());
        async move {
            if !outlive_us {
                pending::<()>().await;
            }
            closing.cancelled().await;
        }
    }

    /// What is kept of the built-in tool of this kind, if the settings have it.
    pub(crate) fn built_in(&self, kind: ToolKind) -> Option<Arc<ToolSpec>> {
        self.runs().tools().specs().into_iter().find(|spec| spec.kind == kind)
    }

    /// The function of this name that this server runs, if the settings have one.
    pub(crate) fn function(&self, name: &str) -> Option<Arc<ToolSpec>> {
        let specs = self.runs().tools().specs();
        specs.into_iter().find(|spec| spec.kind == ToolKind::Function && spec.name == name)
    }

    /// A request of `caller` as the settings have it, with every tool they name.
    pub(crate) fn chat_request(&self, caller: &Caller) -> RunRequest {
        let options = self.options();
        let mut request = RunRequest::new(options.default_model.as_str(), Vec::new());
        request.tenant = caller.tenant().clone();
        request.instructions.clone_from(&options.instructions);
        request.limits = options.limits.clone();
        request.limits.whole_results_for = Some(options.whole_results_for);
        let tools = self.runs().tools().specs();
        // Files are searched in the collections that a request names, and a chat names none.
        request.tools =
            tools.into_iter().filter(|spec| spec.kind != ToolKind::FileSearch).collect();
        let servers = self.runs().servers().labels(caller.tenant());
        request.servers = servers.into_iter().map(ServerUse::all_of).collect();
        request
    }

    /// Tells everybody that the server is to close.
    pub fn close(&self) {
        if !self.0.closing.is_cancelled() {
            self.0.metrics.drained();
        }
        self.0.closing.cancel();
    }
}
