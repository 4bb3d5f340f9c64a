//! Conversion of function results to tool output.
//!
//! The model reads text, so every result has a text form. Structured data is also stored as such,
//! for clients that can show it.

use std::{any::Any, fmt};

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{ToolError, ToolOutput};

/// A type that can be the result of a tool.
///
/// | type | text for the model |
/// |---|---|
/// | `String`, `&str` | the text |
/// | a number, a `bool` | its `Display` form: `20`, `0.5`, `true` |
/// | `()` | empty |
/// | [`Value`], [`Json<T>`] | compact JSON; a string without its quotes |
/// | [`ToolOutput`] | its text |
/// | `Result<T, E>` | `T` as above, or the `Display` form of the error |
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return text, a number, `serde_json::Value`, `ToolOutput`, or a `Result` of these",
    note = "wrap anything else that is `Serialize` in `Json(…)`"
)]
pub trait IntoToolOutput {
    /// Converts the result.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

/// A serializable result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(
    /// The value to serialize.
    pub T,
);

impl<T: Serialize> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        serde_json::to_value(self.0)
            .map_err(|error| ToolError::Failed(format!("the result is not valid JSON: {error}")))?
            .into_tool_output()
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        let text = match &self {
            Self::String(text) => text.clone(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => {
                self.to_string()
            }
        };
        Ok(ToolOutput { structured: Some(self), ..ToolOutput::text(text) })
    }
}

/// A [`ToolError`] is passed on, so that a function can return [`ToolError::Transient`]. Any other
/// error is a permanent failure.
impl<T, E> IntoToolOutput for Result<T, E>
where
    T: IntoToolOutput,
    E: fmt::Display + 'static,
{
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        self.map_err(|error| {
            let own = (&error as &dyn Any).downcast_ref::<ToolError>().cloned();
            own.unwrap_or_else(|| ToolError::failed(error))
        })?
        .into_tool_output()
    }
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::default())
    }
}

macro_rules! as_printed {
    ($($printed:ty),+) => {$(
        impl IntoToolOutput for $printed {
            fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
                Ok(ToolOutput::text(self.to_string()))
            }
        }
    )+};
}

as_printed!(bool, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
