//! The description of everything, made from the types that do it.

use axum::{Router, extract::State, routing::get};
use turnwire_surfaces::{
    ChatStreamFrame, NativeRecord, WsMessage, WsRequest,
    responses::{Response as ResponseObject, ResponseEvent},
};
use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        Content, HeaderBuilder, OpenApi as Document, PathItem, Ref, RefOr, Response,
        ResponseBuilder,
        path::{Operation, Parameter, ParameterIn},
        schema::{ObjectBuilder, Schema, SchemaType, Type},
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_axum::router::OpenApiRouter;

use crate::{app::App, body::Json};

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
        ResponseObject,
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
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(KEY, bearer);
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            if needs_key(path) {
                let nothing_more: [&str; 0] = [];
                operation.security = Some(vec![SecurityRequirement::new(KEY, nothing_more)]);
            }
            describe_refusals(path, operation);
        }
    }
    (routes, document)
}

fn operations(item: &mut PathItem) -> impl IntoIterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .flatten()
}

fn needs_key(path: &str) -> bool {
    !OPEN_TO_ALL.contains(&path)
}

/// Adds the refusals that come from what is around a handler and not from what it does: from the
/// server, from the door, and from reading what was sent. A handler may describe one better.
fn describe_refusals(path: &str, operation: &mut Operation) {
    let parameters: Vec<&Parameter> =
        operation.parameters.iter().flatten().filter_map(of).collect();
    let has_parameters = parameters.iter().any(|one| one.parameter_in != ParameterIn::Path);
    let has_key = parameters.iter().any(|one| one.name == "Idempotency-Key");
    let has_body = operation.request_body.is_some();
    let names_something = has_body || path.contains('{');
    let refusals = [
        (400, has_body || has_parameters, "The request makes no sense; `param` names the field"),
        (401, needs_key(path), "There is no key, or it is not valid"),
        (403, true, "The request comes from a web page, or under a name, that is not let in"),
        (404, names_something, "Something that the request names is not there"),
        (408, has_body, "The body paused, or took, for too long"),
        (413, has_body, "The body is too big"),
        (422, has_key, "The key was used for another request"),
        (429, needs_key(path), "Too much at once for this key or this server: try again later"),
        (500, true, "The server has failed; its log says why"),
        (
            503,
            needs_key(path),
            "The server closes or is full, or its store is away: try again later",
        ),
    ];
    let responses = &mut operation.responses.responses;
    for (status, _, description) in refusals.into_iter().filter(|(_, can_come, _)| *can_come) {
        responses.entry(status.to_string()).or_insert_with(|| refusal(status, description));
    }
}

/// A parameter that is described where it stands, as all of ours are.
fn of(parameter: &RefOr<Parameter>) -> Option<&Parameter> {
    match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    }
}

fn refusal(status: u16, description: &str) -> RefOr<Response> {
    let body = Content::new(Some(Ref::from_schema_name("ErrorBody")));
    let answer = ResponseBuilder::new().description(description).content("application/json", body);
    if ![429, 503].contains(&status) {
        return answer.build().into();
    }
    let seconds = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer));
    let wait = HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds to wait"));
    answer.header("Retry-After", wait.build()).build().into()
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
