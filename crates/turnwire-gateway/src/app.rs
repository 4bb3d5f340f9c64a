//! State shared by all handlers.

use std::{collections::HashSet, fmt, future::pending, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{
    Library, Limits, MetricExportCounts, RunRequest, ServerUse, SpanCounts, ToolKind, ToolSpec,
    WebhookCounts, WebhookOutbox, partial_debug,
};
use turnwire_engine::Runs;

use crate::{
    admission::{Admission, AdmissionLimits},
    api_error::ApiError,
    auth::{Auth, AuthOptions, Caller},
    limits::RequestLimits,
    metrics::{ExportCounts, Metrics},
    readiness::Readiness,
    reload::ReloadCalls,
};

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// What the audit log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AuditLevel {
    /// Nothing.
    None,
    /// Everything that changes something.
    #[default]
    Changes,
    /// Reading, too.
    Reads,
}

/// The outbox of webhooks, and what this process has sent from it.
#[derive(Clone)]
pub struct Webhooks {
    pub outbox: Arc<dyn WebhookOutbox>,
    pub counts: Arc<WebhookCounts>,
}

partial_debug!(Webhooks { counts });

/// Operator settings of the gateway, apart from those of the engine. [`App::reload`] replaces them
/// as a whole while requests are served.
#[derive(Debug, Clone)]
pub struct AppOptions {
    /// Model used when a request names none. `None`: such requests are refused.
    pub default_model: Option<String>,
    /// Model used for unknown model names. `None`: requests with an unknown name are refused.
    pub fallback_model: Option<String>,
    /// Models that bring the tools of the server into Chat Completions requests that name none of
    /// them.
    pub models_with_tools: HashSet<String>,
    /// Instructions for the model on `/chat` and `/ws/chat`.
    pub instructions: Option<String>,
    /// Limits of a run.
    pub limits: Limits,
    /// Number of most recent chat messages whose tool results the model gets in full.
    pub whole_results_for: u32,
    /// Time limit of a background run.
    pub background_time: Duration,
    /// Maximum size of a JSON body, in bytes.
    pub body_limit: usize,
    /// Maximum size of an uploaded file, in bytes.
    pub upload_limit: usize,
    /// Other limits of a request.
    pub requests: RequestLimits,
    pub auth: AuthOptions,
    /// What the audit log records.
    pub audit: AuditLevel,
    /// Limits on concurrent runs and connections.
    pub admission: AdmissionLimits,
    /// Name of this worker among those that share its store.
    pub worker: Option<String>,
    /// The outbox of webhooks. `None`: there is none, and nothing in it to list.
    pub webhooks: Option<Webhooks>,
    /// What became of the spans of this process.
    pub spans: Arc<SpanCounts>,
    /// How often the metrics of this process were exported.
    pub metric_exports: Arc<MetricExportCounts>,
    /// Where requests to read the settings again go. `None`: they cannot be read again.
    pub reloads: Option<ReloadCalls>,
    /// Maximum time without output on a stream; a keep-alive comment is sent then.
    pub keep_alive_interval: Duration,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            default_model: Some("default".to_owned()),
            fallback_model: None,
            models_with_tools: HashSet::new(),
            instructions: None,
            limits: Limits::default(),
            whole_results_for: 3,
            background_time: Duration::from_hours(24),
            body_limit: 4 * 1024 * 1024,
            upload_limit: 64 * 1024 * 1024,
            requests: RequestLimits::default(),
            auth: AuthOptions::default(),
            audit: AuditLevel::default(),
            admission: AdmissionLimits::default(),
            worker: None,
            webhooks: None,
            spans: Arc::default(),
            metric_exports: Arc::default(),
            reloads: None,
            keep_alive_interval: KEEP_ALIVE_INTERVAL,
        }
    }
}

/// State shared by all handlers. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

struct Parts {
    runs: Runs,
    library: Arc<dyn Library>,
    /// What a reload replaces, as a whole.
    options: ArcSwap<AppOptions>,
    auth: Auth,
    admission: Admission,
    metrics: Metrics,
    readiness: Readiness,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("options", &self.options()).finish_non_exhaustive()
    }
}

impl App {
    /// Creates an app for the engine `runs`, with the files of `library`.
    pub fn new(runs: Runs, library: Arc<dyn Library>, options: AppOptions) -> Self {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let auth = Auth::new(&options.auth, &runs);
        let admission = Admission::new(options.admission.clone());
        let metrics = Metrics::new(&runs.all_model_names());
        metrics.settings_loaded(runs.now());
        runs.observe_with(metrics.observer());
        let parts = Parts {
            runs,
            library,
            options: ArcSwap::from_pointee(options),
            auth,
            admission,
            metrics,
            readiness: Readiness::default(),
            tasks,
            closing,
        };
        Self(Arc::new(parts))
    }

    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    pub fn library(&self) -> &Arc<dyn Library> {
        &self.0.library
    }

