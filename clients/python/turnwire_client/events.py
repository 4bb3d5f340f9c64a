"""Types of what the server sends.

Generated from /openapi.json by scripts/generate.py. Do not edit. A field that is not required may
be missing or None. Servers may add fields and events at any time, so ignore those that are not
known here.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, Union


class Failure(TypedDict):
    """A failure, without internal details. The cause is in the server's log."""

    code: str
    """Stable error code, listed in `docs/errors.md`."""

    message: str
    """One sentence, for people and models."""

    retry_after_ms: NotRequired[int | None]
    """Time to wait before a retry, in milliseconds, if known."""


Finish = Literal["answered", "called_tools", "length", "content_filter", "interrupted"]
"""Why the model stopped."""


class Usage(TypedDict):
    """Tokens used by the model."""

    input_tokens: int
    """Input tokens."""

    cached_tokens: int
    """Input tokens that were read from the provider's cache."""

    output_tokens: int
    """Output tokens, including reasoning."""

    reasoning_tokens: int
    """Output tokens used for reasoning."""

    cost_nanos: NotRequired[int | None]
    """Cost in billionths of the operator's currency. Absent if it is not known."""


class Logprob(TypedDict):
    """Log probability of a token."""

    token: str
    """The token."""

    logprob: float
    """Natural logarithm of the token's probability."""

    bytes: NotRequired[list[int] | None]
    """UTF-8 bytes of the token, if the provider sent them."""

    top: NotRequired[list[dict[str, Any]] | None]
    """The most likely alternatives at this position, most likely first. They have no
    alternatives of their own.
    """


class Annotation(TypedDict):
    """A citation."""

    kind: str
    """Kind of the source, such as `url_citation` or `file_citation`."""

    source: dict[str, Any]
    """Fields of the citation, depending on its kind."""


Completeness = Literal["complete", "cut", "superseded"]
"""Whether the model completed an item."""


class DiscoveryOutcomeListed(TypedDict):
    """The server listed its tools."""

    tools: list[dict[str, Any]]
    """The tools that the run may use, as offered to the model."""

    status: Literal["listed"]


class DiscoveryOutcomeFailed(TypedDict):
    """The request failed."""

    failure: Failure
    """Why the request failed."""

    status: Literal["failed"]


DiscoveryOutcome = Union[
    DiscoveryOutcomeListed,
    DiscoveryOutcomeFailed,
]
"""Outcome of a request for a server's tools."""


class LeftOutTool(TypedDict):
    """A tool that is not offered to the model."""

    name: str
    """Name of the tool on its server, without control characters, at most 128 bytes of it."""

    reason: str
    """Why it is left out, in at most 200 characters."""


class LeftOut(TypedDict):
    """Tools of a server that are not offered to the model."""

    tools: NotRequired[list[LeftOutTool] | None]
    """The first of them, at most 32."""

    more: NotRequired[int | None]
    """How many more there are."""


ToolKind = Literal["function", "client", "custom", "mcp", "web_search", "file_search"]
"""Kind of a tool. It decides how surfaces present the tool."""


class ToolRef(TypedDict):
    """Name and kind of a tool."""

    name: str
    """Name of the tool."""

    kind: ToolKind
    """Kind of the tool."""

    server: NotRequired[str | None]
    """Label of the tool's server, or its namespace."""


Effect = Literal["pure", "idempotent", "once"]
"""Effect class of a tool: whether a call may be repeated after its worker died."""


class ToolClaims(TypedDict):
    """What a tool's server claims about the tool. Nobody has verified it: it is shown to people
    beside the effect class, which the operator sets. A claim that the server does not make is
    missing.
    """

    read_only: NotRequired[bool | None]
    """The tool changes nothing (`readOnlyHint`)."""

    destructive: NotRequired[bool | None]
    """The tool may delete or overwrite something (`destructiveHint`)."""

    idempotent: NotRequired[bool | None]
    """A repeated call has no further effect (`idempotentHint`)."""

    open_world: NotRequired[bool | None]
    """The tool reaches beyond its server, for example the web (`openWorldHint`)."""


