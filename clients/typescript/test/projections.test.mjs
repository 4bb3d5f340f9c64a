// The callbacks, held against what the server's own projections make of every recorded run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../dist/answer.js";
import { CallbackProjection } from "../dist/callbacks.js";
import { MessagesProjection } from "../dist/messages.js";
import { callsOf, eventsOf, scenarios } from "./goldens.mjs";

/** Callbacks that write down how they are called. */
function recorder(...names) {
  const calls = [];
  const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const record = (name) => [name, (...args) => calls.push([snake(name), ...structuredClone(args)])];
  return { calls, callbacks: Object.fromEntries(names.map(record)) };
}

function replay(projection, scenario) {
  for (const recorded of eventsOf(scenario)) projection.apply(recorded);
}

test("there are recorded runs", () => assert.ok(scenarios.length > 50, String(scenarios.length)));

for (const scenario of scenarios) {
  test(`S0-4 both callbacks see the tools of ${scenario}, and tokens are text alone`, () => {
    const { calls, callbacks } = recorder("onToken", "onToolStart", "onToolEnd");
    replay(new CallbackProjection(callbacks), scenario);
    assert.deepEqual(calls, callsOf(scenario, "callbacks.txt"));
  });

  test(`S0-9 without callbacks the tools of ${scenario} are bracketed text, byte for byte`, () => {
    const { calls, callbacks } = recorder("onToken");
    replay(new CallbackProjection(callbacks), scenario);
    assert.deepEqual(calls, callsOf(scenario, "fallback.txt"));
  });

  test(`S4-6 the message callbacks show ${scenario} as the Rust crate does`, () => {
    const { calls, callbacks } = recorder("onAssistantMessageAdded", "onAssistantContentUpdated", "onToolBlockUpdated");
    const messages = new MessagesProjection(callbacks);
    replay(messages, scenario);
    messages.close();
    const expected = callsOf(scenario, "messages.txt").filter(([name]) => name !== "on_messages_change");
    const isWhole = (index) => expected[index]?.length > 1 || calls[index].length === 1;
    assert.deepEqual(
      calls.map((call, index) => (isWhole(index) ? call : call.slice(0, 1))),
      expected,
    );
  });
}

test("S0-5a S0-5b with one callback the other is text", () => {
  const start = recorder("onToken", "onToolStart");
  replay(new CallbackProjection(start.callbacks), "one_tool");
  assert.deepEqual(start.calls.slice(1, 5), [
    ["on_token", "\n"],
    ["on_tool_start", "multiply"],
    ["on_token", "[Tool result: 20]\n"],
    ["on_token", "\n"],
  ]);
  const end = recorder("onToken", "onToolEnd");
  replay(new CallbackProjection(end.callbacks), "one_tool");
  assert.deepEqual(end.calls.slice(1, 5), [
    ["on_token", "\n"],
    ["on_token", "[Executing tool: multiply]\n"],
    ["on_tool_end", "multiply", "20"],
    ["on_token", "\n"],
  ]);
});

test("the answer is the text after the tools", () => {
  const answer = new Answer();
  replay(answer, "one_tool");
  assert.equal(answer.text, "5 times 4 is 20.");
  assert.deepEqual(answer.outcome, { status: "completed" });
});

test("S4-3 the list of messages is current at every structural change and at the end", () => {
  const seen = [];
  const messages = new MessagesProjection({ onMessagesChange: (list) => seen.push(list) });
  replay(messages, "one_tool");
  assert.deepEqual(seen.at(-1), messages.messages);
  assert.deepEqual(
    messages.messages.map(({ role, content, state }) => [role, content, state]),
    [
      ["user", "Go.", "complete"],
      ["assistant", "Let me multiply. ", "complete"],
      ["assistant", "5 times 4 is 20.", "complete"],
    ],
  );
  assert.notEqual(seen[0], seen[1]);
});

test("S4-15 the direct callbacks get what is there so far", () => {
  const { calls, callbacks } = recorder("onContentUpdate", "onToolUpdate");
  replay(new MessagesProjection(callbacks), "one_tool");
  assert.deepEqual(calls, [
    ["on_content_update", "Let me multiply. "],
    ["on_tool_update", { id: "call_m", name: "multiply", parameters: '{"a": 5, ' }],
    ["on_tool_update", { id: "call_m", name: "multiply", parameters: '{"a": 5, "b": 4}' }],
    ["on_content_update", "5 times 4 "],
    ["on_content_update", "5 times 4 is 20."],
  ]);
});
