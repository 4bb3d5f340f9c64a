// Generated from /openapi.json by `npm run generate`. Do not edit.
//
// A field that is not required may be missing or null. Servers may add fields and events at any
// time, so ignore those that are not known here.

/** Who asked for something, as far as the server that accepted it knows. */
export interface Actor {
  /** ID of the API key. */
  key_id?: string | null;
  /** The person or program that an identity provider vouches for. */
  subject?: string | null;
  /** Part of the tenant that the key is used by. */
  project?: string | null;
}

/** A citation. */
export interface Annotation {
  /** Kind of the source, such as `url_citation` or `file_citation`. */
  kind: string;
  /** Fields of the citation, depending on its kind. */
  source: Record<string, unknown>;
}

/** Approval of a call. */
export interface ApprovalSnapshot {
  /** Time of the approval request. Null if an earlier run requested it. */
  requested_at?: string | null;
  /** Time of the decision. */
  resolved_at?: string | null;
  /** The decision. Null while it is pending. */
  decision?: Decision | null;
  /** Time at which the approval request expires. Missing if it does not. */
  expires_at?: string | null;
  /** The new definition of the tool, if it differs from the one that was approved before. */
  changed?: string | null;
  /** Effect class of the tool. Present with `server_claims`. */
  effect?: Effect | null;
  /** What the tool's server claims about the tool. Not verified. Missing if it claims nothing. */
  server_claims?: ToolClaims | null;
  /**
   * The budget that the approval is about, if that is why it is asked for. The answer decides
   * whether the run goes on, and all calls of the turn wait for it.
   */
  budget?: BudgetQuestion | null;
  /** The model's arguments, if the user replaced them. */
  edited_from?: string | null;
  /** Whether the decision applies to the rest of the conversation. Missing if false. */
  remember?: boolean | null;
  /** Where the decision was made, such as `/v1/runs`. */
  by?: string | null;
}

/** One attempt to execute a call. */
export interface AttemptSnapshot {
  /** Number of the attempt, from 1. */
  attempt: number;
  /** Time at which the attempt started. */
  at: string;
  /** Why the attempt before failed. */
  reason?: Failure | null;
}

/** Reference to a text that is stored as a blob. */
export interface BlobRef {
  /** ID of the blob. */
  blob: string;
  /** Size in bytes. */
  bytes: number;
}

/** A budget that is used to its soft limit. The answer decides whether the run goes on. */
export type BudgetQuestion = BudgetUse & {
  /** The question, such as `The run has used 0.80 of its budget of 1.00. Continue?`. */
  message: string;
};

/** Whose budget it is. */
export type BudgetScope = "run" | "key" | "tenant";

/**
 * How much of a budget is used, when a person is asked about it. Amounts are in billionths of the
 * currency of the models' prices.
 */
export interface BudgetUse {
  /** Whose budget it is. */
  scope: BudgetScope;
  /** What is used. */
  used_nanos: number;
  /** What may be used before a person is asked: the soft limit. */
  ask_nanos: number;
  /** What may be used at all: the hard limit. Not set if there is none. */
  max_nanos?: number | null;
}

/** Answer to an approval request. Either `decision` or `approve` is required. */
export interface CallApproval {
  /** The decision. Required unless `approve` is set. */
  decision?: DecisionWord | null;
  /** Short form of `decision`: true approves the call, false denies it. */
  approve?: boolean | null;
  /** Why the call is denied. Passed to the model. */
  reason?: string | null;
  /**
   * Arguments to use instead of the model's. They must match the schema of the tool. Ignored if
   * the call is denied.
   */
  arguments?: Record<string, unknown> | null;
  /**
   * Also approve later calls of this tool in this conversation. Ignored if the call is denied.
   * Default: false.
   */
  remember?: boolean | null;
}

/** Answer to a question that a tool asked the user. */
export interface CallInput {
  /** How the user responds. Required. */
  action: InputAction;
  /** With `accept`: the user's input. It must match the schema of the question. */
  content?: Record<string, unknown> | null;
  /** ID of the question. Default: the latest question of the call. */
  input_id?: string | null;
}

