//! `POST /v1/admin/reload`: an operator asks for the settings to be read again.

use axum::extract::State;
use turnwire_engine::StartError;

use crate::{ApiError, App, Caller, Json, Result, admin::Admin, reload::ReloadReport};

module_routes! { [reload] }

/// Read the settings again.
///
/// As SIGHUP does: the settings file and the files that it names are read as at the start, and take
/// effect together. No stream is ended, apart from those of keys that were removed. If there is any
/// mistake, nothing changes. The scope `operator` is needed, because the settings are of all tenants.
#[utoipa::path(
    post,
    path = "/v1/admin/reload",
    responses(
        (status = 200, description = "What has changed", body = ReloadReport),
        (status = 422, description = "The settings have mistakes, and stay as they were"),
    )
)]
async fn reload(State(app): State<App>, caller: Caller) -> Result<Json<ReloadReport>> {
    Admin::new(&caller)?;
    // Whoever reads the settings stops doing so when the server shuts down.
    let closing = || ApiError::from(StartError::ShuttingDown);
    let calls = app.options().reloads.clone().ok_or_else(closing)?;
    let answer = calls.ask(caller.actor().cloned()).await.ok_or_else(closing)?;
    Ok(Json(answer?))
}

impl App {
    /// Counts a reload.
    pub fn note_reload(&self, is_reloaded: bool) {
        self.metrics().reload_ended(is_reloaded);
    }
}
