//! Builds a run.

use std::{collections::BTreeSet, sync::Arc};

use turnwire_contract::{
    Approvals, ConversationId, FirstCall, Generation, Item, Limits, RunId, RunRequest, ServerUse,
    TenantId, ToolChoice, ToolSpec, UnknownOutcomes,
};

use super::{AnswerFormat, CreateResponse, LOGPROBS, surface_data::surface_data};

/// The parts of a run that had to be looked up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResolvedRequest {
    /// The tenant of the run.
    pub tenant: TenantId,
    /// The configured model to use.
    pub model: String,
    /// The conversation, if the request names one.
    pub conversation_id: Option<ConversationId>,
    /// The run to continue, if the request names one.
    pub continues: Option<RunId>,
    /// New items, from [`super::read_input`].
    pub input: Vec<Item>,
    /// Calls that a user has decided about, from [`super::take_first_calls`].
    pub first_calls: Vec<FirstCall>,
    /// Number of items of the input that come before these calls.
    pub n_before_calls: usize,
    /// The tools on offer.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The servers on offer.
    pub servers: Vec<ServerUse>,
    /// From [`super::read_choice`].
    pub tool_choice: ToolChoice,
    /// The limits of the server. A request can only lower them.
    pub limits: Limits,
}

/// The requested run. It ends with an approval request if a call needs one, and the answer comes
/// with the next request.
pub fn into_run(request: CreateResponse, resolved: ResolvedRequest) -> RunRequest {
    let surface_data = surface_data(&request, &resolved.model);
    let generation = generation_of(&request);
    let mut limits = resolved.limits;
    if let Some(most) = request.max_tool_calls {
        limits.max_tool_calls = limits.max_tool_calls.min(most);
    }
    RunRequest {
        tenant: resolved.tenant,
        asked_by: None,
        granted_scopes: BTreeSet::new(),
        trace: None,
        model: resolved.model,
        upstream_model: None,
        instructions: request.instructions,
        conversation_id: resolved.conversation_id,
        replaces: None,
        continues: resolved.continues,
        before: Vec::new(),
        input: resolved.input,
        tools: resolved.tools,
        servers: resolved.servers,
        first_calls: resolved.first_calls,
        n_before_calls: resolved.n_before_calls,
        calls_only: false,
        approvals: Approvals::HandBack,
        // A response cannot pause in the middle of a call to ask the user.
        inputs: false,
        unknown_outcomes: UnknownOutcomes::Tell,
        tool_choice: resolved.tool_choice,
        parallel_tool_calls: request.parallel_tool_calls.unwrap_or(true),
        generation,
        limits,
        metadata: request.metadata,
        surface_data,
    }
}

/// The sampling and output options for the model.
fn generation_of(request: &CreateResponse) -> Generation {
    let mut generation = Generation {
        temperature: request.temperature,
        top_p: request.top_p,
        max_output_tokens: request.max_output_tokens,
        reasoning_effort: request.reasoning.effort.clone(),
        reasoning_summary: request.reasoning.summary.clone(),
        reasoning_context: request.reasoning.context.clone(),
        reasoning_mode: request.reasoning.mode.clone(),
        verbosity: request.text.verbosity.clone(),
        truncation: request.truncation.clone(),
        logprobs: request.includes(LOGPROBS),
        top_logprobs: request.top_logprobs,
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        stop: request.stop.clone(),
        seed: request.seed,
        prompt_cache_key: request.prompt_cache_key.clone(),
        prompt_cache_retention: request.prompt_cache_retention.clone(),
        safety_identifier: request.safety_identifier.clone(),
        user: request.user.clone(),
        service_tier: request.service_tier.clone(),
        ..Generation::default()
    };
    match &request.text.format {
        AnswerFormat::Text => {}
        AnswerFormat::JsonObject => generation.json_object = true,
        AnswerFormat::JsonSchema { name, description, schema, strict } => {
            generation.answer_schema = Some(schema.clone());
            generation.schema_name = Some(name.clone());
            generation.schema_description.clone_from(description);
            generation.schema_strict = Some(*strict);
        }
    }
    generation
}

#[cfg(test)]
#[path = "into_run_tests.rs"]
mod tests;
