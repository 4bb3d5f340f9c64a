//! `GET /v1/models`: the model names a request may use.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{ApiError, App, Caller, Json, PathParams, Result};

/// A model.
#[derive(Debug, Serialize, ToSchema)]
struct Model {
    /// Name of the model, as used in requests.
    id: String,
    /// Always `model`.
    object: &'static str,
    /// Always 0: the time of creation is not known.
    created: i64,
    /// Always `turnwire`.
    owned_by: &'static str,
}

/// A list of models.
#[derive(Debug, Serialize, ToSchema)]
struct Models {
    /// Always `list`.
    object: &'static str,
    /// The models.
    data: Vec<Model>,
}

module_routes! { [list] [one] }

fn model(id: &str) -> Model {
    Model { id: id.to_owned(), object: "model", created: 0, owned_by: "turnwire" }
}

/// List the available models.
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, description = "The available models", body = Models))
)]
async fn list(State(app): State<App>, caller: Caller) -> Json<Models> {
    let mut names = app.runs().model_names(caller.principal());
    if let Some(default) = app.default_model(&caller)
        && !names.contains(&default)
    {
        names.insert(0, default);
    }
    Json(Models { object: "list", data: names.iter().map(|name| model(name)).collect() })
}

/// Get a model.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    responses(
        (status = 200, description = "The model", body = Model),
        (status = 404, description = "There is no model with this name"),
    )
)]
async fn one(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Model>> {
    if !app.runs().knows_model(caller.principal(), &id) {
        let message = format!("The model '{id}' does not exist.");
        let status = axum::http::StatusCode::NOT_FOUND;
        return Err(ApiError::new(status, "model_not_found", message).about("model"));
    }
    Ok(Json(model(&id)))
}
