/** Which runs a list shows, the words of takeovers and claims, and what a share link withholds. */

import type { RecordedEvent } from "turnwire";
import { expect, test } from "vitest";
import { leftOutWords } from "../src/model/left_out";
import { isPlaceholder } from "../src/model/redaction";
import { emptyRun, foldRun } from "../src/model/run";
import { filterOf, fits, queryOf } from "../src/model/run_filter";
import { budgetQuestion, lineState, runName, runState } from "../src/model/words";
import { oneSentence } from "../src/server/announcer";

const NOW = Date.parse("2026-11-16T12:00:00Z");
const RUN = { created_at: "2026-11-16T11:30:00Z", model: "m", conversation_id: "conv_1", status: "needs_input", title: "Find the Needle", tools: ["echo"] };

test("a filter survives the address, and a request has a time instead of an age", () => {
  const filter = filterOf("status=failed&tool=echo&conversation_id=conv_1&q=a+b&within=3600");
  expect(filter).toEqual({ status: "failed", model: "", tool: "echo", conversation: "conv_1", text: "a b", withinSec: 3600 });
  expect(filterOf(queryOf(filter))).toEqual(filter);
  const asked = new URLSearchParams(queryOf(filter, NOW));
  expect(asked.get("created_after")).toBe("2026-11-16T11:00:00.000Z");
  expect(asked.has("within")).toBe(false);
  expect(queryOf(filterOf(""))).toBe("");
});

test("a run that changed belongs into the list only if it fits every filter", () => {
  expect(fits(RUN, filterOf("status=needs_input&model=m&tool=echo&conversation_id=conv_1&q=needle&within=3600"), NOW)).toBe(true);
  for (const query of ["status=active", "model=x", "tool=add", "conversation_id=conv_2", "q=hay", "within=60"]) {
    expect(fits(RUN, filterOf(query), NOW)).toBe(false);
  }
});

test("a run that waits for a person needs input, in the list and on its page", () => {
  expect(lineState({ status: "needs_input" }).word).toBe("needs input");
  const view = foldRun(emptyRun("run_1"), events([
    { type: "run_started" },
    { type: "call_announced", call_id: "c", item_id: "i", tool: { name: "drop", kind: "mcp", server: "ops" } },
    { type: "approval_requested", call_id: "c", effect: "once", server_claims: { destructive: true } },
  ]));
  expect(runState(view).word).toBe("needs input");
  expect(view.calls["c"]?.approval).toMatchObject({ effect: "once", claims: { destructive: true } });
});

test("a question about a budget says why, as on every surface", () => {
  const nanos = (used_nanos: number, max_nanos?: number) => ({ used_nanos, ask_nanos: 750_000_000, ...(max_nanos ? { max_nanos } : {}) });
  const view = foldRun(emptyRun("run_1"), events([
    { type: "run_started" },
    { type: "call_announced", call_id: "c", item_id: "i", tool: { name: "drop", kind: "mcp", server: "ops" } },
    { type: "approval_requested", call_id: "c", budget: { scope: "run", ...nanos(800_000_000, 1_000_000_000) } },
  ]));
  const budget = view.calls["c"]?.approval?.budget;
  expect(budget && budgetQuestion(budget)).toBe("The run has used 0.80 of its budget of 1.00. Continue?");
  expect(budgetQuestion({ scope: "key", ...nanos(12_345_678_901, 20_000_000_000) })).toBe("The key has used 12.34 of its budget of 20.00 for this month. Continue?");
  expect(budgetQuestion({ scope: "tenant", ...nanos(2_500_000, 3_000) })).toBe("The tenant has used 0.0025 of its budget of 0.000003 for this month. Continue?");
  expect(budgetQuestion({ scope: "run", ...nanos(800_000_000) })).toBe("The run has used 0.80 and asks from 0.75 on. Continue?");
});

test("of many announcements at once, the end is said", () => {
  expect(oneSentence(["Working", "add started"])).toBe("Working. add started");
  const many = ["structured finished", "fail failed", "add approved", "add finished", "Answer ready"];
  expect(oneSentence(many)).toBe("structured finished. fail failed, and 2 more. Answer ready");
});

test("a takeover names the worker and when the one before was last heard of", () => {
  const [died, released] = [{ worker: "node-2", last_heard: "2026-11-16T12:00:00Z" }, {}].map(
    (facts) => foldRun(emptyRun("run_1"), events([{ type: "run_started" }, { type: "run_taken_over", attempt: 2, ...facts }])),
  );
  expect(died?.steps).toMatchObject([{ text: "Back on another worker, node-2.", lastHeard: "2026-11-16T12:00:00Z" }]);
  expect(died?.workers).toMatchObject([{ until: "2026-11-16T12:00:00Z" }, { name: "node-2" }]);
  expect(released?.steps).toMatchObject([{ text: "Back on another worker.", lastHeard: undefined }]);
});

test("what stands in the place of a text is recognised, and a run without a text has a name", () => {
  expect(['{ "redacted": true }', "[redacted]"].every(isPlaceholder)).toBe(true);
  expect(isPlaceholder("redacted")).toBe(false);
  expect(runName("run_2ba28710569a")).toBe("Run 2ba28710");
});

function events(list: object[]): RecordedEvent[] {
  return list.map((event, place) => ({ run_id: "run_1", seq: place + 1, at: "2026-11-16T12:00:02Z", event }) as unknown as RecordedEvent);
}

test("A19: the tools that are not offered are named with the reasons, the first five of them, and shown exactly", () => {
  const tool = (n: number) => ({ name: `tool_${n}`, reason: "another tool has its name" });
  const one = { tools: [{ name: "huge\u202e", reason: "it is too large" }] };
  expect(leftOutWords("docs", one)).toBe("1 tool of docs is not offered: huge\\u{202e} (it is too large).");
  const line = leftOutWords("docs", { tools: [1, 2, 3, 4, 5, 6].map(tool), more: 7 });
  expect(line.startsWith("13 tools of docs are not offered: tool_1 (another tool has its name), tool_2")).toBe(true);
  expect(line.endsWith("tool_5 (another tool has its name) and 8 more.")).toBe(true);
});