/** State of a tool call. */
export interface CallSnapshot {
  /** ID of the tool call. */
  call_id: string;
  /** ID of the output item of the call. */
  item_id: string;
  /** Name of the tool. */
  tool: string;
  /** Kind of the tool. */
  kind: ToolKind;
  /** Label of the tool's server. Null if the tool has none. */
  server?: string | null;
  /** Number of the turn in which the model made the call; 0 for calls that came with the request. */
  turn: number;
  /** State of the call. */
  state: CallState;
  /** The arguments so far, as JSON text. */
  arguments: string;
  /** Whether the arguments are complete. */
  arguments_complete: boolean;
  /** Time at which the model named the call. */
  announced_at: string;
  /** The approval of the call. Null if none was requested. */
  approval?: ApprovalSnapshot | null;
  /** Questions that the tool asked the user. Missing if there are none. */
  inputs?: Array<InputSnapshot> | null;
  /** All attempts to execute the call. */
  attempts: Array<AttemptSnapshot>;
  /** Time at which the first attempt started. */
  started_at?: string | null;
  /** Time at which the call ended. */
  finished_at?: string | null;
  /** Execution time in milliseconds. Null until the call ends. */
  duration_ms?: number | null;
  /** Latest progress of the tool. Null if it reported none. */
  progress?: ProgressSnapshot | null;
  /** Partial output of the tool: the last 32 KiB. Missing if there is none. */
  output_so_far?: string | null;
  /** Summary of the result on one line. Null until the call ends. */
  summary?: string | null;
  /** Why the call failed. Null otherwise. */
  failure?: Failure | null;
  /** Size of the full result in bytes, if the call succeeded. */
  result_bytes?: number | null;
  /** Path of the full result, if the call succeeded: `/v1/runs/{run_id}/calls/{call_id}/result`. */
  result_ref?: string | null;
}

/** State of a tool call. */
export type CallState = "preparing" | "needs approval" | "needs input" | "running" | "done" | "failed" | "denied" | "stopped" | "timed out" | "unknown";

/** Request body of `/chat` and `/chat/stream`. */
export interface ChatMessage {
  /** The user's message. Required, unless there are attachments. */
  message?: string | null;
  /**
   * ID of the conversation to continue. It must exist. If omitted, a new conversation is
   * created.
   */
  session_id?: string | null;
  /**
   * ID of an item of the conversation that the message replaces, with everything after it. What
   * is replaced leaves the conversation when the run starts, and stays with the runs that it came
   * from. Needs `session_id`.
   */
  replaces?: string | null;
  /** Path of the file the user is viewing. It is passed to the model as a hint. */
  active_file?: string | null;
  /** Name of the model, as in `/v1/responses`. Default: the default model of the server. */
  model?: string | null;
  /**
   * Tools the model may call, as in `/v1/responses`: MCP servers of the settings by their
   * `server_label`, functions of the settings by their name, `web_search` and `file_search`.
   * Functions of the client are refused. Default: the tools of the settings.
   */
  tools?: Array<Record<string, unknown>> | null;
  /**
   * Images and files of the message: parts `input_image` and `input_file`, as in
   * `/v1/responses`.
   */
  attachments?: Array<Record<string, unknown>> | null;
  /** `/chat/stream` only: send text deltas while the model generates them. Default: false. */
  tokens?: boolean | null;
  /**
   * `/chat/stream` only: send approval requests for calls that need one. If false, such calls
   * are denied and the model is told so. Default: false.
   */
  approvals?: boolean | null;
  /**
   * `/chat/stream` only: send the questions that tools ask the user. If false, tools are told
   * that no user can answer. Default: false.
   */
  inputs?: boolean | null;
}

/** Result of a command on a run. */
export interface CommandResult {
  /** ID of the run. For a retry, the ID of the new run. */
  run_id: string;
  /** Whether the command had an effect. */
  done: boolean;
}

/** Whether the model completed an item. */
export type Completeness = "complete" | "cut" | "superseded";

/** Decision on an approval request. */
export type Decision =
  /** The call is approved. */
  | {
    status: "approved";
  }
  /** The call is denied. */
  | {
    /** Reason; may be empty. */
    reason: string;
    status: "denied";
  };

/** Decision about a call. */
export type DecisionWord = "approve" | "deny";

/** Outcome of a request for a server's tools. */
export type DiscoveryOutcome =
  /** The server listed its tools. */
  | {
    /** The tools that the run may use, as offered to the model. */
    tools: Array<Record<string, unknown>>;
    status: "listed";
  }
  /** The request failed. */
  | {
    /** Why the request failed. */
    failure: Failure;
    status: "failed";
  };

