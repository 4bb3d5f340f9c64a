//! The OpenAPI document, derived from the request and response types.

use std::collections::BTreeMap;

use axum::{
    Router,
    body::Bytes,
    http::{HeaderValue, Method, header},
    routing::get,
};
use turnwire_contract::{Event, RecordedEvent};
use turnwire_surfaces::{
    ChatStreamFrame, WsMessage, WsRequest,
    responses::{Response as ResponseObject, ResponseEvent, SequencedEvent},
    wire_json,
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

use crate::{App, auth::scopes};

/// Name of the security scheme.
const KEY: &str = "api_key";
/// Paths that need no API key.
const OPEN_TO_ALL: [&str; 2] = ["/healthz", "/readyz"];

/// Paths that need a share link and no API key.
const SHARED: &str = "/v1/shared/";

/// The head of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Turnwire",
        description = "Agent runs with a recorded event for every step: the Responses API with \
                tools, chat, WebSockets, and the native surface.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(
        ResponseObject,
        SequencedEvent,
        StreamEventType,
        ChatStreamFrame,
        RecordedEvent,
        WsMessage,
        WsRequest,
        crate::api_error::ErrorBody
    ))
)]
struct Head;

/// The `type` of every event on a `/v1/responses` stream: those of the strict profile first, then
/// those of the extended profile.
struct StreamEventType;

impl PartialSchema for StreamEventType {
    fn schema() -> RefOr<Schema> {
        let types = ResponseEvent::TYPES_STRICT.iter().chain(ResponseEvent::TYPES_EXTENDED);
        let string = SchemaType::new(Type::String);
        ObjectBuilder::new().schema_type(string).enum_values(Some(types.copied())).into()
    }
}

impl ToSchema for StreamEventType {}

/// The routes, and the document that describes them.
pub(crate) fn described(routes: OpenApiRouter<App>) -> (Router<App>, Document) {
    let (routes, mut document) =
        OpenApiRouter::with_openapi(Head::openapi()).merge(routes).split_for_parts();
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(KEY, bearer);
    leave_out_unknown_events(&mut components.schemas);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            if needs_key(path) {
                let scope = scopes::needed(&method, path).map(|scope| scope.to_string());
                operation.security = Some(vec![SecurityRequirement::new(KEY, scope)]);
            }
            operation.tags.get_or_insert_with(|| vec![tag(path).to_owned()]);
            add_path_parameters(path, operation);
            describe_parameters(operation);
            describe_refusals(path, operation);
        }
    }
    (routes, document)
}

/// Takes the variant for events of newer versions out of the schema: their types are not known.
fn leave_out_unknown_events(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    if let Some(RefOr::T(Schema::OneOf(events))) = schemas.get_mut(&*Event::name()) {
        events.items.pop();
    }
}

fn operations(item: &mut PathItem) -> impl IntoIterator<Item = (Method, &mut Operation)> {
    let PathItem { get, head, post, put, patch, delete, .. } = item;
    let all = [
        (Method::GET, get),
        (Method::HEAD, head),
        (Method::POST, post),
        (Method::PUT, put),
        (Method::PATCH, patch),
        (Method::DELETE, delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn needs_key(path: &str) -> bool {
    !OPEN_TO_ALL.contains(&path) && !path.starts_with(SHARED)
}

/// The section of the document that a path is in: its first word after `/v1/`, unless it has
/// another name.
fn tag(path: &str) -> &str {
    const SECTIONS: [(&str, &str); 8] = [
        ("/v1/admin/", "admin"),
        ("/v1/chat/completions", "chat completions"),
        ("/v1/mcp_servers", "mcp"),
        (SHARED, "runs"),
        ("/chat", "chat"),
        ("/ws/chat", "chat"),
        ("/ai-sdk/", "ai-sdk"),
        ("/ag-ui", "ag-ui"),
    ];
    let section = SECTIONS.into_iter().find(|(start, _)| path.starts_with(start));
    let usual = || path.strip_prefix("/v1/").and_then(|path| path.split('/').next());
    section.map(|(_, tag)| tag).or_else(usual).unwrap_or("health")
}

/// Adds the parameters in the path that the handler does not describe.
fn add_path_parameters(path: &str, operation: &mut Operation) {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for (at, name) in names.enumerate() {
        let parameters = operation.parameters.get_or_insert_default();
        if !parameters.iter().filter_map(of).any(|parameter| parameter.name == name) {
            let mut parameter = Parameter::new(name);
            parameter.schema =
                Some(ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).into());
            parameters.insert(at, parameter.into());
        }
    }
}

/// Describes parameters that have the same meaning on every path. A description by the handler
/// takes precedence.
fn describe_parameters(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.description.is_none()
        {
            parameter.description = meaning(&parameter.name).map(str::to_owned);
        }
    }
}

fn meaning(parameter: &str) -> Option<&'static str> {
    Some(match parameter {
        "run_id" => "ID of the run, such as `run_…`",
        "call_id" => "ID of the tool call",
        "chat_id" => "ID of the chat, chosen by the page",
        "response_id" => "ID of the response, such as `resp_…`",
        "conversation_id" => "ID of the conversation, such as `conv_…`",
        "item_id" => "ID of the item",
        "share_id" => "ID of the share, such as `share_…`",
        "token" => "The secret part of the share link",
        "delivery_id" => "ID of the delivery, such as `evt_…`",
        "key_id" => "ID of the API key, such as `key_…`",
        "file_id" => "ID of the file, such as `file_…`",
        "vector_store_id" => "ID of the vector store, such as `vs_…`",
        "batch_id" => "ID of the file batch",
        "model" => "Name of the model",
        "server_name" => "Name of the MCP server in the settings",
        "tool_name" => "Name of the tool on its server",
        "Last-Event-ID" => {
            "The `id` of the last event or frame received. The stream continues after it"
        }
        _ => return None,
    })
}