BudgetScope = Literal["run", "key", "tenant"]
"""Whose budget it is."""


class BudgetUse(TypedDict):
    """How much of a budget is used, when a person is asked about it. Amounts are in billionths
    of the currency of the models' prices.
    """

    scope: BudgetScope
    """Whose budget it is."""

    used_nanos: int
    """What is used."""

    ask_nanos: int
    """What may be used before a person is asked: the soft limit."""

    max_nanos: NotRequired[int | None]
    """What may be used at all: the hard limit. Not set if there is none."""


class DecisionApproved(TypedDict):
    """The call is approved."""

    status: Literal["approved"]


class DecisionDenied(TypedDict):
    """The call is denied."""

    reason: str
    """Reason; may be empty."""

    status: Literal["denied"]


Decision = Union[
    DecisionApproved,
    DecisionDenied,
]
"""Decision on an approval request."""


class Actor(TypedDict):
    """Who asked for something, as far as the server that accepted it knows."""

    key_id: NotRequired[str | None]
    """ID of the API key."""

    subject: NotRequired[str | None]
    """The person or program that an identity provider vouches for."""

    project: NotRequired[str | None]
    """Part of the tenant that the key is used by."""


class ReplyAccepted(TypedDict):
    """The user gave the input."""

    content: dict[str, Any]
    """The input, in the requested shape."""

    status: Literal["accepted"]


class ReplyDeclined(TypedDict):
    """The user declined, or no user can be asked."""

    status: Literal["declined"]


class ReplyCancelled(TypedDict):
    """There is no reply: the user dismissed the request, or it expired."""

    status: Literal["cancelled"]


Reply = Union[
    ReplyAccepted,
    ReplyDeclined,
    ReplyCancelled,
]
"""Reply to a tool's request for input."""


class Image(TypedDict):
    """An image returned by a tool."""

    media_type: str
    """Media type, such as `image/png`."""

    base64: str
    """The image in base64, or the `turnwire-file:` URL of a stored image."""


class BlobRef(TypedDict):
    """Reference to a text that is stored as a blob."""

    blob: str
    """ID of the blob."""

    bytes: int
    """Size in bytes."""


class ToolOutput(TypedDict):
    """Result of a tool call."""

    text: str
    """The result as text; only its beginning if `rest` is set."""

    structured: NotRequired[dict[str, Any] | None]
    """The result as structured data, if the tool returned it."""

    images: NotRequired[list[Image] | None]
    """Images."""

    short: NotRequired[str | None]
    """Short description of the result for display."""

    rest: NotRequired[BlobRef | None]
    """Where the full text is stored, if it is too large for the journal."""


class ToolOutcomeSucceeded(TypedDict):
    """The tool succeeded."""

    output: ToolOutput
    """The result."""

    status: Literal["succeeded"]


class ToolOutcomeFailed(TypedDict):
    """The tool returned an error, or panicked."""

    failure: Failure
    """Why the tool failed."""

    status: Literal["failed"]


class ToolOutcomeTimedOut(TypedDict):
    """The tool did not return in time."""

    after_ms: int
    """Time after which the call was given up, in milliseconds."""

    status: Literal["timed_out"]


class ToolOutcomeCancelled(TypedDict):
    """The call was cancelled."""

    status: Literal["cancelled"]


class ToolOutcomeDenied(TypedDict):
    """The approval was denied."""

    reason: str
    """Reason given by the person; may be empty."""

    status: Literal["denied"]


class ToolOutcomeInvalidArguments(TypedDict):
    """The arguments are invalid. Either they violate the tool's schema, and the tool was not
    started, or the tool rejected them.
    """

    message: str
    """What is invalid."""

    status: Literal["invalid_arguments"]


class ToolOutcomeNotFound(TypedDict):
    """No tool has this name."""

    message: str
    """What the model can do about it."""

    status: Literal["not_found"]


