//! The whole composition: the only file that names models and tools.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Number;
use turnwire::{Agent, AgentBuilder, Effect, Error, Model, ToolContext};
use turnwire_models::{
    AnthropicMessages, AnthropicMessagesOptions, ChatCompletions, ChatCompletionsOptions,
    OpenAiResponses, OpenAiResponsesOptions, Scripted, SetupError,
};
use turnwire_tools::FunctionTool;

use crate::{
    exit::Problem,
    settings::{Demo, Kind, ModelSettings, Provider, Settings},
};

/// The agent that the settings describe.
pub(crate) fn agent(settings: &Settings) -> Result<Agent, Problem> {
    let mut agent =
        Agent::builder().model_name(settings.model_name.as_str()).limits(settings.limits.clone());
    if let Some(instructions) = &settings.instructions {
        agent = agent.instructions(instructions.as_str());
    }
    let agent = match &settings.model {
        ModelSettings::Scripted(demo) => with_demo(agent, *demo),
        ModelSettings::Provider(provider) => {
            let model = model_of(provider).map_err(|error| {
                Problem::usage(format!("the model cannot be used: {error}"))
                    .hint("check its address and its key in the settings")
            })?;
            agent.shared_model(model)
        }
    };
    agent.build().map_err(|error: Error| Problem::failure(error.to_string()))
}

fn model_of(provider: &Provider) -> Result<Arc<dyn Model>, SetupError> {
    let Provider { kind, base_url, api_key, model } = provider.clone();
    Ok(match kind {
        Kind::ChatCompletions => Arc::new(ChatCompletions::new(ChatCompletionsOptions {
            api_key,
            model,
            ..ChatCompletionsOptions::new(base_url)
        })?),
        Kind::OpenAiResponses => Arc::new(OpenAiResponses::new(OpenAiResponsesOptions {
            base_url,
            api_key,
            model,
            ..OpenAiResponsesOptions::default()
        })?),
        Kind::AnthropicMessages => Arc::new(AnthropicMessages::new(AnthropicMessagesOptions {
            base_url,
            api_key,
            model,
            ..AnthropicMessagesOptions::default()
        })?),
    })
}

/// The model that needs no key, and the one thing it can do.
fn with_demo(agent: AgentBuilder, demo: Demo) -> AgentBuilder {
    agent.model(Scripted::demo().paced(demo.pace)).tool(multiply(demo.tool_time))
}

/// The arguments of `multiply`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Factors {
    /// The first factor.
    a: Number,
    /// The second factor.
    b: Number,
}

/// Multiplies, and takes its time where somebody watches.
fn multiply(tool_time: Duration) -> FunctionTool<Factors> {
    let work = move |factors: Factors, context: ToolContext| async move {
        tokio::select! {
            // Whoever stops the run need not wait for the demo.
            () = context.cancelled() => Err(STOPPED),
            () = tokio::time::sleep(tool_time) => product(&factors),
        }
    };
    FunctionTool::with_context("multiply", "Multiplies two numbers.", work)
        .effect(Effect::Pure)
        .parallel()
        // Its slowness is set by hand, and must not look like a hang.
        .timeout(tool_time + Duration::from_mins(1))
        .label(|factors| format!("{} × {}", factors.a, factors.b))
}

/// Exact for whole numbers, as good as a float can be for others.
fn product(Factors { a, b }: &Factors) -> Result<String, &'static str> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Ok((i128::from(a) * i128::from(b)).to_string());
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return Err(TOO_BIG) };
    let product = a * b;
    if product.is_finite() { Ok(product.to_string()) } else { Err(TOO_BIG) }
}

const STOPPED: &str = "stopped before the product was known";
const TOO_BIG: &str = "the product is too big; use smaller numbers";

#[cfg(test)]
#[path = "wiring_tests.rs"]
mod tests;
