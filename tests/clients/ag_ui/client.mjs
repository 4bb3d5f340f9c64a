// The official clients of AG-UI against the gateway: text, tools, approvals, tools of the client,
// cancelling and resuming.

import { randomUUID } from "node:crypto";

import { CLIENTS, said, warningsOf } from "./clients.mjs";
import { assert, BASE_URL, equal, main, SCENARIOS, script, test } from "./harness.mjs";

const URL_OF_AGENT = `${BASE_URL}/ag-ui`;
const WEATHER = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

function agentOf(client, turns, threadId = randomUUID()) {
  const agent = new client.HttpAgent({ url: URL_OF_AGENT, threadId });
  agent.messages = [{ id: randomUUID(), role: "user", content: script(turns) }];
  return agent;
}

/** Runs the agent; returns its events and what it threw, and refuses warnings. */
async function run(agent, parameters = {}) {
  const events = [];
  let thrown;
  const warnings = await warningsOf(async () => {
    const subscriber = { onEvent: ({ event }) => void events.push(event) };
    await agent.runAgent(parameters, subscriber).catch((error) => (thrown = error));
  });
  equal(warnings, [], "warnings");
  return { events, thrown, last: events.at(-1) };
}

const ofType = (events, type) => events.filter((event) => event.type === type);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function added(turn) {
  return { turns: [turn, { text: "Result: {results}." }] };
}

test("text", async (client) => {
  const agent = agentOf(client, { turns: [{ reasoning: ["Hm, ", "so."], text: ["Grüße ", "🦀."] }] });
  const { thrown, last, events } = await run(agent);
  equal(thrown, undefined);
  equal(last.outcome, { type: "success" });
  equal(said(agent.messages), ["Grüße 🦀."]);
  equal(ofType(events, "REASONING_START").length, 1);
}, CLIENTS);

test("one tool, and a second message on the thread", async (client) => {
  const agent = agentOf(client, added({ text: "Let me add.", calls: [{ name: "add", arguments: { a: 4, b: 5 } }] }));
  await run(agent);
  const result = agent.messages.find(({ role }) => role === "tool");
  equal(result.content, "9");
  equal(said(agent.messages), ["Let me add.", "Result: 9."]);
  agent.messages.push({ id: randomUUID(), role: "user", content: script({ turns: [{ text: "Again." }] }) });
  const { thrown } = await run(agent);
  equal(thrown, undefined);
  equal(said(agent.messages).at(-1), "Again.");
}, CLIENTS);

test("a failing tool", async (client) => {
  const agent = agentOf(client, added({ calls: [{ name: "fail", arguments: { message: "no luck" } }] }));
  const { events, thrown } = await run(agent);
  equal(thrown, undefined);
  const [result] = ofType(events, "TOOL_CALL_RESULT");
  assert(result.content.startsWith("Error: ") && result.content.includes("no luck"), result);
  equal(result.metadata.turnwire.state, "failed");
}, CLIENTS);

test("three tools at once", async (client) => {
  const calls = [1, 2, 3].map((a) => ({ name: "add", arguments: { a, b: a } }));
  const agent = agentOf(client, added({ calls }));
  const { thrown } = await run(agent);
  equal(thrown, undefined);
  const results = agent.messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  equal(results.sort(), ["2", "4", "6"]);
}, CLIENTS);

test("progress", async (client) => {
  const agent = agentOf(client, added({ calls: [{ name: "slow", arguments: { seconds: 0.2, steps: 3 } }] }));
  const { events } = await run(agent);
  const [call] = ofType(events, "TOOL_CALL_START");
  const activity = agent.messages.find(({ role }) => role === "activity");
  equal(activity.id, `progress_${call.toolCallId}`);
  equal(activity.activityType, "turnwire.tool");
  equal(activity.content.state, "done", "the patches arrived");
}, CLIENTS);

const DECISIONS = CLIENTS.flatMap((client) =>
  [true, false].map((approved) => ({ ...client, name: `${client.name}, ${approved ? "granted" : "denied"}`, approved })),
);

test("an approval", async (client) => {
  const agent = agentOf(client, added({ text: "May I?", calls: [{ name: "structured", arguments: {} }] }));
  const first = await run(agent);
  equal(first.thrown, undefined);
  const { interrupts } = first.last.outcome;
  equal(interrupts.length, 1);
  equal(interrupts[0].reason, "tool_call");
  const payload = { approved: client.approved };
  const resume = [{ interruptId: interrupts[0].id, status: "resolved", payload }];
  const second = await run(agent, { resume });
  equal(second.thrown, undefined);
  equal(second.last.outcome, { type: "success" });
  const [result] = ofType(second.events, "TOOL_CALL_RESULT");
  equal(result.metadata.turnwire.state, client.approved ? "done" : "denied");
  equal(agent.messages.filter(({ role }) => role === "tool").length, 1);
}, DECISIONS);

test("a function of the client", async (client) => {
  const agent = agentOf(client, SCENARIOS.weather);
  const { events, last, thrown } = await run(agent, { tools: [WEATHER] });
  equal(thrown, undefined);
  const [call] = ofType(events, "TOOL_CALL_START");
  const pending = (client.isV1 ? last.outcome : last.result).pendingToolCallIds;
  equal(pending, [call.toolCallId]);
  agent.messages.push({ id: randomUUID(), role: "tool", toolCallId: call.toolCallId, content: "12 degrees" });
  const second = await run(agent, { tools: [WEATHER] });
  equal(second.thrown, undefined);
  equal(said(agent.messages).at(-1), "In Oslo it is 12 degrees.");
}, CLIENTS);

test("a cut length", async (client) => {
  const agent = agentOf(client, { turns: [{ text: "Half", finish: "length" }] });
  const { last } = await run(agent);
  equal(last.result, { status: "incomplete", reason: "max_output_tokens" });
}, CLIENTS);

test("a failed run: a model that breaks off", async (client) => {
  const agent = agentOf(client, SCENARIOS.broken);
  const { last } = await run(agent);
  equal(last.type, "RUN_ERROR");
  assert(last.code.startsWith("model_"), last);
}, CLIENTS);

test("cancelling a run by its runId", async (client) => {
  const agent = agentOf(client, SCENARIOS.endless_text);
  const runId = randomUUID();
  const running = run(agent, { runId });
  await pause(300);
  const answer = await fetch(`${URL_OF_AGENT}/runs/${runId}/cancel`, { method: "POST" });
  equal((await answer.json()).done, true);
  const { last, thrown } = await running;
  equal(thrown, undefined);
  equal(client.isV1 ? last.outcome : last.result, client.isV1 ? { type: "cancelled" } : { status: "cancelled" });
}, CLIENTS);

test("resume: a client that goes away and reads the rest", async (client) => {
  const agent = agentOf(client, SCENARIOS.slow_text);
  const runId = randomUUID();
  const running = run(agent, { runId });
  await pause(250);
  agent.abortRun();
  await running;
  const answer = await fetch(`${URL_OF_AGENT}/runs/${runId}`);
  const text = await answer.text();
  const reader = agentOf(client, SCENARIOS.slow_text);
  reader.fetch = async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
  const { thrown } = await run(reader);
  equal(thrown, undefined);
  equal(said(reader.messages), [SCENARIOS.slow_text.turns[0].text.join("")]);
  const frames = text.split(/(?<=\n\n)/);
  const after = await fetch(`${URL_OF_AGENT}/runs/${runId}`, { headers: { "last-event-id": "5" } });
  equal(await after.text(), frames.slice(5).join(""), "the rest, to the byte");
}, CLIENTS);

await main(process.env.SUITE);
