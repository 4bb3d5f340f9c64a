//! Starts the runs of all clients. A server that shuts down starts none, the concurrency limits and
//! quotas apply to all, and a repeated request with an `Idempotency-Key` finds its run.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use tokio::{task::JoinHandle, time::timeout};
use tracing::{error, warn};
use turnwire_contract::{
    AuditAction, AuditLog, AuditQuery, IdempotencyKey, RunId, RunRequest, StoreError, TenantId,
};
use turnwire_engine::{Measure, QuotaStatus, RunHandle, RunSlot, StartError, StartOptions};

use crate::{
    api_error::{ApiError, Result},
    app::App,
    auth::Caller,
    quota_headers::whole_seconds,
};

/// How long a request waits for its entry in the audit log.
const RECORDING_TIME: Duration = Duration::from_millis(500);
/// The same for a run that is stored nowhere else, and is refused without the entry.
const EPHEMERAL_RECORDING_TIME: Duration = Duration::from_secs(5);
/// How long the next try is waited for, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl App {
    /// Starts a run of `caller` within the concurrency limits.
    pub(crate) async fn start(
        &self,
        caller: &Caller,
        run: RunRequest,
        options: StartOptions,
    ) -> Result<RunHandle> {
        let (handle, ()) = self.start_then(caller, run, options, |_, _| ()).await?;
        Ok(handle)
    }

    /// Starts a run of `caller`, and then does what belongs to it. Both happen in a task of their
    /// own: a client that disconnects meanwhile must not leave a run behind that is half started,
    /// or that nobody cancels or deletes. If nobody awaits the result, it is dropped.
    pub(crate) async fn start_then<T: Send + 'static>(
        &self,
        caller: &Caller,
        run: RunRequest,
        options: StartOptions,
        then: impl FnOnce(&Self, &RunHandle) -> T + Send + 'static,
    ) -> Result<(RunHandle, T)> {
        let (app, caller) = (self.clone(), caller.clone());
        // Boxed, because the runtime moves a task's future several times.
        let starting = Box::pin(async move {
            let handle = app.admit_and_start(&caller, run, options).await?;
            let then = then(&app, &handle);
            let is_recorded = app.record_run(&caller, &handle).await;
            if handle.is_ephemeral() && !is_recorded {
                // Nothing but the log would ever say who asked.
                handle.cancel();
                let actor = caller.actor().map(|actor| &**actor);
                app.runs().quotas().take_back(caller.tenant(), actor);
                let away = StoreError::Unavailable("the audit log is away".to_owned());
                return Err(ApiError::from(away));
            }
            Ok((handle, then))
        });
        outcome_of(self.tasks().spawn(starting)).await
    }

    async fn admit_and_start(
        &self,
        caller: &Caller,
        run: RunRequest,
        options: StartOptions,
    ) -> Result<RunHandle> {
        self.ensure_open()?;
        let (asked_by, trace) = (caller.actor().cloned(), caller.trace().cloned());
        let granted_scopes = self.runs().access().granted(caller.scopes());
        let run = RunRequest { asked_by, granted_scopes, trace, ..run };
        if run.model.is_empty() {
            return Err(self.no_model_named(caller));
        }
        let n_live = || self.runs().n_live();
        let admitted = self.admission().admit_run_soon(caller.tenant(), caller.key(), n_live);
        let permit = admitted.await?;
        let slot = self.hold_by_quota(caller).await?;
        self.admit_by_quota(caller).await?;
        let options = StartOptions { permit: Some(Arc::new((permit, slot))), ..options };
        let started = self.runs().start_with(run, options).await;
        if !started.as_ref().is_ok_and(|handle| !handle.already_existed()) {
            let actor = caller.actor().map(|actor| &**actor);
            self.runs().quotas().take_back(caller.tenant(), actor);
        }
        match &started {
            Ok(handle) if handle.already_existed() => self.metrics().found_by_key(),
            Err(StartError::ShuttingDown) => self.metrics().refused_while_closing(),
            Ok(_) | Err(_) => {}
        }
        Ok(started?)
    }

    /// Takes a concurrency slot for a run, unless its tenant or key is at its limit.
    async fn hold_by_quota(&self, caller: &Caller) -> Result<RunSlot> {
        let actor = caller.actor().map(|actor| &**actor);
        let held = self.runs().quotas().hold_run(caller.tenant(), actor).await;
        held.map_err(|reached| used_up(&reached))
    }

    /// Counts a request, unless a quota of its tenant or key is used up.
    async fn admit_by_quota(&self, caller: &Caller) -> Result<()> {
        let actor = caller.actor().map(|actor| &**actor);
        let answer = self.runs().quotas().admit(caller.tenant(), actor).await;
        caller.rate_limit_headers().note(&answer);
        if let Some(refused) = answer.refused {
            return Err(used_up(&refused));
        }
        if answer.quotas.iter().any(|status| status.is_nearly_spent) {
            self.metrics().run_near_budget();
        }
        Ok(())
    }

    /// Records a run that is being executed: its model may be asked meanwhile. If the log cannot be
    /// written, it is tried until it can; the run goes on, because its journal says who asked, too,
    /// unless it is in memory only. Returns whether it was written in time.
    async fn record_run(&self, caller: &Caller, handle: &RunHandle) -> bool {
        let Some(request) = handle.request() else { return true };
        let records = self.records_of_run(caller, handle.id(), request);
        if records.is_empty() {
            return true;
        }
        let (app, run_id) = (self.clone(), handle.id().clone());
        let mut recording = Box::pin(async move {
            let log = app.runs().audit();
            let mut pause = FIRST_PAUSE;
            while let Err(error) = log.append(records.clone()).await {
                warn!(%run_id, %error, "run not yet in the audit log");
                if timeout(pause, app.closing().cancelled()).await.is_ok() {
                    return false;
                }
                pause = LONGEST_PAUSE.min(pause * 2);
                // It may have been written, and only the answer was lost.
                if is_recorded(&**log, &run_id).await {
                    return true;
                }
            }
            true
        });
        // A request does not wait for a log that is away.
        let is_ephemeral = handle.is_ephemeral();
        let patience = if is_ephemeral { EPHEMERAL_RECORDING_TIME } else { RECORDING_TIME };
        if let Ok(is_recorded) = timeout(patience, &mut recording).await {
            return is_recorded;
        }
        self.tasks().spawn(recording);
        false
    }

    /// Counts a limit that was reached, for errors that are not sent as an HTTP response. Those are
    /// counted by a layer.
    pub(crate) fn count(&self, error: &ApiError) {
        if let Some(limit) = error.limit() {
            self.metrics().limit_reached(limit);
        }
    }

    /// The run that an earlier request with the same idempotency key created. Call this before
    /// looking up anything that the run may have changed, such as its conversation, which it keeps
    /// locked.
    pub(crate) async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<RunHandle>, StartError> {
        let Some(key) = key else { return Ok(None) };
        self.ensure_open()?;
        let made = self.runs().find_by_key(tenant, key).await?;
        Ok(made.inspect(|_| self.metrics().found_by_key()))
    }

    fn ensure_open(&self) -> Result<(), StartError> {
        if !self.closing().is_cancelled() {
            return Ok(());
        }
        self.metrics().refused_while_closing();
        Err(StartError::ShuttingDown)
    }
}