class ToolOutcomeSkipped(TypedDict):
    """The call was not executed because the run stopped first."""

    reason: str
    """Why the run stopped."""

    status: Literal["skipped"]


class ToolOutcomeOutcomeUnknown(TypedDict):
    """The worker, the tool's server or the connection to it failed during the call. Whether the
    call took effect is not known.
    """

    message: str
    """What is known."""

    status: Literal["outcome_unknown"]


ToolOutcome = Union[
    ToolOutcomeSucceeded,
    ToolOutcomeFailed,
    ToolOutcomeTimedOut,
    ToolOutcomeCancelled,
    ToolOutcomeDenied,
    ToolOutcomeInvalidArguments,
    ToolOutcomeNotFound,
    ToolOutcomeSkipped,
    ToolOutcomeOutcomeUnknown,
]
"""Outcome of a call. Only `succeeded` is a success."""


IncompleteReason = Literal["max_output_tokens", "max_output_bytes", "max_turns", "max_tool_calls", "max_cost", "insufficient_quota", "time_limit", "repeated_call", "content_filter"]
"""Limit that ended a run."""


class RunOutcomeCompleted(TypedDict):
    """The model answered, or called tools that the client executes."""

    status: Literal["completed"]


class RunOutcomeIncomplete(TypedDict):
    """The run reached a limit. Its output so far is valid but not complete."""

    reason: IncompleteReason
    """The limit that was reached."""

    status: Literal["incomplete"]


class RunOutcomeFailed(TypedDict):
    """The model or the engine failed."""

    failure: Failure
    """Why the run failed."""

    status: Literal["failed"]


class RunOutcomeCancelled(TypedDict):
    """The run was cancelled."""

    status: Literal["cancelled"]


RunOutcome = Union[
    RunOutcomeCompleted,
    RunOutcomeIncomplete,
    RunOutcomeFailed,
    RunOutcomeCancelled,
]
"""Outcome of a run."""


class RunQueuedEvent(TypedDict):
    """The run was created and waits for a worker."""

    request: dict[str, Any]
    """The request that created the run. Projections need no other information about it."""

    type: Literal["run_queued"]


class RunStartedEvent(TypedDict):
    """A worker started the run."""

    type: Literal["run_started"]


class RunTakenOverEvent(TypedDict):
    """Another worker took the run over, because its previous worker failed or released it."""

    attempt: int
    """Number of workers so far, including this one; 2 at the first takeover."""

    worker: NotRequired[str | None]
    """Name of the worker that took over."""

    last_heard: NotRequired[str | None]
    """Time at which the previous worker was last heard of. Not set if it released the run."""

    type: Literal["run_taken_over"]


class TurnStartedEvent(TypedDict):
    """A request to the model starts."""

    turn: int
    """Number of the turn within the run, starting at 1."""

    type: Literal["turn_started"]


class TurnRetriedEvent(TypedDict):
    """The model was unreachable, or its stream broke before the first output. The turn is tried
    again.
    """

    turn: int
    """Number of the turn."""

    attempt: int
    """Number of the next attempt; 2 after the first failure."""

    reason: Failure
    """Why the previous attempt failed."""

    delay_ms: int
    """Delay before the next attempt, in milliseconds."""

    type: Literal["turn_retried"]


class TurnAbandonedEvent(TypedDict):
    """The worker failed during this turn. The output of the turn so far is superseded."""

    turn: int
    """Number of the turn. It is requested again."""

    type: Literal["turn_abandoned"]


class PartSkippedEvent(TypedDict):
    """A part of the model's answer could not be parsed and was skipped. The turn continues."""

    turn: int
    """Number of the turn."""

    bytes: int
    """Size of the skipped part in bytes."""

    reason: Failure
    """Why the part was skipped."""

    type: Literal["part_skipped"]