/** Effect class of a tool: whether a call may be repeated after its worker died. */
export type Effect = "pure" | "idempotent" | "once";

/** Body of an error response. */
export interface ErrorBody {
  /** Details of the error. */
  error: ErrorDetails;
}

/** Details of an error. */
export interface ErrorDetails {
  /** Human-readable message. The wording may change; use `code` in programs. */
  message: string;
  /**
   * Category of the error: `invalid_request_error`, `authentication_error`, `permission_error`,
   * `rate_limit_error` or `server_error`.
   */
  type: string;
  /**
   * Path of the request field that caused the error, such as `input[2].role`. Null if the error
   * is not about one field.
   */
  param?: string | null;
  /** Stable, machine-readable error code. */
  code: string;
}

/** An event of a run. */
export type RunEvent =
  /** The run was created and waits for a worker. */
  | {
    /** The request that created the run. Projections need no other information about it. */
    request: Record<string, unknown>;
    type: "run_queued";
  }
  /** A worker started the run. */
  | {
    type: "run_started";
  }
  /** Another worker took the run over, because its previous worker failed or released it. */
  | {
    /** Number of workers so far, including this one; 2 at the first takeover. */
    attempt: number;
    /** Name of the worker that took over. */
    worker?: string | null;
    /** Time at which the previous worker was last heard of. Not set if it released the run. */
    last_heard?: string | null;
    type: "run_taken_over";
  }
  /** A request to the model starts. */
  | {
    /** Number of the turn within the run, starting at 1. */
    turn: number;
    type: "turn_started";
  }
  /**
   * The model was unreachable, or its stream broke before the first output. The turn is tried
   * again.
   */
  | {
    /** Number of the turn. */
    turn: number;
    /** Number of the next attempt; 2 after the first failure. */
    attempt: number;
    /** Why the previous attempt failed. */
    reason: Failure;
    /** Delay before the next attempt, in milliseconds. */
    delay_ms: number;
    type: "turn_retried";
  }
  /** The worker failed during this turn. The output of the turn so far is superseded. */
  | {
    /** Number of the turn. It is requested again. */
    turn: number;
    type: "turn_abandoned";
  }
  /** A part of the model's answer could not be parsed and was skipped. The turn continues. */
  | {
    /** Number of the turn. */
    turn: number;
    /** Size of the skipped part in bytes. */
    bytes: number;
    /** Why the part was skipped. */
    reason: Failure;
    type: "part_skipped";
  }
  /** The model finished the turn. */
  | {
    /** Number of the turn. */
    turn: number;
    /** Why the model stopped. */
    finish: Finish;
    /** Tokens used by the turn. */
    usage: Usage;
    type: "turn_finished";
  }
  /** The model started a message. */
  | {
    /** ID of the message. */
    item_id: string;
    type: "message_started";
  }
  /** The provider sent log probabilities of the tokens of the next `text_added`. */
  | {
    /** ID of the message. */
    item_id: string;
    /** Log probabilities, one entry per token. */
    logprobs: Array<Logprob>;
    type: "logprobs_added";
  }
  /** The model appended text to the message. */
  | {
    /** ID of the message. */
    item_id: string;
    /** The new text only. */
    text: string;
    type: "text_added";
  }
  /** The model appended text to its refusal. */
  | {
    /** ID of the message. */
    item_id: string;
    /** The new text only. */
    text: string;
    type: "refusal_added";
  }
  /** A citation was attached to the text so far. */
  | {
    /** ID of the message. */
    item_id: string;
    /** The citation. */
    annotation: Annotation;
    type: "annotation_added";
  }
  /** The message is finished. */
  | {
    /** ID of the message. */
    item_id: string;
    /** The full text. */
    text: string;
    /** The full refusal; empty if the model did not refuse. */
    refusal?: string | null;
    /** Whether the model completed the message. */
    completeness: Completeness;
    type: "message_finished";
  }
  /**
   * The model appended text to its reasoning. The first such event of an item also starts the
   * item.
   */
  | {
    /** ID of the reasoning item. */
    item_id: string;
    /** The new text only. */
    text: string;
    type: "reasoning_added";
  }
  /** The reasoning item is finished. */
  | {
    /** ID of the reasoning item. */
    item_id: string;
    /** The full text. */
    text: string;
    /**
     * Opaque signature or encrypted content from the provider. It is sent back to the provider
     * unchanged.
     */
    seal?: string | null;
    /** Whether the model completed the reasoning. */
    completeness: Completeness;
    type: "reasoning_finished";
  }
  /** A tool server is being asked for its list of tools. */
  | {
    /** ID of the output item for this listing. */
    item_id: string;
    /** Label of the server. */
    server: string;
    type: "discovery_started";
  }
  /** The listing of a server's tools ended, successfully or not. */
  | {
    /** ID of the output item for this listing. */
    item_id: string;
    /** Label of the server. */
    server: string;
    /** The tools, or why the listing failed. */
    outcome: DiscoveryOutcome;
    /** Tools that the server listed and that are not offered to the model, with the reasons. */
    left_out?: LeftOut | null;
    type: "tools_discovered";
  }
  /** The model started a tool call. Its arguments follow. */
  | {
    /** ID of the call, unique within the run. */
    call_id: string;
    /** ID of the output item for the call. */
    item_id: string;
    /** Name and kind of the tool. */
    tool: ToolRef;
    type: "call_announced";
  }
  /** The model appended text to the arguments of a call. */
  | {
    /** ID of the call. */
    call_id: string;
    /** The new text only: raw JSON, or plain text for a custom tool. */
    text: string;
    type: "arguments_added";
  }
  /** The arguments of a call are finished. */
  | {
    /** ID of the call. */
    call_id: string;
    /** The full arguments: raw JSON, or plain text for a custom tool. */
    arguments: string;
    /**
     * Whether the model completed the arguments. A call with incomplete arguments is never
     * executed.
     */
    completeness: Completeness;
    type: "arguments_finished";
  }
  /** The call needs approval before it is executed. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Time at which the call is denied automatically. Not set if the approval does not expire. */
    expires_at?: string | null;
    /**
     * The tool's current description, if approval is required because the tool's definition
     * differs from the trusted one.
     */
    changed?: string | null;
    /** Effect class of the tool, set together with `server_claims`. */
    effect?: Effect | null;
    /** What the tool's server claims about the tool, if it claims anything. Not verified. */
    server_claims?: ToolClaims | null;
    /**
     * The budget that is used to its soft limit, if that is why a person is asked. The answer
     * decides whether the run goes on, and all calls of the turn wait for it.
     */
    budget?: BudgetUse | null;
    type: "approval_requested";
  }
  /**
   * The approval was decided: by a person, by an earlier decision for the conversation, or by
   * expiry.
   */
  | {
    /** ID of the call. */
    call_id: string;
    /** The decision. */
    decision: Decision;
    /** Arguments that replace the model's, as raw JSON. */
    arguments?: string | null;
    /** Whether the decision holds for the rest of the conversation. */
    remember?: boolean | null;
    /**
     * Source of the decision: the name of a surface, such as `/ws/chat`, or `expiry`, `nobody`
     * or `conversation`.
     */
    by?: string | null;
    /** Who decided. Not set if the server needs no key, or if nobody did. */
    actor?: Actor | null;
    type: "approval_resolved";
  }
  /** Execution of the call starts. Recorded before the tool does anything. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Number of the attempt, starting at 1. */
    attempt: number;
    /** Short description of the arguments for display; may be empty. */
    label?: string | null;
    type: "tool_started";
  }
  /**
   * The tool continues as a background task with an ID. After a takeover the task is polled by
   * this ID, and the tool is not called again.
   */
  | {
    /** ID of the call. */
    call_id: string;
    /** ID of the task, assigned by the tool. */
    task: string;
    type: "tool_task_started";
  }
  /** The tool entered a new phase. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Name of the phase, as reported by the tool. */
    phase: string;
    type: "tool_phase";
  }
  /** The tool reported progress. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Amount of work done, in the tool's own unit. */
    progress: number;
    /** Total amount of work, if known. */
    total?: number | null;
    /** What the tool is doing, if it reports this. */
    message?: string | null;
    type: "tool_progressed";
  }
  /** The tool sent part of its output early. */
  | {
    /** ID of the call. */
    call_id: string;
    /** The new text only. */
    text: string;
    type: "tool_output_added";
  }
  /** The tool asks the user for input and waits. */
  | {
    /** ID of the call. */
    call_id: string;
    /** ID of the request. A call may have several. */
    input_id: string;
    /** Text of the request, as sent by the tool. */
    message: string;
    /** JSON Schema of the requested input. */
    schema: Record<string, unknown>;
    /** Time at which the request expires. Not set if it lasts as long as the call. */
    expires_at?: string | null;
    /**
     * Whether the request comes from the engine and not from the tool: the outcome of the call
     * is unknown, and a person settles it.
     */
    unknown_outcome?: boolean | null;
    type: "input_requested";
  }
  /** A request for input was resolved. Recorded exactly once per request. */
  | {
    /** ID of the call. */
    call_id: string;
    /** ID of the request. */
    input_id: string;
    /** The reply that the tool received. */
    reply: Reply;
    /** Source of the reply: the name of a surface, or `expiry`, `nobody` or `call_over`. */
    by?: string | null;
    type: "input_resolved";
  }
  /** The tool has reported nothing for a while and is still running. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Time since the tool was started, in milliseconds. */
    elapsed_ms: number;
    type: "tool_stayed_silent";
  }
  /** The tool failed with a retryable error and is called again. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Number of the next attempt; 2 after the first failure. */
    attempt: number;
    /** Why the previous attempt failed. */
    reason: Failure;
    type: "tool_retried";
  }
  /** The call ended. Recorded exactly once per call. */
  | {
    /** ID of the call. */
    call_id: string;
    /** Outcome of the call. */
    outcome: ToolOutcome;
    /** Execution time in milliseconds; 0 if the tool was never started. */
    duration_ms: number;
    type: "tool_finished";
  }
  /** The run ended. Always the last event, recorded exactly once. */
  | {
    /** Outcome of the run. */
    outcome: RunOutcome;
    /** Tokens used by all turns. */
    usage: Usage;
    type: "run_finished";
  };

