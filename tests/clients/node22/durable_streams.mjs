// The client of the Durable Streams protocol reads a run: as it is stored, by long polls and by
// server-sent events, while it is in progress and afterwards.

import { stream } from "@durable-streams/client";

import { assert, BASE_URL, DECISIONS, equal, guarded, main, MODEL, native, SCENARIOS, script, test, toolsOf } from "./harness.mjs";

const THREE = [{ text: ["one ", "two ", "three."], pace_ms: 50 }];

/** Starts a run by another route; this protocol only reads. */
async function startRun(turns = THREE, more = {}) {
  const body = JSON.stringify({ model: MODEL, input: script(turns), background: true, ...more });
  const headers = { "content-type": "application/json" };
  const { id } = await (await fetch(`${BASE_URL}/v1/responses`, { method: "POST", headers, body })).json();
  return `${BASE_URL}/v1/runs/${id.replace("resp_", "run_")}/stream`;
}

/** Everything from `offset` to the end of the stream. */
async function readFrom(url, offset, live, onEvent = async () => {}) {
  const response = await stream({ url, offset, live });
  if (!live) return response.json();
  const events = [];
  await new Promise((resolve, reject) => {
    response.closed.catch(reject);
    response.subscribeJson(async ({ items, streamClosed }) => {
      events.push(...items);
      for (const item of items) await onEvent(item);
      if (streamClosed) resolve();
    });
  });
  return events;
}

for (const live of ["long-poll", "sse"]) {
  test(`text of a run in progress, followed to its end: ${live}`, async () => {
    const url = await startRun();
    const events = await readFrom(url, "-1", live);
    equal(events.map(({ seq }) => seq), events.map((_, place) => place + 1), "no gaps, nothing twice");
    equal(events.at(-1).event.type, "run_finished");
    equal(await readFrom(url, "-1", false), events, "and so it is stored");
  });
}

const ofType = (events, type) => events.map(({ event }) => event).filter((event) => event.type === type);
const textOf = (events) => ofType(events, "text_added").map(({ text }) => text).join("");

/** The journal of a run that is read while it is in progress. */
async function followed(turns, more, onEvent) {
  return readFrom(await startRun(turns, more), "-1", "sse", onEvent);
}

const NAMES = ["mcp success", "mcp failure", "three tools side by side", "length"];
for (const scenario of SCENARIOS.streams.filter(({ name }) => NAMES.includes(name))) {
  test(scenario.name, async () => {
    const events = await followed(scenario.script, { tools: toolsOf(scenario) });
    const outcomes = ofType(events, "tool_finished").map(({ outcome }) => outcome.status);
    const wanted = (scenario.statuses?.mcp_call ?? []).map((status) => (status === "completed" ? "succeeded" : status));
    equal([textOf(events), outcomes], [scenario.text, wanted]);
    equal(ofType(events, "run_finished")[0].outcome.status, scenario.status);
  });
}

test("progress of a tool", async () => {
  const slow = { name: "slow", arguments: { seconds: 0.4, steps: 4 } };
  const events = await followed([{ calls: [slow] }, { text: "Done." }], { tools: [SCENARIOS.mcp_tool] });
  assert(ofType(events, "tool_progressed").length > 1, events);
});

for (const { name, decision } of DECISIONS) {
  test(`an approval that is ${name} on the native surface`, async () => {
    const url = `${BASE_URL}/ai-sdk/chat?sdk=5`;
    const messages = [{ id: "m", role: "user", parts: [{ type: "text", text: script(guarded("So")) }] }];
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ id: crypto.randomUUID(), messages, trigger: "submit-message" });
    const asked = await fetch(url, { method: "POST", headers, body });
    const run_id = asked.headers.get("x-workflow-run-id").split(".")[0];
    const events = await readFrom(`${BASE_URL}/v1/runs/${run_id}/stream`, "-1", "sse", async ({ event }) => {
      if (event.type === "approval_requested") await native(`/${run_id}/calls/${event.call_id}/approve`, { decision });
    });
    await asked.body.cancel();
    equal(ofType(events, "tool_finished").map(({ outcome }) => outcome.status), [decision === "approve" ? "succeeded" : "denied"]);
  });
}

test("cancel ends the stream", async () => {
  const url = await startRun(SCENARIOS.endless_text);
  let isCancelled = false;
  const events = await readFrom(url, "-1", "sse", async ({ run_id, event }) => {
    if (event.type !== "text_added" || isCancelled) return;
    isCancelled = true;
    await native(`/${run_id}/cancel`, {});
  });
  equal(events.at(-1).event.outcome.status, "cancelled");
});

test("a failed run", async () => {
  const events = await followed(SCENARIOS.broken);
  equal([events.at(-1).event.type, events.at(-1).event.outcome.status], ["run_finished", "failed"]);
});

test("resume: a reader goes on from any offset", async () => {
  const url = await startRun();
  const events = await readFrom(url, "-1", "sse");
  for (const { seq } of events.slice(0, -1)) {
    const response = await fetch(`${url}?offset=${String(seq).padStart(20, "0")}`);
    equal(await response.json(), events.slice(seq));
    assert(response.headers.get("stream-closed") === "true", seq);
  }
});

await main(`${process.env.SUITE ?? "node22"} durable streams`);