class TurnFinishedEvent(TypedDict):
    """The model finished the turn."""

    turn: int
    """Number of the turn."""

    finish: Finish
    """Why the model stopped."""

    usage: Usage
    """Tokens used by the turn."""

    type: Literal["turn_finished"]


class MessageStartedEvent(TypedDict):
    """The model started a message."""

    item_id: str
    """ID of the message."""

    type: Literal["message_started"]


class LogprobsAddedEvent(TypedDict):
    """The provider sent log probabilities of the tokens of the next `text_added`."""

    item_id: str
    """ID of the message."""

    logprobs: list[Logprob]
    """Log probabilities, one entry per token."""

    type: Literal["logprobs_added"]


class TextAddedEvent(TypedDict):
    """The model appended text to the message."""

    item_id: str
    """ID of the message."""

    text: str
    """The new text only."""

    type: Literal["text_added"]


class RefusalAddedEvent(TypedDict):
    """The model appended text to its refusal."""

    item_id: str
    """ID of the message."""

    text: str
    """The new text only."""

    type: Literal["refusal_added"]


class AnnotationAddedEvent(TypedDict):
    """A citation was attached to the text so far."""

    item_id: str
    """ID of the message."""

    annotation: Annotation
    """The citation."""

    type: Literal["annotation_added"]


class MessageFinishedEvent(TypedDict):
    """The message is finished."""

    item_id: str
    """ID of the message."""

    text: str
    """The full text."""

    refusal: NotRequired[str | None]
    """The full refusal; empty if the model did not refuse."""

    completeness: Completeness
    """Whether the model completed the message."""

    type: Literal["message_finished"]


class ReasoningAddedEvent(TypedDict):
    """The model appended text to its reasoning. The first such event of an item also starts the
    item.
    """

    item_id: str
    """ID of the reasoning item."""

    text: str
    """The new text only."""

    type: Literal["reasoning_added"]


class ReasoningFinishedEvent(TypedDict):
    """The reasoning item is finished."""

    item_id: str
    """ID of the reasoning item."""

    text: str
    """The full text."""

    seal: NotRequired[str | None]
    """Opaque signature or encrypted content from the provider. It is sent back to the provider
    unchanged.
    """

    completeness: Completeness
    """Whether the model completed the reasoning."""

    type: Literal["reasoning_finished"]


class DiscoveryStartedEvent(TypedDict):
    """A tool server is being asked for its list of tools."""

    item_id: str
    """ID of the output item for this listing."""

    server: str
    """Label of the server."""

    type: Literal["discovery_started"]


class ToolsDiscoveredEvent(TypedDict):
    """The listing of a server's tools ended, successfully or not."""

    item_id: str
    """ID of the output item for this listing."""

    server: str
    """Label of the server."""

    outcome: DiscoveryOutcome
    """The tools, or why the listing failed."""

    left_out: NotRequired[LeftOut | None]
    """Tools that the server listed and that are not offered to the model, with the reasons."""

    type: Literal["tools_discovered"]


class CallAnnouncedEvent(TypedDict):
    """The model started a tool call. Its arguments follow."""

    call_id: str
    """ID of the call, unique within the run."""

    item_id: str
    """ID of the output item for the call."""

    tool: ToolRef
    """Name and kind of the tool."""

    type: Literal["call_announced"]


class ArgumentsAddedEvent(TypedDict):
    """The model appended text to the arguments of a call."""

    call_id: str
    """ID of the call."""

    text: str
    """The new text only: raw JSON, or plain text for a custom tool."""

    type: Literal["arguments_added"]


class ArgumentsFinishedEvent(TypedDict):
    """The arguments of a call are finished."""

    call_id: str
    """ID of the call."""

    arguments: str
    """The full arguments: raw JSON, or plain text for a custom tool."""

    completeness: Completeness
    """Whether the model completed the arguments. A call with incomplete arguments is never
    executed.
    """

    type: Literal["arguments_finished"]