/// The error for a quota that is used up.
pub(crate) fn used_up(status: &QuotaStatus) -> ApiError {
    let whose = if status.is_of_key { "key" } else { "tenant" };
    let seconds = whole_seconds(status.resets_in);
    let (what, setting) = match status.measure {
        Measure::RequestsPerMinute => ("requests per minute", "quotas.requests_per_minute"),
        Measure::TokensPerMinute => ("tokens per minute", "quotas.tokens_per_minute"),
        Measure::TokensPerDay => ("tokens per day", "quotas.tokens_per_day"),
        Measure::ToolCallsPerDay => ("tool calls per day", "quotas.tool_calls_per_day"),
        Measure::RunsAtOnce => {
            let message =
                format!("The {whose} has {} runs, and may have no more at once.", status.max);
            let error =
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
            return error.limited_by("quotas.runs_at_once").retry_after(seconds);
        }
        Measure::StoredBytes => {
            let message = format!(
                "The {whose} may store {} bytes of files. Delete some, or ask the operator of this \
                 server to raise it.",
                status.max
            );
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", message);
            return error.limited_by("quotas.stored_bytes");
        }
        Measure::CostPerMonth => {
            let message = format!(
                "The {whose} has spent its budget for this month. Ask the operator of this server \
                 to raise it."
            );
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", message);
            return error.limited_by("quotas.cost_per_month").retry_after(seconds);
        }
    };
    let message =
        format!("The {whose} has used its {} {what}; try again in {seconds} s.", status.max);
    let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
    error.limited_by(setting).retry_after(seconds)
}

async fn is_recorded(log: &dyn AuditLog, run_id: &RunId) -> bool {
    let query = AuditQuery {
        action: Some(AuditAction::RunStarted),
        object: Some(run_id.as_str().to_owned()),
        limit: 1,
        ..AuditQuery::default()
    };
    log.list(query).await.is_ok_and(|found| !found.is_empty())
}

pub(crate) async fn outcome_of<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    task.await.unwrap_or_else(|error| {
        error!(%error, "task panicked");
        let message = "Internal server error. See the server log.";
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
    })
}
