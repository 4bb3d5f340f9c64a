/** The calls of the runs in a list, read when a line comes into view, a few at a time. */

import type { RunSnapshot } from "turnwire";
import { request } from "./api";

type Calls = RunSnapshot["calls"];

const MAX_AT_ONCE = 3;
const MAX_KEPT = 500;
/** Those of runs that are over, which do not change. */
const kept = new Map<string, Calls>();
const waiting: (() => void)[] = [];
let atOnce = 0;

export function knownCalls(runId: string): Calls | undefined {
  return kept.get(runId);
}

/** `undefined` if they cannot be read, or nobody wants them any more. */
export async function readCalls(runId: string, signal: AbortSignal): Promise<Calls | undefined> {
  if (atOnce >= MAX_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  atOnce += 1;
  try {
    if (signal.aborted) return undefined;
    const { calls, outcome } = await request<RunSnapshot>(`/v1/runs/${encodeURIComponent(runId)}`, { signal });
    if (outcome) keep(runId, calls);
    return calls;
  } catch {
    return undefined;
  } finally {
    atOnce -= 1;
    waiting.shift()?.();
  }
}

function keep(runId: string, calls: Calls): void {
  const [oldest] = kept.keys();
  if (kept.size >= MAX_KEPT && oldest) kept.delete(oldest);
  kept.set(runId, calls);
}