class ApprovalRequestedEvent(TypedDict):
    """The call needs approval before it is executed."""

    call_id: str
    """ID of the call."""

    expires_at: NotRequired[str | None]
    """Time at which the call is denied automatically. Not set if the approval does not expire."""

    changed: NotRequired[str | None]
    """The tool's current description, if approval is required because the tool's definition
    differs from the trusted one.
    """

    effect: NotRequired[Effect | None]
    """Effect class of the tool, set together with `server_claims`."""

    server_claims: NotRequired[ToolClaims | None]
    """What the tool's server claims about the tool, if it claims anything. Not verified."""

    budget: NotRequired[BudgetUse | None]
    """The budget that is used to its soft limit, if that is why a person is asked. The answer
    decides whether the run goes on, and all calls of the turn wait for it.
    """

    type: Literal["approval_requested"]


class ApprovalResolvedEvent(TypedDict):
    """The approval was decided: by a person, by an earlier decision for the conversation, or by
    expiry.
    """

    call_id: str
    """ID of the call."""

    decision: Decision
    """The decision."""

    arguments: NotRequired[str | None]
    """Arguments that replace the model's, as raw JSON."""

    remember: NotRequired[bool | None]
    """Whether the decision holds for the rest of the conversation."""

    by: NotRequired[str | None]
    """Source of the decision: the name of a surface, such as `/ws/chat`, or `expiry`, `nobody`
    or `conversation`.
    """

    actor: NotRequired[Actor | None]
    """Who decided. Not set if the server needs no key, or if nobody did."""

    type: Literal["approval_resolved"]


class ToolStartedEvent(TypedDict):
    """Execution of the call starts. Recorded before the tool does anything."""

    call_id: str
    """ID of the call."""

    attempt: int
    """Number of the attempt, starting at 1."""

    label: NotRequired[str | None]
    """Short description of the arguments for display; may be empty."""

    type: Literal["tool_started"]


class ToolTaskStartedEvent(TypedDict):
    """The tool continues as a background task with an ID. After a takeover the task is polled by
    this ID, and the tool is not called again.
    """

    call_id: str
    """ID of the call."""

    task: str
    """ID of the task, assigned by the tool."""

    type: Literal["tool_task_started"]


class ToolPhaseEvent(TypedDict):
    """The tool entered a new phase."""

    call_id: str
    """ID of the call."""

    phase: str
    """Name of the phase, as reported by the tool."""

    type: Literal["tool_phase"]


class ToolProgressedEvent(TypedDict):
    """The tool reported progress."""

    call_id: str
    """ID of the call."""

    progress: float
    """Amount of work done, in the tool's own unit."""

    total: NotRequired[float | None]
    """Total amount of work, if known."""

    message: NotRequired[str | None]
    """What the tool is doing, if it reports this."""

    type: Literal["tool_progressed"]


class ToolOutputAddedEvent(TypedDict):
    """The tool sent part of its output early."""

    call_id: str
    """ID of the call."""

    text: str
    """The new text only."""

    type: Literal["tool_output_added"]


class InputRequestedEvent(TypedDict):
    """The tool asks the user for input and waits."""

    call_id: str
    """ID of the call."""

    input_id: str
    """ID of the request. A call may have several."""

    message: str
    """Text of the request, as sent by the tool."""

    schema: dict[str, Any]
    """JSON Schema of the requested input."""

    expires_at: NotRequired[str | None]
    """Time at which the request expires. Not set if it lasts as long as the call."""

    unknown_outcome: NotRequired[bool | None]
    """Whether the request comes from the engine and not from the tool: the outcome of the call
    is unknown, and a person settles it.
    """

    type: Literal["input_requested"]


class InputResolvedEvent(TypedDict):
    """A request for input was resolved. Recorded exactly once per request."""

    call_id: str
    """ID of the call."""

    input_id: str
    """ID of the request."""

    reply: Reply
    """The reply that the tool received."""

    by: NotRequired[str | None]
    """Source of the reply: the name of a surface, or `expiry`, `nobody` or `call_over`."""

    type: Literal["input_resolved"]


