/** What a person decides on is shown as it is; prose stays readable. */

import { expect, test } from "vitest";
import { type Call, newCall } from "../src/model/calls";
import { exact, exactJson, inOrder } from "../src/model/invisible";
import { emptyRun, foldRun, toolTitle } from "../src/model/run";
import { draftOf, fieldsOf, fieldsOfValues, readDraft } from "../src/model/schema_form";
import { argumentLabel } from "../src/model/words";

const HIDDEN = [0xad, 0x61c, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0x3164, 0xfe0f, 0xfeff, 0xe0041, 0xe0100];
const ALICE = "alice\u202egro.rekcatta\u202c\u200b";
const SHOWN = "alice\\u{202e}gro.rekcatta\\u{202c}\\u{200b}";

test("A22: nothing is invisible in an exact text", () => {
  for (const code of HIDDEN) {
    const text = `a${String.fromCodePoint(code)}b`;
    expect(exact(text)).toBe(`a\\u{${code.toString(16)}}b`);
    const json = exactJson(JSON.stringify(text));
    expect(json).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(json)).toBe(text);
  }
});

test("A22: prose in any language is readable, and cannot reorder what is beside it", () => {
  for (const text of ["שלום", "می\u200cخواهم", "👨\u200d👩\u200d👧 ❤\ufe0f", "abc\u200f!"]) expect(inOrder(text)).toBe(text);
  expect(inOrder("a\u202eb\u202c")).toBe("a\\u{202e}b\\u{202c}");
  expect(exact("naïve 漢字 שלום")).toBe("naïve 漢字 שלום");
});

test("A22: names and arguments are exact", () => {
  const tool = { name: ALICE, kind: "mcp", server: "s" };
  const announced = { type: "call_announced", call_id: "c", item_id: "i", tool } as Parameters<typeof newCall>[0];
  const call: Call = { ...newCall(announced, 1, ""), arguments: JSON.stringify({ path: ALICE }) };
  expect(toolTitle(call.tool.server, call.tool.name)).toBe(`s/${SHOWN}`);
  expect(argumentLabel(call)).toBe(SHOWN);
});

test("A22: a text with hidden characters is edited as JSON, and stays what it is", () => {
  const given = { path: ALICE, plain: "a" };
  const fields = fieldsOfValues(given);
  expect(fields.map(({ kind }) => kind)).toEqual(["json", "text"]);
  const draft = draftOf(fields, undefined, given);
  expect(draft["path"]).toMatch(/^[\x20-\x7e]*$/);
  expect(readDraft(fields, draft).values).toEqual(given);
  expect(fieldsOf({ properties: { to: { type: "string", default: ALICE } } }).map(({ kind }) => kind)).toEqual(["json"]);
});

test("C27: a part of the journal that is damaged is told once", () => {
  const events = [1, 2, 3].map((seq) => ({ run_id: "r", seq, at: "2026-11-01T00:00:00Z", event: { type: "unreadable" } }));
  const view = foldRun(emptyRun("r"), events as unknown as Parameters<typeof foldRun>[1]);
  expect(view.steps.map((step) => step.kind === "notice" && step.what)).toEqual(["damaged"]);
});
