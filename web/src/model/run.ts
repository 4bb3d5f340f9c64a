/**
 * What the page knows of one run: a fold over the events of its journal.
 *
 * The fold is pure. An event replaces what it changes and shares the rest, so components compare by
 * identity and draw only what is new. After a reload, in a second tab or after a takeover the same
 * events give the same view, because nothing else goes into it.
 */

import type { Annotation, Failure, Finish, RecordedEvent, RunEvent, RunOutcome, Usage } from "turnwire";
import { type Call, applyToCall, newCall, settleOpenCalls } from "./calls";
import { exact } from "./invisible";
import { leftOutWords } from "./left_out";

/** A part of what the person sent. */
export type InputPart =
  | { kind: "text"; text: string }
  | { kind: "image"; url: string }
  | { kind: "file"; name: string };

/** A turn of the model, for the timeline. */
export interface Turn {
  turn: number;
  startedAt: string;
  /** When the first output arrived. */
  firstAt: string | undefined;
  endedAt: string | undefined;
  finish: Finish | undefined;
  abandoned: boolean;
  outputTokens: number;
}

/** A text of the model. */
export interface TextStep {
  kind: "message" | "reasoning";
  id: string;
  turn: number;
  text: string;
  refusal: string;
  annotations: Annotation[];
  state: "open" | "complete" | "cut" | "superseded";
  startedAt: string;
  endedAt: string | undefined;
}

/** Calls that the model made together. */
export interface ToolsStep {
  kind: "tools";
  id: string;
  turn: number;
  callIds: string[];
}

/** Something that happened to the run itself. */
export interface NoticeStep {
  kind: "notice";
  id: string;
  what: "taken_over" | "retried" | "skipped" | "server_failed" | "left_out" | "damaged";
  at: string;
  text: string;
  /** Of a takeover: when the worker before was last heard of. */
  lastHeard: string | undefined;
}

export type Step = TextStep | ToolsStep | NoticeStep;

/** One worker's time with the run. */
export interface Worker {
  attempt: number;
  name: string | undefined;
  since: string;
  until: string | undefined;
}

/** A run, as far as its events are known. */
export interface RunView {
  runId: string;
  lastSeq: number;
  lastAt: string;
  model: string;
  conversationId: string | undefined;
  input: InputPart[];
  createdAt: string;
  startedAt: string | undefined;
  finishedAt: string | undefined;
  workers: Worker[];
  turns: Turn[];
  steps: Step[];
  calls: Record<string, Call>;
  /** A request to the model that failed and is about to be repeated. */
  retrying: { attempt: number; reason: Failure; delayMs: number; at: string } | undefined;
  /** What the servers and the request say about tools, by `server/name`. */
  effects: Record<string, string>;
  outcome: RunOutcome | undefined;
  usage: Usage;
}

const NO_USAGE: Usage = { input_tokens: 0, cached_tokens: 0, output_tokens: 0, reasoning_tokens: 0 };

/** A run of which nothing is known yet. */
export function emptyRun(runId: string): RunView {
  return {
    runId,
    lastSeq: 0,
    lastAt: "",
    model: "",
    conversationId: undefined,
    input: [],
    createdAt: "",
    startedAt: undefined,
    finishedAt: undefined,
    workers: [],
    turns: [],
    steps: [],
    calls: {},
    retrying: undefined,
    effects: {},
    outcome: undefined,
    usage: NO_USAGE,
  };
}

/** Applies events in order. What is already known, by its number, changes nothing. */
export function foldRun(view: RunView, events: readonly RecordedEvent[]): RunView {
  let folded = view;
  for (let place = 0; place < events.length; ) {
    const { event, n } = withFollowers(folded, events, place);
    if (event.seq > folded.lastSeq) folded = apply(folded, event);
    place += n;
  }
  return folded;
}

/**
 * The event at `place`, together with those behind it that add to the same text: a long answer
 * costs as much as a short one.
 */
function withFollowers(view: RunView, events: readonly RecordedEvent[], place: number): { event: RecordedEvent; n: number } {
  const first = events[place] as RecordedEvent;
  const id = idOfDelta(view, first);
  if (id === undefined || first.seq <= view.lastSeq) return { event: first, n: 1 };
  let [n, text, last] = [0, "", first];
  for (let next: RecordedEvent | undefined = first; next?.event.type === first.event.type && idOfDelta(view, next) === id; next = events[place + n]) {
    text += (next.event as { text: string }).text;
    last = next;
    n += 1;
  }
  return { event: { ...last, event: { ...first.event, text } as RunEvent }, n };
}

/** What an event adds to, if it only makes a text longer that has begun. */
function idOfDelta(view: RunView, { event }: RecordedEvent): string | undefined {
  switch (event.type) {
    case "text_added":
      return event.item_id;
    case "reasoning_added":
      return hasStep(view, event.item_id) ? event.item_id : undefined;
    case "arguments_added":
    case "tool_output_added":
      return event.call_id;
    default:
      return undefined;
  }
}

