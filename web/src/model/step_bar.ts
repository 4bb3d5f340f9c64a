/**
 * The steps of a run as one small picture for a list: when the model worked, when which call did,
 * and how the calls ended. Calls at the same time are beside each other.
 */

import type { CallSnapshot, RunSnapshot } from "turnwire";
import type { BarKind } from "./timeline";

/** From where to where, as shares of the whole. */
export interface Step {
  kind: BarKind;
  from: number;
  to: number;
  /** The row, from the top; 0 if it has all of them. */
  row: number;
}

/** What a list knows of a run without its steps. */
export interface Span {
  created_at: string;
  ended_at?: string | null | undefined;
  status: string;
}

/** More rows could not be told apart. */
export const MAX_ROWS = 3;

interface Piece {
  kind: BarKind;
  from: number;
  to: number;
}

/** The steps at the time `now` of the server; one piece if nothing is known of the calls. */
export function stepsOf(span: Span, calls: RunSnapshot["calls"], now: number): Step[] {
  const zero = Date.parse(span.created_at);
  const end = Math.max(span.ended_at ? Date.parse(span.ended_at) : now, zero + 1);
  const share = (ms: number) => Math.min(1, Math.max(0, (ms - zero) / (end - zero)));
  const rows: number[] = [];
  const steps: Step[] = [];
  const busy: Piece[] = [];
  for (const pieces of calls.map((call) => piecesOf(call, end))) {
    const [first, last] = [pieces[0], pieces.at(-1)];
    if (!first || !last) continue;
    const free = rows.findIndex((until) => until <= first.from);
    const row = free >= 0 ? free : Math.min(rows.length, MAX_ROWS - 1);
    rows[row] = Math.max(rows[row] ?? 0, last.to);
    busy.push({ ...first, to: last.to });
    for (const { kind, from, to } of pieces) steps.push({ kind, from: share(from), to: share(to), row: row + 1 });
  }
  const model = gapsOf(busy, zero, end).map(({ from, to }): Step => ({ kind: "model", from: share(from), to: share(to), row: 0 }));
  const lastOfModel = model.at(-1);
  if (span.status === "failed" && lastOfModel?.to === 1) lastOfModel.kind = "failed";
  return [...model, ...steps];
}

/** How many rows the calls need. */
export function rowsOf(steps: readonly Step[]): number {
  return Math.max(1, ...steps.map((step) => step.row));
}

function piecesOf(call: CallSnapshot, end: number): Piece[] {
  const until = call.finished_at ? Date.parse(call.finished_at) : end;
  const pieces: Piece[] = [];
  const asked = call.approval?.requested_at;
  if (asked) {
    const answered = call.approval?.resolved_at;
    pieces.push({ kind: "wait", from: Date.parse(asked), to: answered ? Date.parse(answered) : until });
  }
  if (call.started_at) pieces.push({ kind: kindOf(call), from: Date.parse(call.started_at), to: until });
  return pieces;
}

function kindOf({ state }: CallSnapshot): BarKind {
  switch (state) {
    case "done":
      return "done";
    case "unknown":
      return "unknown";
    case "needs input":
      return "wait";
    case "failed":
    case "timed out":
      return "failed";
    default:
      return "run";
  }
}

/** The times in which no call was at work. */
function gapsOf(busy: readonly Piece[], zero: number, end: number): { from: number; to: number }[] {
  const gaps: { from: number; to: number }[] = [];
  let at = zero;
  for (const { from, to } of [...busy].sort((a, b) => a.from - b.from)) {
    if (from > at) gaps.push({ from: at, to: from });
    at = Math.max(at, to);
  }
  if (at < end) gaps.push({ from: at, to: end });
  return gaps;
}