class ToolStayedSilentEvent(TypedDict):
    """The tool has reported nothing for a while and is still running."""

    call_id: str
    """ID of the call."""

    elapsed_ms: int
    """Time since the tool was started, in milliseconds."""

    type: Literal["tool_stayed_silent"]


class ToolRetriedEvent(TypedDict):
    """The tool failed with a retryable error and is called again."""

    call_id: str
    """ID of the call."""

    attempt: int
    """Number of the next attempt; 2 after the first failure."""

    reason: Failure
    """Why the previous attempt failed."""

    type: Literal["tool_retried"]


class ToolFinishedEvent(TypedDict):
    """The call ended. Recorded exactly once per call."""

    call_id: str
    """ID of the call."""

    outcome: ToolOutcome
    """Outcome of the call."""

    duration_ms: int
    """Execution time in milliseconds; 0 if the tool was never started."""

    type: Literal["tool_finished"]


class RunFinishedEvent(TypedDict):
    """The run ended. Always the last event, recorded exactly once."""

    outcome: RunOutcome
    """Outcome of the run."""

    usage: Usage
    """Tokens used by all turns."""

    type: Literal["run_finished"]


RunEvent = Union[
    RunQueuedEvent,
    RunStartedEvent,
    RunTakenOverEvent,
    TurnStartedEvent,
    TurnRetriedEvent,
    TurnAbandonedEvent,
    PartSkippedEvent,
    TurnFinishedEvent,
    MessageStartedEvent,
    LogprobsAddedEvent,
    TextAddedEvent,
    RefusalAddedEvent,
    AnnotationAddedEvent,
    MessageFinishedEvent,
    ReasoningAddedEvent,
    ReasoningFinishedEvent,
    DiscoveryStartedEvent,
    ToolsDiscoveredEvent,
    CallAnnouncedEvent,
    ArgumentsAddedEvent,
    ArgumentsFinishedEvent,
    ApprovalRequestedEvent,
    ApprovalResolvedEvent,
    ToolStartedEvent,
    ToolTaskStartedEvent,
    ToolPhaseEvent,
    ToolProgressedEvent,
    ToolOutputAddedEvent,
    InputRequestedEvent,
    InputResolvedEvent,
    ToolStayedSilentEvent,
    ToolRetriedEvent,
    ToolFinishedEvent,
    RunFinishedEvent,
]
"""An event of a run."""


class RecordedEvent(TypedDict):
    """An event and its position in the journal."""

    run_id: str
    """ID of the run."""

    seq: int
    """Sequence number of the event within the run: 1, 2, 3, … without gaps."""

    at: str
    """Time at which the event was recorded."""

    event: RunEvent
    """The event."""


RunWord = Literal["queued", "running", "needs_input", "stalled", "completed", "incomplete", "failed", "cancelled"]
"""Status of a run."""


class WorkerSnapshot(TypedDict):
    """The time a worker executed a run."""

    attempt: int
    """Number of the worker in the order of execution, from 1."""

    since: str
    """Time at which the worker started or took over the run."""

    until: NotRequired[str | None]
    """Time at which it ended the run, or of its last event before a takeover. Missing while it
    executes the run.
    """

    taken_over: bool
    """Whether it took the run over from another worker."""

    name: NotRequired[str | None]
    """Name of the worker, if it took the run over and has a name."""

    previous_last_heard: NotRequired[str | None]
    """Time at which the worker before it was last heard of, if that one died."""


class Retrying(TypedDict):
    """A retry of a model request."""

    attempt: int
    """Number of the attempt; 2 for the first retry."""

    reason: Failure
    """Why the attempt before failed."""

    delay_ms: int
    """Delay before the retry, in milliseconds."""

    at: str
    """Time at which the retry was decided."""


TextKind = Literal["message", "reasoning"]
"""Kind of a text."""


TextState = Literal["open", "complete", "cut", "superseded"]
"""State of a text."""