/** A failure, without internal details. The cause is in the server's log. */
export interface Failure {
  /** Stable error code, listed in `docs/errors.md`. */
  code: string;
  /** One sentence, for people and models. */
  message: string;
  /** Time to wait before a retry, in milliseconds, if known. */
  retry_after_ms?: number | null;
}

/** Why the model stopped. */
export type Finish = "answered" | "called_tools" | "length" | "content_filter" | "interrupted";

/** An image returned by a tool. */
export interface Image {
  /** Media type, such as `image/png`. */
  media_type: string;
  /** The image in base64, or the `turnwire-file:` URL of a stored image. */
  base64: string;
}

/** Limit that ended a run. */
export type IncompleteReason = "max_output_tokens" | "max_output_bytes" | "max_turns" | "max_tool_calls" | "max_cost" | "insufficient_quota" | "time_limit" | "repeated_call" | "content_filter";

/** How a user responds to a question of a tool. */
export type InputAction = "accept" | "decline" | "cancel";

/** A question that a tool asked the user. */
export interface InputSnapshot {
  /** ID of the question. */
  input_id: string;
  /** Text of the question. */
  message: string;
  /** JSON schema of the answer. */
  schema: Record<string, unknown>;
  /** Time of the question. */
  requested_at: string;
  /** Time at which the question expires. Missing if it does not. */
  expires_at?: string | null;
  /**
   * Whether the outcome of the call is unknown and the answer settles it. The question then
   * comes from Turnwire, not from the tool.
   */
  unknown_outcome?: boolean | null;
  /** The answer. Null while the tool waits for it. */
  reply?: Reply | null;
}

