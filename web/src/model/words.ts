/** The words of the page: states, times, sizes, and short forms of arguments and results. */

import type { BudgetUse } from "turnwire";
import { PartialArguments } from "turnwire/arguments";
import { clean } from "turnwire/clean";
import { firstChars, problemOf, shortened } from "turnwire/summary";
import { type Call, type CallState, isHandedBack, isOpen, outputOf, startedAt, waitsForPerson } from "./calls";
import { exact, inOrder } from "./invisible";
import { isPlaceholder } from "./redaction";
import type { RunView } from "./run";

/** How a state is drawn: its icon and colour. The word itself always stands beside it. */
export type Look =
  | "preparing"
  | "approval"
  | "question"
  | "running"
  | "done"
  | "failed"
  | "denied"
  | "stopped"
  | "timeout"
  | "unknown";

const LOOKS: Record<CallState, Look> = {
  preparing: "preparing",
  "needs approval": "approval",
  "needs input": "question",
  running: "running",
  done: "done",
  failed: "failed",
  denied: "denied",
  stopped: "stopped",
  "timed out": "timeout",
  unknown: "unknown",
};

/** All states of a call, in the order in which it may have them. */
export const STATES = Object.entries(LOOKS) as [CallState, Look][];

export function lookOf(state: CallState): Look {
  return LOOKS[state];
}

/** The word of a call, more telling than its state where the tool says more. */
export function wordOf(call: Call): string {
  if (call.state === "unknown") return "outcome unknown";
  if (call.state === "running" && call.tool.kind === "web_search") return "searching";
  return call.state;
}

/** How a run stands: its word and its look. */
export function runState(view: RunView): { word: string; look: Look } {
  const calls = Object.values(view.calls);
  const failed = calls.filter(hasFailed).length;
  const unknown = calls.filter((call) => call.state === "unknown").length;
  switch (view.outcome?.status) {
    case undefined:
      break;
    case "completed":
      if (unknown > 0) return { word: `done, ${unknown} unknown`, look: "unknown" };
      return { word: failed > 0 ? `done, ${failed} failed` : "done", look: "done" };
    case "cancelled":
      return { word: "stopped", look: "stopped" };
    case "incomplete":
      return { word: "incomplete", look: "timeout" };
    default:
      return { word: "failed", look: "failed" };
  }
  if (calls.some(waitsForPerson)) return { word: "needs input", look: "approval" };
  return view.startedAt ? { word: "running", look: "running" } : { word: "queued", look: "preparing" };
}

/** The same for a line of the list of runs. */
export function lineState(line: { status: string; n_failed_calls?: number }): { word: string; look: Look } {
  const failed = line.n_failed_calls ?? 0;
  switch (line.status) {
    case "active":
      return { word: "running", look: "running" };
    case "needs_input":
      return { word: "needs input", look: "approval" };
    case "stalled":
      return { word: "stalled", look: "timeout" };
    case "completed":
      return { word: failed > 0 ? `done, ${failed} failed` : "done", look: "done" };
    case "incomplete":
      return { word: "incomplete", look: "timeout" };
    case "cancelled":
      return { word: "stopped", look: "stopped" };
    default:
      return { word: line.status, look: "failed" };
  }
}

