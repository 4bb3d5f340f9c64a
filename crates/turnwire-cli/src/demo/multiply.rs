//! The tool of the quickstart.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Number;
use turnwire::{Effect, ToolContext};
use turnwire_tools::FunctionTool;

use super::wait;

/// The arguments of `multiply`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Factors {
    /// The first factor.
    a: Number,
    /// The second factor.
    b: Number,
}

/// Creates the tool that multiplies after a delay of `tool_time`.
pub(crate) fn multiply(tool_time: Duration) -> FunctionTool<Factors> {
    let work = move |factors: Factors, context: ToolContext| async move {
        wait(&context, tool_time).await?;
        product(&factors)
    };
    FunctionTool::with_context("multiply", "Multiplies two numbers.", work)
        .effect(Effect::Pure)
        .parallel()
        // The delay is configured, so it must not time out.
        .timeout(tool_time + Duration::from_mins(1))
        .label(|factors| format!("{} × {}", factors.a, factors.b))
}

/// Exact for integers, with float precision otherwise.
fn product(Factors { a, b }: &Factors) -> Result<String, &'static str> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Ok((i128::from(a) * i128::from(b)).to_string());
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return Err(TOO_BIG) };
    let product = a * b;
    if product.is_finite() { Ok(product.to_string()) } else { Err(TOO_BIG) }
}

const TOO_BIG: &str = "the product is too big; use smaller numbers";

#[cfg(test)]
#[path = "multiply_tests.rs"]
mod tests;