/** Tools of a server that are not offered to the model. */
export interface LeftOut {
  /** The first of them, at most 32. */
  tools?: Array<LeftOutTool> | null;
  /** How many more there are. */
  more?: number | null;
}

/** A tool that is not offered to the model. */
export interface LeftOutTool {
  /** Name of the tool on its server, without control characters, at most 128 bytes of it. */
  name: string;
  /** Why it is left out, in at most 200 characters. */
  reason: string;
}

/** Log probability of a token. */
export interface Logprob {
  /** The token. */
  token: string;
  /** Natural logarithm of the token's probability. */
  logprob: number;
  /** UTF-8 bytes of the token, if the provider sent them. */
  bytes?: Array<number> | null;
  /**
   * The most likely alternatives at this position, most likely first. They have no alternatives
   * of their own.
   */
  top?: Array<Record<string, unknown>> | null;
}

/** Latest progress of a tool. */
export interface ProgressSnapshot {
  /** Current phase, as named by the tool. */
  phase?: string | null;
  /** Work done so far, in the tool's own unit. */
  progress?: number | null;
  /** Total amount of work, in the same unit. */
  total?: number | null;
  /** What the tool is doing. */
  message?: string | null;
  /** Time of the tool's last report. Null if it has not reported since it started. */
  heard_at?: string | null;
  /** Execution time in milliseconds when the tool was last found silent. */
  silent_at_ms?: number | null;
}

