//! What a function may return to be a tool.
//!
//! The model reads text, so everything becomes text in the shortest honest way; data is kept
//! as data beside it for clients that can show it.

use std::{any::Any, fmt};

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{ToolError, ToolOutput};

/// Something that can be the result of a tool.
///
/// | returned | the model reads |
/// |---|---|
/// | `String`, `&str` | the text |
/// | a number, a `bool` | it, as Rust prints it: `20`, `0.5`, `true` |
/// | `()` | nothing |
/// | [`Value`], [`Json<T>`] | compact JSON; a bare string without its quotes |
/// | [`ToolOutput`] | its text |
/// | `Result<T, E>` | `T` as above, or the error in its own words |
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return text, a number, `serde_json::Value`, `ToolOutput`, or a `Result` of these",
    note = "wrap anything else that is `Serialize` in `Json(…)`"
)]
pub trait IntoToolOutput {
    /// The result as the engine takes it.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

/// Makes a tool's result of anything serializable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(
    /// What to return.
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

/// A [`ToolError`] stays what it is, so that a function can say [`ToolError::Transient`]; any
/// other error is a plain failure.
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
