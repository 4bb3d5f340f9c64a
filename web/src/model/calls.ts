/** One call of a tool: a fold over the events that name it. */

import type { BudgetUse, Failure, RecordedEvent, Reply, RunEvent, ToolClaims, ToolOutcome, ToolOutput, ToolRef } from "turnwire";

/** The words of the states, as on every surface. */
export type CallState =
  | "preparing"
  | "needs approval"
  | "needs input"
  | "running"
  | "done"
  | "failed"
  | "denied"
  | "stopped"
  | "timed out"
  | "unknown";

/** The question whether a call may run. */
export interface Approval {
  requestedAt: string;
  resolvedAt: string | undefined;
  expiresAt: string | undefined;
  /** The new definition of a tool that changed since somebody trusted it. */
  changed: string | undefined;
  decision: "approved" | "denied" | undefined;
  reason: string;
  by: string | undefined;
  remember: boolean;
  /** What the MCP server claims of its tool. Nobody has verified it. */
  claims: ToolClaims | undefined;
  /** The effect class, which the operator sets. */
  effect: string | undefined;
  /** The budget that the question is about. The answer decides whether the run goes on. */
  budget: BudgetUse | undefined;
}

/** A question of the tool itself. */
export interface Question {
  inputId: string;
  message: string;
  schema: Record<string, unknown>;
  requestedAt: string;
  expiresAt: string | undefined;
  /** Whether the server asks what became of the call, and not the tool something else. */
  isAboutOutcome: boolean;
  resolvedAt: string | undefined;
  reply: Reply | undefined;
}

export interface Attempt {
  attempt: number;
  at: string;
  reason: Failure | undefined;
}

export interface Mark {
  at: string;
  progress: number;
  total: number | undefined;
  message: string | undefined;
}

export interface Call {
  callId: string;
  itemId: string;
  tool: ToolRef;
  turn: number;
  state: CallState;
  arguments: string;
  argumentsComplete: boolean;
  /** The arguments of the model, if a person replaced them. */
  editedFrom: string | undefined;
  announcedAt: string;
  approval: Approval | undefined;
  questions: Question[];
  attempts: Attempt[];
  phase: string | undefined;
  progress: Mark | undefined;
  /** Where the progress was when: the notches of the timeline. */
  marks: Mark[];
  /** The last lines of the output. */
  outputTail: string;
  /** When the tool last reported something. */
  heardAt: string | undefined;
  finishedAt: string | undefined;
  durationMs: number | undefined;
  outcome: ToolOutcome | undefined;
}

const TAIL_CHARS = 32_768;
const MAX_MARKS = 200;

export function newCall(
  event: Extract<RunEvent, { type: "call_announced" }>,
  turn: number,
  at: string,
): Call {
  return {
    callId: event.call_id,
    itemId: event.item_id,
    tool: event.tool,
    turn,
    state: "preparing",
    arguments: "",
    argumentsComplete: false,
    editedFrom: undefined,
    announcedAt: at,
    approval: undefined,
    questions: [],
    attempts: [],
    phase: undefined,
    progress: undefined,
    marks: [],
    outputTail: "",
    heardAt: undefined,
    finishedAt: undefined,
    durationMs: undefined,
    outcome: undefined,
  };
}

/** Applies an event that names the call. */
export function applyToCall(call: Call, { event, at }: RecordedEvent): Call {
  switch (event.type) {
    case "arguments_added":
      return { ...call, arguments: call.arguments + event.text };
    case "arguments_finished":
      return { ...call, arguments: event.arguments, argumentsComplete: event.completeness === "complete" };
    case "approval_requested":
      return { ...call, state: "needs approval", approval: asked(event, at) };
    case "approval_resolved":
      return resolved(call, event, at);
    case "tool_started": {
      // An attempt that a retry announced has its reason already.
      const known = call.attempts.filter((one) => one.attempt !== event.attempt);
      const reason = call.attempts.find((one) => one.attempt === event.attempt)?.reason;
      const attempts = [...known, { attempt: event.attempt, at, reason }];
      return { ...call, state: "running", attempts, heardAt: at, phase: undefined };
    }
    case "tool_retried": {
      const next = { attempt: event.attempt, at, reason: event.reason };
      return { ...call, state: "running", attempts: [...call.attempts, next], progress: undefined, heardAt: at };
    }
    case "tool_phase":
      return { ...call, phase: event.phase, heardAt: at };
    case "tool_progressed": {
      const { progress, total, message } = event;
      const mark: Mark = { at, progress, total: total ?? undefined, message: message ?? undefined };
      const marks = call.marks.length < MAX_MARKS ? [...call.marks, mark] : call.marks;
      return { ...call, progress: mark, marks, heardAt: at };
    }
    case "tool_output_added":
      return { ...call, outputTail: (call.outputTail + event.text).slice(-TAIL_CHARS), heardAt: at };
    case "input_requested": {
      const { input_id: inputId, message, schema, expires_at: expiresAt, unknown_outcome: isAboutOutcome } = event;
      const question: Question = {
        inputId,
        message,
        schema: schema as Record<string, unknown>,
        requestedAt: at,
        expiresAt: expiresAt ?? undefined,
        isAboutOutcome: isAboutOutcome ?? false,
        resolvedAt: undefined,
        reply: undefined,
      };
      return { ...call, state: "needs input", questions: [...call.questions, question], heardAt: at };
    }
    case "input_resolved":
      return answered(call, event.input_id, event.reply, at);
    case "tool_finished": {
      const { outcome, duration_ms: durationMs } = event;
      return { ...call, state: stateOf(outcome), outcome, durationMs, finishedAt: at };
    }
    default:
      return call;
  }
}

