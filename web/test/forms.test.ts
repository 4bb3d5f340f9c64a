/** Forms from schemas, the rows of the journal, addresses, and links that are safe. */

import { expect, test, vi } from "vitest";
import { journalRows } from "../src/model/journal";
import { draftOf, fieldsOf, fieldsOfValues, readDraft } from "../src/model/schema_form";
import { ago, bytes, duration } from "../src/model/words";
import { ticks } from "../src/model/timeline";
import { eventsOf } from "./goldens";

const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", title: "Your name", default: "Nobody" },
    age: { type: "integer" },
    sure: { type: "boolean" },
    seat: { type: "string", enum: ["window", "aisle"] },
    meals: { type: "array", items: { enum: ["soup", "fish"] } },
    more: { type: "object" },
  },
  required: ["name", "age"],
};

test("a schema becomes fields of the right kinds, with its defaults", () => {
  const fields = fieldsOf(SCHEMA);
  expect(fields.map((field) => field.kind)).toEqual(["text", "number", "boolean", "choice", "choice", "json"]);
  expect(fields[0]).toMatchObject({ title: "Your name", required: true });
  expect(draftOf(fields, SCHEMA)).toEqual({ name: "Nobody", age: "", sure: false, seat: "", meals: [], more: "" });
});

test("what was typed is read, and what is wrong is said at its field", () => {
  const fields = fieldsOf(SCHEMA);
  const draft = { ...draftOf(fields, SCHEMA), age: "7", sure: true, seat: "aisle", meals: ["fish"], more: '{"a":1}' };
  expect(readDraft(fields, draft)).toEqual({
    values: { name: "Nobody", age: 7, sure: true, seat: "aisle", meals: ["fish"], more: { a: 1 } },
    problems: {},
  });
  const { problems } = readDraft(fields, { ...draft, name: "", age: "7.5", more: "{" });
  expect(Object.keys(problems)).toEqual(["name", "age", "more"]);
});

test("arguments without a schema become fields that give the same arguments back", () => {
  const given = { path: "/tmp", n: 3, force: true, tags: ["a"], nothing: null, empty: "" };
  const fields = fieldsOfValues(given);
  const { values, problems } = readDraft(fields, draftOf(fields, undefined, given));
  expect(problems).toEqual({});
  expect(values).toEqual(given);
});

test("a filter of the journal takes all its words together", () => {
  const events = eventsOf("three_tools_in_parallel");
  expect(journalRows(events, "tool_finished").length).toBe(3);
  expect(journalRows(events, "tool_finished slow").length).toBe(1);
  expect(journalRows(events, "nothing like this")).toEqual([]);
});

test("times and sizes are short", () => {
  expect([26, 940, 9_940, 12_000, 3_723_000].map(duration)).toEqual(["26ms", "0.9s", "9.9s", "0:12", "1:02:03"]);
  expect([2_000, 30_000, 120_000, 7_200_000, 259_200_000].map(ago)).toEqual(["now", "30 s", "2 min", "2 h", "3 d"]);
  expect([12, 4_200, 5_300_000].map(bytes)).toEqual(["12 bytes", "4.2 kB", "5.3 MB"]);
});

test("an axis has no more ticks than it has room for", () => {
  for (const totalMs of [1, 90, 2_300, 61_000, 3_600_000, 90_000_000]) expect(ticks(totalMs, 10).length).toBeLessThanOrEqual(11);
});

test("an address names its page, and only web pages and mailboxes are linked", async () => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  const { parseRoute, to } = await import("../src/router");
  const { isSafe } = await import("../src/ui/markdown");
  expect(parseRoute("#/c/conv_1")).toEqual({ page: "chat", chat: "conv_1" });
  for (const chat of ["new", "new/1", "conv_1"]) expect(parseRoute(to.chat(chat))).toEqual({ page: "chat", chat });
  expect(parseRoute("#/run/run_1?call=call_2")).toEqual({ page: "run", runId: "run_1", call: "call_2" });
  expect(parseRoute("#/shared/%E0%A4%A")).toEqual({ page: "shared", token: "%E0%A4%A" });
  expect(parseRoute("#/nowhere")).toEqual({ page: "chat", chat: "new" });
  expect(["https://a.example", "http://a", "mailto:a@b"].every(isSafe)).toBe(true);
  expect(["javascript:x", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x", "/relative", ""].some(isSafe)).toBe(false);
});