function apply(before: RunView, recorded: RecordedEvent): RunView {
  const { event, at, seq } = recorded;
  const view: RunView = { ...before, lastSeq: seq, lastAt: at };
  switch (event.type) {
    case "run_queued":
      return { ...view, ...readRequest(event.request as unknown as RequestFacts), runId: recorded.run_id, createdAt: at };
    case "run_started":
      return { ...view, startedAt: at, workers: [{ attempt: 1, name: undefined, since: at, until: undefined }] };
    case "run_taken_over":
      return takenOver(view, event, before.lastAt, at);
    case "turn_started":
      return { ...view, retrying: undefined, turns: [...view.turns, newTurn(event.turn, at)] };
    case "turn_retried":
      return retried(view, event.turn, event.attempt, event.reason, event.delay_ms, at);
    case "turn_abandoned":
      return { ...view, turns: changeLast(view.turns, { abandoned: true, endedAt: at }) };
    case "turn_finished": {
      const outputTokens = event.usage.output_tokens;
      const usage = addUsage(view.usage, event.usage);
      return { ...view, usage, turns: changeLast(view.turns, { endedAt: at, finish: event.finish, outputTokens }) };
    }
    case "part_skipped":
      return notice(view, "skipped", `part-${seq}`, at, "A part of the answer could not be read and was left out.");
    case "message_started":
      return firstOutput(addText(view, "message", event.item_id, at), at);
    case "text_added":
      return changeText(view, event.item_id, (step) => ({ text: step.text + event.text }));
    case "refusal_added":
      return changeText(view, event.item_id, (step) => ({ refusal: step.refusal + event.text }));
    case "annotation_added":
      return changeText(view, event.item_id, (step) => ({ annotations: [...step.annotations, event.annotation] }));
    case "message_finished": {
      const { text, refusal, completeness: state } = event;
      return changeText(view, event.item_id, () => ({ text, refusal: refusal ?? "", state, endedAt: at }));
    }
    case "reasoning_added": {
      const open = hasStep(view, event.item_id) ? view : firstOutput(addText(view, "reasoning", event.item_id, at), at);
      return changeText(open, event.item_id, (step) => ({ text: step.text + event.text }));
    }
    case "reasoning_finished": {
      const { text, completeness: state } = event;
      const open = hasStep(view, event.item_id) ? view : addText(view, "reasoning", event.item_id, at);
      return changeText(open, event.item_id, () => ({ text, state, endedAt: at }));
    }
    case "tools_discovered":
      return discovered(view, event, seq, at);
    case "call_announced":
      return firstOutput(announce(view, event.call_id, newCall(event, turnOf(view), at)), at);
    case "run_finished":
      return finished(view, event.outcome, event.usage, at);
    default:
      // What a server makes of a row that is damaged; it is not an event of a run.
      if ((event.type as string) === "unreadable") return damaged(view, seq, at);
      return "call_id" in event ? changeCall(view, event.call_id, recorded) : view;
  }
}

interface RequestFacts {
  model: string;
  conversation_id?: string | null;
  input?: { type: string; role?: string; content?: { type: string; text?: string; url?: string; name?: string }[] }[];
  tools?: ToolFacts[];
}

interface ToolFacts {
  name: string;
  server?: string | null;
  effect?: string;
}

function readRequest(request: RequestFacts): Pick<RunView, "model" | "conversationId" | "input" | "effects"> {
  const input: InputPart[] = [];
  for (const item of request.input ?? []) {
    if (item.type !== "message" || item.role !== "user") continue;
    for (const part of item.content ?? []) {
      if (part.type === "text") input.push({ kind: "text", text: part.text ?? "" });
      else if (part.type === "image") input.push({ kind: "image", url: part.url ?? "" });
      else if (part.type === "file") input.push({ kind: "file", name: part.name ?? "file" });
    }
  }
  const { model, conversation_id: conversationId } = request;
  return { model, conversationId: conversationId ?? undefined, input, effects: effectsOf(request.tools ?? []) };
}

function effectsOf(tools: readonly ToolFacts[]): Record<string, string> {
  return Object.fromEntries(tools.map(({ server, name, effect }) => [toolTitle(server, name), effect ?? ""]));
}

/** `server/tool`, or the name alone, shown exactly. */
export function toolTitle(server: string | null | undefined, name: string): string {
  return exact(server ? `${server}/${name}` : name);
}

type TakenOver = Extract<RunEvent, { type: "run_taken_over" }>;

/** A worker that released the run, because it shuts down, was not missed. */
function takenOver(view: RunView, { attempt, worker, last_heard: heard }: TakenOver, lastEvent: string, at: string): RunView {
  const before = changeLast(view.workers, { until: heard ?? lastEvent });
  const name = worker ? shortWorker(worker) : undefined;
  const next: Worker = { attempt, name, since: at, until: undefined };
  const text = name ? `Back on another worker, ${name}.` : "Back on another worker.";
  const id = `worker-${attempt}`;
  return notice({ ...view, workers: [...before, next] }, "taken_over", id, at, text, heard ?? undefined);
}

