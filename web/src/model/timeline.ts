/**
 * The timeline of a run: one lane for each turn of the model and each call, in milliseconds since
 * the run was created. All times are those of the server, so the picture is the same everywhere.
 */

import { type Call, isOpen, startedAt } from "./calls";
import { type RunView, toolTitle } from "./run";
import { type Look, causeOf, duration, factOf, lookOf, plural, wordOf } from "./words";

/** What a bar of a lane means. */
export type BarKind = "worker" | "model-wait" | "model" | "run" | "done" | "failed" | "wait" | "unknown";

export interface Bar {
  kind: BarKind;
  from: number;
  to: number;
  label: string;
}

export interface Lane {
  id: string;
  kind: "worker" | "turn" | "call";
  label: string;
  look: Look | undefined;
  /** The word of the state, for people who do not see the bars. */
  word: string;
  timeMs: number | undefined;
  bars: Bar[];
  /** Notches of the progress: where, and the number beside it. */
  notches: { at: number; label: string }[];
  /** Text behind the last bar. */
  note: string;
  isBad: boolean;
}

export interface Timeline {
  lanes: Lane[];
  /** Length of the axis in milliseconds. */
  totalMs: number;
  /** Times at which another worker took over. */
  takeovers: number[];
  /** Spans in which no worker had the run. */
  gaps: { from: number; to: number }[];
  /** How long people were awaited. */
  waitedMs: number;
  /** Now, while the run is in progress. */
  now: number | undefined;
}

/** The timeline at the time `now` of the server. */
export function timelineOf(view: RunView, now: number): Timeline {
  const zero = Date.parse(view.createdAt || view.lastAt);
  const end = view.finishedAt ? Date.parse(view.finishedAt) : Math.max(now, Date.parse(view.lastAt));
  const since = (at: string | undefined) => (at === undefined ? end - zero : Date.parse(at) - zero);
  const lanes: Lane[] = [];
  if (view.workers.length > 1) lanes.push(workerLane(view, since));
  for (const turn of turnNumbers(view)) {
    // Calls that came with the request belong to turn 0, in which no model is asked.
    const lane = turn > 0 ? turnLane(view, turn, since) : undefined;
    if (lane) lanes.push(lane);
    for (const call of Object.values(view.calls)) {
      if (call.turn === turn) lanes.push(callLane(call, since));
    }
  }
  const gaps = view.workers.slice(1).map((worker, place) => ({
    from: since(view.workers[place]?.until ?? worker.since),
    to: since(worker.since),
  }));
  const takeovers = view.workers.slice(1).map((worker) => since(worker.since));
  const waits = lanes.flatMap((lane) => lane.bars.filter((bar) => bar.kind === "wait"));
  const open = view.finishedAt === undefined;
  const totalMs = Math.max(end - zero, 1);
  return { lanes, totalMs, takeovers, gaps, waitedMs: unionMs(waits), now: open ? end - zero : undefined };
}

type Since = (at: string | undefined) => number;

function turnNumbers(view: RunView): number[] {
  const numbers = new Set([...Object.values(view.calls).map((call) => call.turn), ...view.turns.map((t) => t.turn)]);
  return [...numbers].sort((a, b) => a - b);
}

function workerLane(view: RunView, since: Since): Lane {
  const bars = view.workers.map((worker): Bar => {
    const label = worker.name ?? `worker ${worker.attempt}`;
    return { kind: "worker", from: since(worker.since), to: since(worker.until), label };
  });
  return { ...emptyLane("worker", "worker", "Worker"), word: plural(bars.length, "worker"), bars };
}