/** A duration: milliseconds, tenths below ten seconds, then `0:12` and `1:02:03`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (ms < 100) return `${Math.max(0, Math.round(ms))}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}

/** How long ago, in one unit. */
export function ago(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return seconds < 5 ? "now" : `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} bytes`;
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

export function count(n: number): string {
  return n < 1000 ? String(n) : n < 100_000 ? `${(n / 1000).toFixed(1)}k` : `${Math.round(n / 1000)}k`;
}

export function plural(n: number, word: string): string {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

/** Day and time, as people write them where they are. */
export function moment(at: string): string {
  return new Date(at).toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** The time of day, with seconds. */
export function clock(at: string): string {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The arguments in short form, also while the model still writes them. */
export function argumentLabel(call: Call): string {
  const partial = new PartialArguments();
  partial.push(firstChars(call.arguments, 4096));
  const label = partial.label();
  return label === "{}" || label === "{" ? "" : exact(label);
}

/** The fact beside the state: how much came back, or what failed. */
export function factOf(call: Call): string {
  return inOrder(fact(call));
}

function fact(call: Call): string {
  const output = outputOf(call);
  if (output) {
    if (output.short) return shortened(output.short, 40);
    const images = output.images?.length ?? 0;
    if (images > 0) return plural(images, "image");
    const text = clean(output.text).trim();
    if (text === "") return "no output";
    if (isPlaceholder(text)) return "";
    return text.length <= 40 && !text.includes("\n") && !/^[[{]/.test(text) ? text : bytes(resultBytes(call));
  }
  const attempts = call.attempts.at(-1)?.attempt ?? 1;
  return attempts > 1 && isOpen(call) ? `attempt ${attempts}` : "";
}

export function resultBytes(call: Call): number {
  const output = outputOf(call);
  if (!output) return 0;
  return output.rest?.bytes ?? new TextEncoder().encode(output.text).length;
}

/** Why the call did not succeed. */
export function causeOf(call: Call): string | undefined {
  const cause = call.outcome && problemOf(call.outcome);
  return cause && inOrder(cause);
}

/** How long the call has worked, or did. */
export function elapsedMs(call: Call, now: number): number | undefined {
  if (call.durationMs !== undefined) return call.durationMs;
  const since = startedAt(call);
  if (call.finishedAt) return since ? Date.parse(call.finishedAt) - Date.parse(since) : undefined;
  if (call.state !== "running" && call.state !== "needs input") return undefined;
  return since ? now - Date.parse(since) : undefined;
}

/** What the person wrote, as one text. */
export function questionText(view: RunView): string {
  return view.input.map((part) => (part.kind === "text" ? part.text : "")).join("\n").trim();
}

export function titleOf(view: RunView): string {
  return shortened(questionText(view), 90) || runName(view.runId);
}

/** What a run is called that has no text of its own. */
export function runName(runId: string): string {
  return `Run ${runId.replace(/^run_/, "").slice(0, 8)}`;
}

/** Whether the tool failed, as the list of runs counts it; a call that was denied or stopped did not. */
export function hasFailed({ state }: Call): boolean {
  return state === "failed" || state === "timed out";
}

export type GroupCounts = Record<"done" | "running" | "failed" | "denied" | "stopped" | "needsYou", number>;

/** How many calls are in which state, for the head of a group in a run that nothing follows yet, or not. */
export function groupCounts(calls: readonly Call[], isLast: boolean): GroupCounts {
  const counts: GroupCounts = { done: 0, running: 0, failed: 0, denied: 0, stopped: 0, needsYou: 0 };
  for (const call of calls) {
    if (call.state === "unknown" || waitsForPerson(call) || (isLast && isHandedBack(call))) counts.needsYou += 1;
    else if (isOpen(call)) counts.running += 1;
    else if (hasFailed(call)) counts.failed += 1;
    else if (call.state === "denied" || call.state === "stopped") counts[call.state] += 1;
    else counts.done += 1;
  }
  return counts;
}

/** The question whether a run may use more of a budget, as on every surface. */
export function budgetQuestion({ scope, used_nanos: used, ask_nanos: ask, max_nanos: max }: BudgetUse): string {
  const time = scope === "run" ? "" : " for this month";
  if (max == null) return `The ${scope} has used ${amount(used)}${time} and asks from ${amount(ask)} on. Continue?`;
  return `The ${scope} has used ${amount(used)} of its budget of ${amount(max)}${time}. Continue?`;
}

/** An amount of money with two decimals, or as many more as a small one needs. */
function amount(nanos: number): string {
  const decimals = nanos >= 1e9 ? 2 : nanos >= 1e6 ? 4 : 9;
  const whole = Math.floor(nanos / 1e9);
  const rest = String(nanos % 1e9).padStart(9, "0").slice(0, decimals);
  return `${whole}.${rest.replace(/0+$/, "").padEnd(2, "0")}`;
}
