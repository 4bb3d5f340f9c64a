//! The description of everything, made from the types that do it.

use axum::{Json, Router, extract::State, routing::get};
use turnwire_surfaces::{
    ChatStreamFrame, NativeRecord, WsMessage, WsRequest,
    responses::{Response, ResponseEvent},
};
use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, OpenApi as Document, PathItem, Ref, RefOr, ResponseBuilder,
        path::Operation,
        schema::{ObjectBuilder, Schema, SchemaType, Type},
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// The name of the only way to say who one is.
const KEY: &str = "api_key";
/// The paths where nobody is asked.
const OPEN_TO_ALL: [&str; 2] = ["/healthz", "/readyz"];

/// What stands at the head of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Turnwire",
        description = "Agent runs whose every step is visible: the Responses API with tools, \
                       chat, WebSockets, and the native surface.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(
        Response,
        ResponseEvent,
        StreamEventType,
        ChatStreamFrame,
        NativeRecord,
        WsMessage,
        WsRequest,
        crate::refusal::ErrorBody
    ))
)]
struct Head;

/// The `type` of every event that a stream of `/v1/responses` can have: those of the strict
/// profile first.
struct StreamEventType;

impl PartialSchema for StreamEventType {
    fn schema() -> RefOr<Schema> {
        let types = ResponseEvent::TYPES_STRICT.iter().chain(ResponseEvent::TYPES_EXTENDED);
        let string = SchemaType::new(Type::String);
        ObjectBuilder::new().schema_type(string).enum_values(Some(types.copied())).into()
    }
}

impl ToSchema for StreamEventType {}

/// Every route with its description.
pub(crate) fn described(routes: OpenApiRouter<App>) -> (Router<App>, Document) {
    let (routes, mut document) =
        OpenApiRouter::with_openapi(Head::openapi()).merge(routes).split_for_parts();
    describe_door(&mut document);
    (routes, document)
}

/// Adds to every route that asks who is there how one says so, and what is answered otherwise.
fn describe_door(document: &mut Document) {
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(KEY, bearer);
    for (path, item) in &mut document.paths.paths {
        if !OPEN_TO_ALL.contains(&path.as_str()) {
            operations(item).into_iter().for_each(needs_key);
        }
    }
}

fn operations(item: &mut PathItem) -> impl IntoIterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .flatten()
}

fn needs_key(operation: &mut Operation) {
    let nothing_more: [&str; 0] = [];
    operation.security = Some(vec![SecurityRequirement::new(KEY, nothing_more)]);
    operation.responses.responses.entry("401".to_owned()).or_insert_with(|| {
        let body = Content::new(Some(Ref::from_schema_name("ErrorBody")));
        let answer = ResponseBuilder::new().description("There is no key, or it is not valid");
        answer.content("application/json", body).build().into()
    });
}

/// The document as it is served.
pub fn document() -> Document {
    described(crate::all_routes()).1
}

/// The route of the document.
pub(crate) fn route(document: Document) -> Router<App> {
    let document = std::sync::Arc::new(document);
    Router::new().route(
        "/openapi.json",
        get(move |State(_app): State<App>| {
            let document = std::sync::Arc::clone(&document);
            async move { Json(Document::clone(&document)) }
        }),
    )
}
