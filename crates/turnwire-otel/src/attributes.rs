//! Names of attributes, from the semantic conventions v1.41.1. The `gen_ai` and `mcp` names are not
//! stable yet, and the constants of the official crate move with them, so they are written down
//! here.

/// The conventions that attributes follow.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.1";

pub(crate) const AGENT_OPERATION: &str = "invoke_agent";
pub(crate) const CHAT_OPERATION: &str = "chat";
pub(crate) const TOOL_OPERATION: &str = "execute_tool";

pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
pub(crate) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const MCP_METHOD: &str = "mcp.method.name";
pub(crate) const ERROR_TYPE: &str = "error.type";

// Contents, only if the operator asks for them.
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

// Ours.
pub(crate) const RUN_ID: &str = "turnwire.run.id";
pub(crate) const RUN_ATTEMPT: &str = "turnwire.run.attempt";
pub(crate) const RUN_OUTCOME: &str = "turnwire.run.outcome";
pub(crate) const TURN: &str = "turnwire.turn";
pub(crate) const TURN_ATTEMPTS: &str = "turnwire.turn.attempts";
pub(crate) const TOOL_OUTCOME: &str = "turnwire.tool.outcome";
pub(crate) const TOOL_SERVER: &str = "turnwire.tool.server";
pub(crate) const TOOL_ATTEMPT: &str = "turnwire.tool.attempt";
