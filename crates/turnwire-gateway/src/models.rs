//! `GET /v1/models`: which names a request may ask for.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::App, body::Json, door::Caller, path::PathParams, refusal::Refusal};

/// A model by its name.
#[derive(Debug, Serialize, ToSchema)]
struct Model {
    id: String,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

/// All of them.
#[derive(Debug, Serialize, ToSchema)]
struct Models {
    object: &'static str,
    data: Vec<Model>,
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one))
}

fn model(id: &str) -> Model {
    Model { id: id.to_owned(), object: "model", created: 0, owned_by: "turnwire" }
}

#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "models",
    responses((status = 200, description = "The names a request may ask for", body = Models))
)]
async fn list(State(app): State<App>, _caller: Caller) -> Json<Models> {
    let mut names: Vec<&str> = app.runs().model_names().collect();
    let default = app.options().default_model.as_str();
    if !names.contains(&default) {
        names.insert(0, default);
    }
    Json(Models { object: "list", data: names.into_iter().map(model).collect() })
}

#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    tag = "models",
    params(("model" = String, Path)),
    responses(
        (status = 200, description = "The model", body = Model),
        (status = 404, description = "There is none", body = crate::refusal::ErrorBody),
    )
)]
async fn one(
    State(app): State<App>,
    _caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Model>, Refusal> {
    if !app.runs().knows_model(&id) {
        let message = format!("The model '{id}' does not exist.");
        let status = axum::http::StatusCode::NOT_FOUND;
        return Err(Refusal::new(status, "model_not_found", message).about("model"));
    }
    Ok(Json(model(&id)))
}