function asked(event: Extract<RunEvent, { type: "approval_requested" }>, at: string): Approval {
  const { expires_at: expiresAt, changed, server_claims: claims, effect, budget } = event;
  return {
    requestedAt: at,
    resolvedAt: undefined,
    expiresAt: expiresAt ?? undefined,
    changed: changed ?? undefined,
    decision: undefined,
    reason: "",
    by: undefined,
    remember: false,
    claims: claims ?? undefined,
    effect: effect ?? undefined,
    budget: budget ?? undefined,
  };
}

function resolved(call: Call, event: Extract<RunEvent, { type: "approval_resolved" }>, at: string): Call {
  const { decision, arguments: edited, remember, by } = event;
  const approval: Approval = {
    ...(call.approval ?? asked({ type: "approval_requested", call_id: call.callId }, at)),
    resolvedAt: at,
    decision: decision.status,
    reason: decision.status === "denied" ? decision.reason : "",
    by: by ?? undefined,
    remember: remember ?? false,
  };
  const state = decision.status === "approved" ? "running" : "denied";
  if (edited == null) return { ...call, approval, state };
  return { ...call, approval, state, arguments: edited, editedFrom: call.arguments };
}

function answered(call: Call, inputId: string, reply: Reply, at: string): Call {
  const questions = call.questions.map((one) => (one.inputId === inputId ? { ...one, reply, resolvedAt: at } : one));
  const waits = questions.some((one) => one.reply === undefined);
  const state = call.state === "needs input" && !waits ? "running" : call.state;
  return { ...call, questions, state, heardAt: at };
}

function stateOf(outcome: ToolOutcome): CallState {
  switch (outcome.status) {
    case "succeeded":
      return "done";
    case "timed_out":
      return "timed out";
    case "denied":
      return "denied";
    case "cancelled":
    case "skipped":
      return "stopped";
    case "outcome_unknown":
      return "unknown";
    default:
      return "failed";
  }
}

/** Calls that the client runs itself stay open when the run ends; they are no longer at work. */
export function settleOpenCalls(calls: Record<string, Call>, at: string): Record<string, Call> {
  const open = Object.values(calls).filter((call) => !call.finishedAt);
  if (open.length === 0) return calls;
  const settled = open.map((call): [string, Call] => {
    const byClient = call.tool.kind === "client" || call.tool.kind === "custom";
    const state = byClient ? "done" : call.state === "needs approval" ? call.state : "stopped";
    return [call.callId, { ...call, state, finishedAt: at }];
  });
  return { ...calls, ...Object.fromEntries(settled) };
}

/** Whether the call still changes. */
export function isOpen(call: Call): boolean {
  return !call.finishedAt;
}

/** Whether a person has to answer before the call goes on. */
export function waitsForPerson(call: Call): boolean {
  return isOpen(call) && (call.state === "needs approval" || call.state === "needs input");
}

/** Whether the run ended because the call needs an approval, which begins the next run. */
export function isHandedBack(call: Call): boolean {
  return !isOpen(call) && call.state === "needs approval";
}

/** The question of the tool that waits, if there is one. */
export function openQuestion(call: Call): Question | undefined {
  return call.questions.findLast((one) => one.reply === undefined);
}

/** The result, if the call has one. */
export function outputOf(call: Call): ToolOutput | undefined {
  return call.outcome?.status === "succeeded" ? call.outcome.output : undefined;
}

/** When the call began to work, if it did. */
export function startedAt(call: Call): string | undefined {
  return call.attempts[0]?.at;
}