class TextSnapshot(TypedDict):
    """A message or reasoning text of the model."""

    item_id: str
    """ID of the item."""

    kind: TextKind
    """Whether it is a message or reasoning."""

    turn: int
    """Number of the turn, from 1."""

    state: TextState
    """State of the text."""

    text: str
    """The text so far."""

    refusal: NotRequired[str | None]
    """The refusal so far. Missing if there is none."""

    annotations: NotRequired[list[Annotation] | None]
    """Sources of the text. Missing if there are none."""


CallState = Literal["preparing", "needs approval", "needs input", "running", "done", "failed", "denied", "stopped", "timed out", "unknown"]
"""State of a tool call."""


BudgetQuestion = Any
"""A budget that is used to its soft limit. The answer decides whether the run goes on."""


class ApprovalSnapshot(TypedDict):
    """Approval of a call."""

    requested_at: NotRequired[str | None]
    """Time of the approval request. Null if an earlier run requested it."""

    resolved_at: NotRequired[str | None]
    """Time of the decision."""

    decision: NotRequired[Decision | None]
    """The decision. Null while it is pending."""

    expires_at: NotRequired[str | None]
    """Time at which the approval request expires. Missing if it does not."""

    changed: NotRequired[str | None]
    """The new definition of the tool, if it differs from the one that was approved before."""

    effect: NotRequired[Effect | None]
    """Effect class of the tool. Present with `server_claims`."""

    server_claims: NotRequired[ToolClaims | None]
    """What the tool's server claims about the tool. Not verified. Missing if it claims nothing."""

    budget: NotRequired[BudgetQuestion | None]
    """The budget that the approval is about, if that is why it is asked for. The answer decides
    whether the run goes on, and all calls of the turn wait for it.
    """

    edited_from: NotRequired[str | None]
    """The model's arguments, if the user replaced them."""

    remember: NotRequired[bool | None]
    """Whether the decision applies to the rest of the conversation. Missing if false."""

    by: NotRequired[str | None]
    """Where the decision was made, such as `/v1/runs`."""


class InputSnapshot(TypedDict):
    """A question that a tool asked the user."""

    input_id: str
    """ID of the question."""

    message: str
    """Text of the question."""

    schema: dict[str, Any]
    """JSON schema of the answer."""

    requested_at: str
    """Time of the question."""

    expires_at: NotRequired[str | None]
    """Time at which the question expires. Missing if it does not."""

    unknown_outcome: NotRequired[bool | None]
    """Whether the outcome of the call is unknown and the answer settles it. The question then
    comes from Turnwire, not from the tool.
    """

    reply: NotRequired[Reply | None]
    """The answer. Null while the tool waits for it."""


class AttemptSnapshot(TypedDict):
    """One attempt to execute a call."""

    attempt: int
    """Number of the attempt, from 1."""

    at: str
    """Time at which the attempt started."""

    reason: NotRequired[Failure | None]
    """Why the attempt before failed."""


class ProgressSnapshot(TypedDict):
    """Latest progress of a tool."""

    phase: NotRequired[str | None]
    """Current phase, as named by the tool."""

    progress: NotRequired[float | None]
    """Work done so far, in the tool's own unit."""

    total: NotRequired[float | None]
    """Total amount of work, in the same unit."""

    message: NotRequired[str | None]
    """What the tool is doing."""

    heard_at: NotRequired[str | None]
    """Time of the tool's last report. Null if it has not reported since it started."""

    silent_at_ms: NotRequired[int | None]
    """Execution time in milliseconds when the tool was last found silent."""


