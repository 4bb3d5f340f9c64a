/** What the calls of an MCP server say about it: how the last day went, and whether it is slow now. */

import { clock, duration, plural } from "./words";

/** The calls of half an hour. */
export interface CallPeriod {
  start: string;
  total: number;
  failed: number;
  mean_ms: number | null;
}

/** The calls of a server, as the answering process counted them. */
export interface ServerCalls {
  since: string;
  total: number;
  failed: number;
  p50_ms: number | null;
  p95_ms: number | null;
  half_hours: readonly CallPeriod[];
}

export type BarLook = "none" | "ok" | "slow" | "bad";

/** Half an hour of the last day, oldest first. */
export interface Bar {
  start: number;
  look: BarLook;
  /** From 0 to 1: how long calls took, compared with the slowest half hour. Full where they failed. */
  height: number;
}

const PERIOD_MS = 30 * 60_000;
const N_BARS = 48;
/** So many calls say something about a half hour. */
const ENOUGH = 3;
/** A half hour is slow if its calls took so many times as long as usual, and at least this long. */
const SLOW = { times: 3, ms: 1000 };
/** Of so many calls one has to fail for a half hour to be bad. */
const BAD_ONE_OF = 4;

/** The last day in half hours, up to now. */
export function barsOf({ half_hours: periods }: ServerCalls, now: number): Bar[] {
  const usual = usualMs(periods);
  const byStart = new Map(periods.map((period) => [Date.parse(period.start), period]));
  const slowest = Math.max(1, ...periods.map((period) => period.mean_ms ?? 0));
  const last = Math.floor(now / PERIOD_MS);
  return Array.from({ length: N_BARS }, (_, n) => {
    const start = (last - N_BARS + 1 + n) * PERIOD_MS;
    const period = byStart.get(start);
    if (!period) return { start, look: "none", height: 0 };
    const look = lookOf(period, usual);
    return { start, look, height: look === "bad" ? 1 : (period.mean_ms ?? 0) / slowest };
  });
}

/** Since when the server is slow, and how slow; `undefined` if it is not, or has not been called lately. */
export function slownessOf({ half_hours: periods }: ServerCalls, now: number): { since: string; ms: number; usualMs: number } | undefined {
  const usual = usualMs(periods);
  const last = periods.at(-1);
  if (!last || now - Date.parse(last.start) > 2 * PERIOD_MS) return undefined;
  let since: CallPeriod | undefined;
  for (const period of periods.toReversed()) {
    if (lookOf(period, usual) !== "slow") break;
    since = period;
  }
  return since && { since: since.start, ms: last.mean_ms ?? 0, usualMs: usual };
}

/** Which time the numbers are about: a whole day, or what the process has seen of it. */
export function windowOf({ since }: ServerCalls, now: number): string {
  return now - Date.parse(since) > (N_BARS - 1) * PERIOD_MS ? "in 24 hours" : `since ${clock(since)}`;
}

/** What the bars show, in words. */
export function wordsOfBars(bars: readonly Bar[], { total, failed }: ServerCalls): string {
  const times = (look: BarLook, word: string) =>
    spansOf(bars, look).map(([from, to]) => (to === undefined ? `${word} since ${at(from)}` : `${word} ${at(from)} to ${at(to)}`));
  return ["Last 24 hours", [plural(total, "call"), `${failed} failed`, ...times("bad", "failing"), ...times("slow", "slow")].join(", ")].join(": ");
}

/** A share as people read it: `2.2 %`. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return "";
  const percent = (100 * part) / whole;
  return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** A duration that may not be known. */
export function took(ms: number | null): string {
  return ms === null ? "" : ms < 1000 ? `${ms} ms` : duration(ms);
}

function lookOf({ total, failed, mean_ms: mean }: CallPeriod, usual: number): BarLook {
  if (failed > 0 && failed * BAD_ONE_OF >= total) return "bad";
  const isSlow = total >= ENOUGH && mean !== null && mean >= SLOW.ms && mean >= SLOW.times * usual;
  return isSlow ? "slow" : "ok";
}

/** How long calls take in the middle of all half hours. */
function usualMs(periods: readonly CallPeriod[]): number {
  const means = periods.flatMap((period) => period.mean_ms ?? []).sort((a, b) => a - b);
  return means[Math.floor((means.length - 1) / 2)] ?? 0;
}

/** Where the bars have a look; without an end if they still have it. */
function spansOf(bars: readonly Bar[], look: BarLook): [number, number | undefined][] {
  const spans: [number, number | undefined][] = [];
  bars.forEach((bar, n) => {
    if (bar.look !== look) return;
    const end = n === bars.length - 1 ? undefined : bar.start + PERIOD_MS;
    const open = spans.at(-1);
    if (open && open[1] === bar.start) open[1] = end;
    else spans.push([bar.start, end]);
  });
  return spans;
}

function at(ms: number): string {
  return clock(new Date(ms).toISOString());
}