    /// The options in force.
    pub fn options(&self) -> Arc<AppOptions> {
        self.0.options.load_full()
    }

    /// Replaces the options, and who may call. Requests at work go on, unless the settings do not
    /// have their key any more: what was opened with it ends.
    pub fn reload(&self, options: AppOptions) {
        self.0.admission.set_limits(options.admission.clone());
        self.0.auth.reload(&options.auth);
        self.0.options.store(Arc::new(options));
        self.0.metrics.add_models(&self.runs().all_model_names());
        self.0.metrics.settings_loaded(self.runs().now());
    }

    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// All metrics, in the Prometheus format.
    pub fn metrics_text(&self) -> Result<String, fmt::Error> {
        let options = self.options();
        let webhooks = options.webhooks.as_ref().map(|webhooks| &*webhooks.counts);
        let (spans, metrics) = (&*options.spans, &*options.metric_exports);
        self.metrics().encoded(self.runs(), webhooks, &ExportCounts { spans, metrics })
    }

    /// The result of the last check of the store.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Tracks tasks that outlive their request.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Cancelled when the server begins to shut down.
    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Whether streams end now because the server shuts down. Only with a durable journal, because
    /// then other workers continue the runs and clients can resume there.
    pub(crate) fn ends_streams(&self) -> bool {
        self.closing().is_cancelled() && self.runs().is_durable()
    }

    /// Waits until streams [end](Self::ends_streams). Created once per stream, so that streams do
    /// not contend for the token on every frame.
    pub(crate) fn draining(&self) -> impl Future<Output = ()> + Send + 'static {
        let (is_durable, closing) = (self.runs().is_durable(), self.closing().child_token());
        async move {
            if !is_durable {
                pending::<()>().await;
            }
            closing.cancelled().await;
        }
    }

    /// The configured built-in tool of this kind, if the caller may use it.
    pub(crate) fn built_in(&self, caller: &Caller, kind: ToolKind) -> Option<Arc<ToolSpec>> {
        self.runs().tools_for(caller.principal()).into_iter().find(|spec| spec.kind == kind)
    }

    /// The configured server-side function with this name, if the caller may use it.
    pub(crate) fn function(&self, caller: &Caller, name: &str) -> Option<Arc<ToolSpec>> {
        let specs = self.runs().tools_for(caller.principal());
        specs.into_iter().find(|spec| spec.kind == ToolKind::Function && spec.name == name)
    }

    /// A run request of `caller` with the configured model, instructions, limits and tools. Without
    /// a default model its model has no name, and it is refused unless the handler names one.
    pub(crate) fn chat_request(&self, caller: &Caller) -> RunRequest {
        let options = self.options();
        let model = self.default_model(caller).unwrap_or_default();
        let mut request = RunRequest::new(model, Vec::new());
        request.tenant = caller.tenant().clone();
        request.instructions.clone_from(&options.instructions);
        request.limits = options.limits.clone();
        request.limits.whole_results_for = Some(options.whole_results_for);
        request.tools = self.own_tools(caller);
        request.servers = self.own_servers(caller);
        request
    }

    /// The model of requests of a caller that name none.
    pub(crate) fn default_model(&self, caller: &Caller) -> Option<String> {
        let default = self.options().default_model.clone();
        default.filter(|name| self.runs().may_use_model(caller.principal(), name))
    }

    /// The error for a request that names no model, if there is no default one.
    pub(crate) fn no_model_named(&self, caller: &Caller) -> ApiError {
        let names = self.runs().model_names(caller.principal());
        let message = format!(
            "`model` is missing, and this server has no default model. Its models: {}.",
            names.join(", ")
        );
        ApiError::bad_request("missing_required_parameter", message).about("model")
    }

    /// The tools of the settings that the caller may use. File search is not among them: it needs
    /// vector stores that a request names.
    pub(crate) fn own_tools(&self, caller: &Caller) -> Vec<Arc<ToolSpec>> {
        let tools = self.runs().tools_for(caller.principal());
        tools.into_iter().filter(|spec| spec.kind != ToolKind::FileSearch).collect()
    }

    /// The MCP servers of the settings that the caller may use.
    pub(crate) fn own_servers(&self, caller: &Caller) -> Vec<ServerUse> {
        let servers = self.runs().server_labels(caller.principal());
        servers.into_iter().map(ServerUse::all_of).collect()
    }

    /// Starts the shutdown: cancels [`closing`](Self::closing).
    pub fn close(&self) {
        if !self.0.closing.is_cancelled() {
            self.0.metrics.drained();
        }
        self.0.closing.cancel();
    }
}