/** A name that nobody gave is an ID, of which the beginning suffices. */
function shortWorker(name: string): string {
  return /^worker_[0-9a-f]{16,}$/.test(name) ? name.slice(0, 15) : name;
}

function retried(
  view: RunView,
  turn: number,
  attempt: number,
  reason: Failure,
  delayMs: number,
  at: string,
): RunView {
  const text = `The model failed: ${reason.message} Attempt ${attempt} follows.`;
  const retrying = { attempt, reason, delayMs, at };
  return notice({ ...view, retrying }, "retried", `retry-${turn}-${attempt}`, at, text);
}

type Discovered = Extract<RunEvent, { type: "tools_discovered" }>;

function discovered(view: RunView, { server, outcome, left_out: leftOut }: Discovered, seq: number, at: string): RunView {
  if (outcome.status === "listed") {
    const listed = { ...view, effects: { ...view.effects, ...effectsOf(outcome.tools as unknown as ToolFacts[]) } };
    return leftOut ? notice(listed, "left_out", `server-${seq}`, at, leftOutWords(server, leftOut)) : listed;
  }
  const text = `The tools of ${server} are missing: ${outcome.failure.message}`;
  return notice(view, "server_failed", `server-${seq}`, at, text);
}

/** Damaged events one after the other are told once. */
function damaged(view: RunView, seq: number, at: string): RunView {
  const last = view.steps.at(-1);
  if (last?.kind === "notice" && last.what === "damaged") return view;
  return notice(view, "damaged", `damaged-${seq}`, at, "A part of the journal of this run is damaged and cannot be read.");
}

function finished(view: RunView, outcome: RunOutcome, usage: Usage, at: string): RunView {
  const workers = changeLast(view.workers, { until: at });
  const turns = view.turns.map((turn) => (turn.endedAt ? turn : { ...turn, endedAt: at }));
  const calls = settleOpenCalls(view.calls, at);
  return { ...view, outcome, usage, workers, turns, calls, finishedAt: at, retrying: undefined };
}

function notice(
  view: RunView,
  what: NoticeStep["what"],
  id: string,
  at: string,
  text: string,
  lastHeard?: string,
): RunView {
  return { ...view, steps: [...view.steps, { kind: "notice", id, what, at, text, lastHeard }] };
}

function newTurn(turn: number, at: string): Turn {
  const open = { firstAt: undefined, endedAt: undefined, finish: undefined };
  return { turn, startedAt: at, ...open, abandoned: false, outputTokens: 0 };
}

function firstOutput(view: RunView, at: string): RunView {
  const last = view.turns.at(-1);
  return !last || last.firstAt ? view : { ...view, turns: changeLast(view.turns, { firstAt: at }) };
}

function turnOf(view: RunView): number {
  return view.turns.at(-1)?.turn ?? 0;
}

function hasStep(view: RunView, id: string): boolean {
  return view.steps.some((step) => step.id === id);
}

function addText(view: RunView, kind: TextStep["kind"], id: string, at: string): RunView {
  const step: TextStep = {
    kind,
    id,
    turn: turnOf(view),
    text: "",
    refusal: "",
    annotations: [],
    state: "open",
    startedAt: at,
    endedAt: undefined,
  };
  return { ...view, steps: [...view.steps, step] };
}

function changeText(view: RunView, id: string, change: (step: TextStep) => Partial<TextStep>): RunView {
  const place = view.steps.findLastIndex((step) => step.id === id);
  const step = view.steps[place];
  if (!step || (step.kind !== "message" && step.kind !== "reasoning")) return view;
  return { ...view, steps: view.steps.with(place, { ...step, ...change(step) }) };
}

/** Calls that follow one another in a turn are one group. */
function announce(view: RunView, callId: string, call: Call): RunView {
  const calls = { ...view.calls, [callId]: call };
  const last = view.steps.at(-1);
  if (last?.kind === "tools" && last.turn === call.turn) {
    const group: ToolsStep = { ...last, callIds: [...last.callIds, callId] };
    return { ...view, calls, steps: view.steps.with(-1, group) };
  }
  const group: ToolsStep = { kind: "tools", id: `tools-${callId}`, turn: call.turn, callIds: [callId] };
  return { ...view, calls, steps: [...view.steps, group] };
}

function changeCall(view: RunView, callId: string, recorded: RecordedEvent): RunView {
  const call = view.calls[callId];
  const changed = call && applyToCall(call, recorded);
  return !changed || changed === call ? view : { ...view, calls: { ...view.calls, [callId]: changed } };
}

function changeLast<T>(list: readonly T[], change: Partial<T>): T[] {
  const last = list.at(-1);
  return last === undefined ? [...list] : list.with(-1, { ...last, ...change });
}

function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    cached_tokens: a.cached_tokens + b.cached_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens,
  };
}