/** An event and its position in the journal. */
export interface RecordedEvent {
  /** ID of the run. */
  run_id: string;
  /** Sequence number of the event within the run: 1, 2, 3, … without gaps. */
  seq: number;
  /** Time at which the event was recorded. */
  at: string;
  /** The event. */
  event: RunEvent;
}

/** Reply to a tool's request for input. */
export type Reply =
  /** The user gave the input. */
  | {
    /** The input, in the requested shape. */
    content: Record<string, unknown>;
    status: "accepted";
  }
  /** The user declined, or no user can be asked. */
  | {
    status: "declined";
  }
  /** There is no reply: the user dismissed the request, or it expired. */
  | {
    status: "cancelled";
  };

/** A retry of a model request. */
export interface Retrying {
  /** Number of the attempt; 2 for the first retry. */
  attempt: number;
  /** Why the attempt before failed. */
  reason: Failure;
  /** Delay before the retry, in milliseconds. */
  delay_ms: number;
  /** Time at which the retry was decided. */
  at: string;
}

/** Outcome of a run. */
export type RunOutcome =
  /** The model answered, or called tools that the client executes. */
  | {
    status: "completed";
  }
  /** The run reached a limit. Its output so far is valid but not complete. */
  | {
    /** The limit that was reached. */
    reason: IncompleteReason;
    status: "incomplete";
  }
  /** The model or the engine failed. */
  | {
    /** Why the run failed. */
    failure: Failure;
    status: "failed";
  }
  /** The run was cancelled. */
  | {
    status: "cancelled";
  };

/** Current state of a run. */
export interface RunSnapshot {
  /** ID of the run. */
  run_id: string;
  /** Status of the run. */
  status: RunWord;
  /** How the run ended, with the reason. Null while it is in progress. */
  outcome?: RunOutcome | null;
  /** If the run is stalled: the model, server or tool it needs and no worker has. */
  stalled?: string | null;
  /** Name of the model. */
  model: string;
  /** ID of the conversation. Null if the run belongs to none. */
  conversation_id?: string | null;
  /** ID of the run it continues, if it belongs to no conversation. */
  continues?: string | null;
  /** Time of the request. */
  created_at: string;
  /** Time at which a worker started the run. */
  started_at?: string | null;
  /** Time at which the run ended. */
  finished_at?: string | null;
  /** Workers that executed the run, in order. There is more than one after a takeover. */
  workers: Array<WorkerSnapshot>;
  /** Number of the current turn; 0 before the first one. */
  turn: number;
  /** The pending retry of a model request. Null if there is none. */
  retrying?: Retrying | null;
  /** Number of unreadable parts in the model's output that were skipped. */
  skipped_parts?: number | null;
  /** The answer so far: the text of the last turn that has any. */
  text: string;
  /** All messages and reasoning of the model, in order. */
  said: Array<TextSnapshot>;
  /** All tool calls, in order. */
  calls: Array<CallSnapshot>;
  /** All tool servers that were asked to list their tools. */
  servers: Array<ServerSnapshot>;
  /** Tokens used so far. */
  usage: Usage;
  /** Seq of the last event in this snapshot. Pass it as `after` to get later events. */
  last_seq: number;
}

/** Status of a run. */
export type RunWord = "queued" | "running" | "needs_input" | "stalled" | "completed" | "incomplete" | "failed" | "cancelled";

/** A tool server that was asked to list its tools. */
export interface ServerSnapshot {
  /** Label of the server. */
  server: string;
  /** ID of the output item of the listing. */
  item_id: string;
  /** Names of its tools. Null while it is being asked, or if it failed. */
  tools?: Array<string> | null;
  /** Why the listing failed. Null otherwise. */
  failure?: Failure | null;
  /** Tools that it listed and that the model is not offered, with the reasons. */
  left_out?: LeftOut | null;
}

/** Kind of a text. */
export type TextKind = "message" | "reasoning";