/// Adds the errors that come from the layers around a handler: the server, authentication, and
/// reading of the request. A description by the handler takes precedence. All errors have the same
/// body, unless the handler describes another one.
fn describe_refusals(path: &str, operation: &mut Operation) {
    let parameters: Vec<&Parameter> =
        operation.parameters.iter().flatten().filter_map(of).collect();
    let has_parameters = parameters.iter().any(|one| one.parameter_in != ParameterIn::Path);
    let has_key = parameters.iter().any(|one| one.name == "Idempotency-Key");
    let has_body = operation.request_body.is_some();
    let names_something = has_body || path.contains('{');
    let reads_data = needs_key(path) || path.starts_with(SHARED);
    let refusals = [
        (400, has_body || has_parameters, "The request is invalid. `param` names the field"),
        (401, needs_key(path), "The API key is missing or not valid"),
        (
            403,
            true,
            "The `Host` or `Origin` of the request is not allowed, or the key lacks the scope",
        ),
        (404, names_something, "An object the request refers to does not exist"),
        (408, has_body, "The body was not received in time"),
        (413, has_body, "The body is too large"),
        (422, has_key, "The `Idempotency-Key` was already used for a different request"),
        (429, reads_data, "A concurrency limit is reached. Retry after the time in `Retry-After`"),
        (500, true, "Internal error. The cause is in the log of the server"),
        (
            503,
            reads_data,
            "The server is shutting down or full, or its store is not available. Retry later",
        ),
    ];
    let responses = &mut operation.responses.responses;
    for (status, _, description) in refusals.into_iter().filter(|(_, can_come, _)| *can_come) {
        responses.entry(status.to_string()).or_insert_with(|| error(status, description));
    }
    for (status, response) in responses {
        if let RefOr::T(response) = response
            && response.content.is_empty()
            && status.as_str() >= "400"
        {
            let body = Content::new(Some(Ref::from_schema_name("ErrorBody")));
            response.content.insert("application/json".to_owned(), body.into());
        }
    }
}

/// An inline parameter, as all of ours are.
fn of(parameter: &RefOr<Parameter>) -> Option<&Parameter> {
    match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    }
}

fn error(status: u16, description: &str) -> RefOr<Response> {
    let answer = ResponseBuilder::new().description(description);
    if ![429, 503].contains(&status) {
        return answer.build().into();
    }
    let seconds = ObjectBuilder::new().schema_type(SchemaType::new(Type::Integer));
    let wait = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Seconds to wait before a retry"));
    answer.header("Retry-After", wait.build()).build().into()
}

/// The document as it is served.
pub fn document() -> Document {
    described(crate::all_routes()).1
}

/// The route of the document. Only its text is kept, which takes a tenth of the memory.
pub(crate) fn route(document: &Document) -> Router<App> {
    let text = Bytes::from(wire_json(document));
    let answer = move || {
        let json = HeaderValue::from_static("application/json");
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, json)], text) }
    };
    Router::new().route("/openapi.json", get(answer))
}
