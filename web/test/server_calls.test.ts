/** What the calls of a server say about it. */

import { expect, test } from "vitest";
import { type ServerCalls, barsOf, share, slownessOf, took, windowOf, wordsOfBars } from "../src/model/server_calls";
import { clock } from "../src/model/words";

const NOW = Date.parse("2026-11-16T22:10:00Z");
const period = (start: string, total: number, failed: number, mean_ms: number | null) => ({ start: `2026-11-16T${start}:00.000000Z`, total, failed, mean_ms });
const calls = (...half_hours: ServerCalls["half_hours"]): ServerCalls => ({
  since: "2026-11-15T22:10:00Z",
  total: half_hours.reduce((sum, one) => sum + one.total, 0),
  failed: half_hours.reduce((sum, one) => sum + one.failed, 0),
  p50_ms: 1100,
  p95_ms: 9000,
  half_hours,
});
const DAY = calls(
  period("12:00", 20, 0, 1000),
  period("15:30", 8, 4, 400),
  period("16:00", 8, 8, 300),
  period("19:00", 9, 1, 1200),
  period("21:30", 5, 0, 8000),
  period("22:00", 4, 0, 8200),
);

test("a day is 48 bars that end now, and say what was bad and what was slow", () => {
  const bars = barsOf(DAY, NOW);
  expect(bars).toHaveLength(48);
  expect(bars.at(-1)).toEqual({ start: Date.parse("2026-11-16T22:00:00Z"), look: "slow", height: 1 });
  const looks = bars.filter((bar) => bar.look !== "none").map((bar) => bar.look);
  expect(looks).toEqual(["ok", "bad", "bad", "ok", "slow", "slow"]);
  const time = (hour: string) => clock(`2026-11-16T${hour}:00Z`);
  expect(wordsOfBars(bars, DAY)).toBe(`Last 24 hours: 54 calls, 13 failed, failing ${time("15:30")} to ${time("16:30")}, slow since ${time("21:30")}`);
});

test("a server is slow for as long as its calls take much longer than usual", () => {
  expect(slownessOf(DAY, NOW)).toEqual({ since: "2026-11-16T21:30:00.000000Z", ms: 8200, usualMs: 1000 });
  expect(slownessOf(DAY, NOW + 2 * 3_600_000)).toBeUndefined();
  expect(slownessOf(calls(period("21:30", 9, 0, 9000)), NOW), "nothing to compare with").toBeUndefined();
  expect(slownessOf(calls(period("20:00", 9, 0, 10), period("22:00", 9, 0, 90)), NOW), "still quick").toBeUndefined();
  expect(slownessOf(calls(), NOW)).toBeUndefined();
});

test("what is not known is not shown as zero", () => {
  expect(windowOf(DAY, NOW)).toBe("in 24 hours");
  expect(windowOf({ ...DAY, since: "2026-11-16T20:00:00Z" }, NOW)).toBe(`since ${clock("2026-11-16T20:00:00Z")}`);
  expect([share(9, 412), share(50, 100), share(0, 5), share(0, 0)]).toEqual(["2.2 %", "50 %", "", ""]);
  expect([took(null), took(12), took(8200)]).toEqual(["", "12 ms", "8.2s"]);
});