/** A message or reasoning text of the model. */
export interface TextSnapshot {
  /** ID of the item. */
  item_id: string;
  /** Whether it is a message or reasoning. */
  kind: TextKind;
  /** Number of the turn, from 1. */
  turn: number;
  /** State of the text. */
  state: TextState;
  /** The text so far. */
  text: string;
  /** The refusal so far. Missing if there is none. */
  refusal?: string | null;
  /** Sources of the text. Missing if there are none. */
  annotations?: Array<Annotation> | null;
}

/** State of a text. */
export type TextState = "open" | "complete" | "cut" | "superseded";

/**
 * What a tool's server claims about the tool. Nobody has verified it: it is shown to people beside
 * the effect class, which the operator sets. A claim that the server does not make is missing.
 */
export interface ToolClaims {
  /** The tool changes nothing (`readOnlyHint`). */
  read_only?: boolean | null;
  /** The tool may delete or overwrite something (`destructiveHint`). */
  destructive?: boolean | null;
  /** A repeated call has no further effect (`idempotentHint`). */
  idempotent?: boolean | null;
  /** The tool reaches beyond its server, for example the web (`openWorldHint`). */
  open_world?: boolean | null;
}

/** Kind of a tool. It decides how surfaces present the tool. */
export type ToolKind = "function" | "client" | "custom" | "mcp" | "web_search" | "file_search";

/** Outcome of a call. Only `succeeded` is a success. */
export type ToolOutcome =
  /** The tool succeeded. */
  | {
    /** The result. */
    output: ToolOutput;
    status: "succeeded";
  }
  /** The tool returned an error, or panicked. */
  | {
    /** Why the tool failed. */
    failure: Failure;
    status: "failed";
  }
  /** The tool did not return in time. */
  | {
    /** Time after which the call was given up, in milliseconds. */
    after_ms: number;
    status: "timed_out";
  }
  /** The call was cancelled. */
  | {
    status: "cancelled";
  }
  /** The approval was denied. */
  | {
    /** Reason given by the person; may be empty. */
    reason: string;
    status: "denied";
  }
  /**
   * The arguments are invalid. Either they violate the tool's schema, and the tool was not
   * started, or the tool rejected them.
   */
  | {
    /** What is invalid. */
    message: string;
    status: "invalid_arguments";
  }
  /** No tool has this name. */
  | {
    /** What the model can do about it. */
    message: string;
    status: "not_found";
  }
  /** The call was not executed because the run stopped first. */
  | {
    /** Why the run stopped. */
    reason: string;
    status: "skipped";
  }
  /**
   * The worker, the tool's server or the connection to it failed during the call. Whether the
   * call took effect is not known.
   */
  | {
    /** What is known. */
    message: string;
    status: "outcome_unknown";
  };

/** Result of a tool call. */
export interface ToolOutput {
  /** The result as text; only its beginning if `rest` is set. */
  text: string;
  /** The result as structured data, if the tool returned it. */
  structured?: Record<string, unknown> | null;
  /** Images. */
  images?: Array<Image> | null;
  /** Short description of the result for display. */
  short?: string | null;
  /** Where the full text is stored, if it is too large for the journal. */
  rest?: BlobRef | null;
}

/** Name and kind of a tool. */
export interface ToolRef {
  /** Name of the tool. */
  name: string;
  /** Kind of the tool. */
  kind: ToolKind;
  /** Label of the tool's server, or its namespace. */
  server?: string | null;
}

/** Tokens used by the model. */
export interface Usage {
  /** Input tokens. */
  input_tokens: number;
  /** Input tokens that were read from the provider's cache. */
  cached_tokens: number;
  /** Output tokens, including reasoning. */
  output_tokens: number;
  /** Output tokens used for reasoning. */
  reasoning_tokens: number;
  /** Cost in billionths of the operator's currency. Absent if it is not known. */
  cost_nanos?: number | null;
}

/** The time a worker executed a run. */
export interface WorkerSnapshot {
  /** Number of the worker in the order of execution, from 1. */
  attempt: number;
  /** Time at which the worker started or took over the run. */
  since: string;
  /**
   * Time at which it ended the run, or of its last event before a takeover. Missing while it
   * executes the run.
   */
  until?: string | null;
  /** Whether it took the run over from another worker. */
  taken_over: boolean;
  /** Name of the worker, if it took the run over and has a name. */
  name?: string | null;
  /** Time at which the worker before it was last heard of, if that one died. */
  previous_last_heard?: string | null;
}