class CallSnapshot(TypedDict):
    """State of a tool call."""

    call_id: str
    """ID of the tool call."""

    item_id: str
    """ID of the output item of the call."""

    tool: str
    """Name of the tool."""

    kind: ToolKind
    """Kind of the tool."""

    server: NotRequired[str | None]
    """Label of the tool's server. Null if the tool has none."""

    turn: int
    """Number of the turn in which the model made the call; 0 for calls that came with the
    request.
    """

    state: CallState
    """State of the call."""

    arguments: str
    """The arguments so far, as JSON text."""

    arguments_complete: bool
    """Whether the arguments are complete."""

    announced_at: str
    """Time at which the model named the call."""

    approval: NotRequired[ApprovalSnapshot | None]
    """The approval of the call. Null if none was requested."""

    inputs: NotRequired[list[InputSnapshot] | None]
    """Questions that the tool asked the user. Missing if there are none."""

    attempts: list[AttemptSnapshot]
    """All attempts to execute the call."""

    started_at: NotRequired[str | None]
    """Time at which the first attempt started."""

    finished_at: NotRequired[str | None]
    """Time at which the call ended."""

    duration_ms: NotRequired[int | None]
    """Execution time in milliseconds. Null until the call ends."""

    progress: NotRequired[ProgressSnapshot | None]
    """Latest progress of the tool. Null if it reported none."""

    output_so_far: NotRequired[str | None]
    """Partial output of the tool: the last 32 KiB. Missing if there is none."""

    summary: NotRequired[str | None]
    """Summary of the result on one line. Null until the call ends."""

    failure: NotRequired[Failure | None]
    """Why the call failed. Null otherwise."""

    result_bytes: NotRequired[int | None]
    """Size of the full result in bytes, if the call succeeded."""

    result_ref: NotRequired[str | None]
    """Path of the full result, if the call succeeded:
    `/v1/runs/{run_id}/calls/{call_id}/result`.
    """


class ServerSnapshot(TypedDict):
    """A tool server that was asked to list its tools."""

    server: str
    """Label of the server."""

    item_id: str
    """ID of the output item of the listing."""

    tools: NotRequired[list[str] | None]
    """Names of its tools. Null while it is being asked, or if it failed."""

    failure: NotRequired[Failure | None]
    """Why the listing failed. Null otherwise."""

    left_out: NotRequired[LeftOut | None]
    """Tools that it listed and that the model is not offered, with the reasons."""


class RunSnapshot(TypedDict):
    """Current state of a run."""

    run_id: str
    """ID of the run."""

    status: RunWord
    """Status of the run."""

    outcome: NotRequired[RunOutcome | None]
    """How the run ended, with the reason. Null while it is in progress."""

    stalled: NotRequired[str | None]
    """If the run is stalled: the model, server or tool it needs and no worker has."""

    model: str
    """Name of the model."""

    conversation_id: NotRequired[str | None]
    """ID of the conversation. Null if the run belongs to none."""

    continues: NotRequired[str | None]
    """ID of the run it continues, if it belongs to no conversation."""

    created_at: str
    """Time of the request."""

    started_at: NotRequired[str | None]
    """Time at which a worker started the run."""

    finished_at: NotRequired[str | None]
    """Time at which the run ended."""

    workers: list[WorkerSnapshot]
    """Workers that executed the run, in order. There is more than one after a takeover."""

    turn: int
    """Number of the current turn; 0 before the first one."""

    retrying: NotRequired[Retrying | None]
    """The pending retry of a model request. Null if there is none."""

    skipped_parts: NotRequired[int | None]
    """Number of unreadable parts in the model's output that were skipped."""

    text: str
    """The answer so far: the text of the last turn that has any."""

    said: list[TextSnapshot]
    """All messages and reasoning of the model, in order."""

    calls: list[CallSnapshot]
    """All tool calls, in order."""

    servers: list[ServerSnapshot]
    """All tool servers that were asked to list their tools."""

    usage: Usage
    """Tokens used so far."""

    last_seq: int
    """Seq of the last event in this snapshot. Pass it as `after` to get later events."""


class CommandResult(TypedDict):
    """Result of a command on a run."""

    run_id: str
    """ID of the run. For a retry, the ID of the new run."""

    done: bool
    """Whether the command had an effect."""