function turnLane(view: RunView, number: number, since: Since): Lane | undefined {
  const turns = view.turns.filter((turn) => turn.turn === number);
  const last = turns.at(-1);
  if (!last) return undefined;
  const bars = turns.flatMap((turn): Bar[] => {
    const first = turn.firstAt ?? turn.endedAt;
    const wait: Bar = { kind: "model-wait", from: since(turn.startedAt), to: since(first), label: "" };
    if (!turn.firstAt) return [wait];
    return [wait, { kind: turn.abandoned ? "failed" : "model", from: since(first), to: since(turn.endedAt), label: "" }];
  });
  const n = Object.values(view.calls).filter((call) => call.turn === number).length;
  const note = last.abandoned
    ? "interrupted"
    : last.finish === "called_tools"
      ? `calls ${plural(n, "tool")}`
      : last.finish === "answered"
        ? ["answer", last.outputTokens > 0 ? plural(last.outputTokens, "token") : ""].filter(Boolean).join(", ")
        : (last.finish ?? (last.firstAt ? "writing" : "waiting for the first token"));
  const timeMs = since(last.endedAt) - since(turns[0]!.startedAt);
  const lane = emptyLane(`turn-${number}`, "turn", `Turn ${number} · ${view.model}`);
  return { ...lane, word: last.endedAt ? "finished" : "running", timeMs, bars, note, isBad: last.abandoned };
}

function callLane(call: Call, since: Since): Lane {
  const bars: Bar[] = [];
  const { approval } = call;
  if (approval) {
    const [from, to] = [since(approval.requestedAt), since(approval.resolvedAt ?? call.finishedAt)];
    bars.push({ kind: "wait", from, to, label: `waits for a person, ${duration(to - from)}` });
  }
  const starts = call.attempts;
  starts.forEach((attempt, place) => {
    const next = starts[place + 1];
    const to = since(next ? next.at : call.finishedAt);
    const kind: BarKind = next ? "run" : isOpen(call) ? "run" : endKind(call);
    bars.push({ kind, from: since(attempt.at), to, label: "" });
  });
  for (const question of call.questions) {
    const [from, to] = [since(question.requestedAt), since(question.resolvedAt ?? call.finishedAt)];
    bars.push({ kind: "wait", from, to, label: `asks a person, ${duration(to - from)}` });
  }
  const begin = approval?.requestedAt ?? startedAt(call) ?? call.announcedAt;
  const bad = ["failed", "timed out", "unknown", "denied", "stopped"].includes(call.state);
  return {
    ...emptyLane(call.callId, "call", toolTitle(call.tool.server, call.tool.name)),
    look: lookOf(call.state),
    word: wordOf(call),
    timeMs: since(call.finishedAt) - since(begin),
    bars,
    notches: call.marks.map((mark) => ({ at: since(mark.at), label: String(mark.progress) })),
    note: bad ? (causeOf(call) ?? wordOf(call)) : isOpen(call) ? wordOf(call) : factOf(call),
    isBad: call.state === "failed" || call.state === "timed out",
  };
}

function endKind(call: Call): BarKind {
  if (call.state === "unknown") return "unknown";
  return call.state === "done" ? "done" : "failed";
}

function emptyLane(id: string, kind: Lane["kind"], label: string): Lane {
  return { id, kind, label, look: undefined, word: "", timeMs: undefined, bars: [], notches: [], note: "", isBad: false };
}

/** The length of what the bars cover together. */
function unionMs(bars: readonly Bar[]): number {
  let [total, reached] = [0, -Infinity];
  for (const { from, to } of [...bars].sort((a, b) => a.from - b.from)) {
    total += Math.max(0, to - Math.max(from, reached));
    reached = Math.max(reached, to);
  }
  return total;
}

/** Steps of an axis that has room for about `n` labels. */
export function ticks(totalMs: number, n: number): number[] {
  const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5];
  const step = steps.find((one) => totalMs / one <= n) ?? Math.ceil(totalMs / n / 36e5) * 36e5;
  return Array.from({ length: Math.floor(totalMs / step) + 1 }, (_, place) => place * step);
}

export function tickLabel(ms: number, totalMs: number): string {
  if (totalMs < 1000) return `${ms}ms`;
  if (totalMs < 10_000) return `${(ms / 1000).toFixed(totalMs < 4000 ? 1 : 0)}s`;
  if (totalMs < 120_000) return `${Math.round(ms / 1000)}s`;
  const minutes = Math.floor(ms / 60_000);
  return `${minutes}:${String(Math.round((ms % 60_000) / 1000)).padStart(2, "0")}`;
}
