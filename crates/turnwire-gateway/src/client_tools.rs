//! Functions that a page or an application brings along with its request.
//!
//! They are read like those of a response, which have the same fields, and are offered beside the
//! tools of the settings. Their calls go to the client.

use std::sync::Arc;

use serde_json::{Map, Value};
use turnwire_contract::ToolSpec;

use crate::{
    ApiError, Result,
    client_error::ClientError,
    limits::RequestLimits,
    responses::request::{RequestedTool, read_tools},
};

/// A function of a client: where it stands in the request, and its fields as a function of the
/// Responses API, without the type.
pub(crate) type ClientTool = (String, Map<String, Value>);

/// Reads the functions of a client.
pub(crate) fn read_client_tools(
    tools: Vec<ClientTool>,
    limits: &RequestLimits,
) -> Result<Vec<ToolSpec>, ClientError> {
    let as_function = |(path, mut fields): ClientTool| {
        fields.retain(|_, value| !value.is_null());
        fields.insert("type".to_owned(), Value::from("function"));
        (path, Value::Object(fields))
    };
    let functions: Vec<(String, Value)> = tools.into_iter().map(as_function).collect();
    let placed: Vec<(String, &Value)> =
        functions.iter().map(|(path, tool)| (path.clone(), tool)).collect();
    let read = read_tools(&placed, limits)?;
    let spec = |tool| if let RequestedTool::Function(spec) = tool { Some(spec) } else { None };
    Ok(read.tools.into_iter().filter_map(spec).collect())
}

/// The tools of the settings, and those of the client. `path` says where one of them stands.
pub(crate) fn with_client_tools(
    mut tools: Vec<Arc<ToolSpec>>,
    of_client: Vec<ToolSpec>,
    path: impl Fn(usize, &ToolSpec) -> String,
) -> Result<Vec<Arc<ToolSpec>>> {
    for (n, tool) in of_client.into_iter().enumerate() {
        if tools.iter().any(|known| known.name == tool.name) {
            let message = format!("This server has a tool with the name `{}` itself.", tool.name);
            return Err(ApiError::bad_request("duplicate_tool", message).about(path(n, &tool)));
        }
        tools.push(Arc::new(tool));
    }
    Ok(tools)
}
