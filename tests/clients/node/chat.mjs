// Chat Completions of the gateway, with the official JavaScript client: raw, with its helper and with
// its runner of tools.

import OpenAI from "openai";

import { assert, BASE_URL, DECISIONS, equal, guarded, isDecided, main, MODEL, native, SCENARIOS, script, test, toolsOf, waitUntil } from "./harness.mjs";

const client = new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test", maxRetries: 0, timeout: 60_000 });
const REASONS = { completed: "stop", max_output_tokens: "length", content_filter: "content_filter" };

/** A function as this dialect writes it; tools of the server are the same in both. */
function nested({ type, ...rest }) {
  return type === "function" ? { type, function: rest } : { type, ...rest };
}

function ask(turns, tools = []) {
  return { model: MODEL, messages: [{ role: "user", content: script(turns) }], tools: tools.map(nested) };
}

async function raw(body) {
  let [content, refusal, reason] = ["", "", null];
  for await (const { choices } of await client.chat.completions.create({ ...body, stream: true })) {
    content += choices[0]?.delta.content ?? "";
    refusal += choices[0]?.delta.refusal ?? "";
    reason = choices[0]?.finish_reason ?? reason;
  }
  return { content, refusal, reason };
}

async function helper(body) {
  const { message, finish_reason: reason } = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0];
  return { content: message.content ?? "", refusal: message.refusal ?? "", reason };
}

async function whole(body) {
  const { message, finish_reason: reason } = (await client.chat.completions.create(body)).choices[0];
  return { content: message.content ?? "", refusal: message.refusal ?? "", reason };
}

for (const scenario of SCENARIOS.streams) {
  test(`chat: ${scenario.name}`, async (gather) => {
    const { content, refusal, reason } = await gather(ask(scenario.script, toolsOf(scenario)));
    equal(reason, REASONS[scenario.reason ?? "completed"], "finish reason");
    if (scenario.text) equal(content, scenario.text, "content");
    if (scenario.refusal) equal(refusal, scenario.refusal, "refusal");
  }, scenario.reason ? [raw, whole] : [raw, helper, whole]);
}

test("the client runs its functions between two requests", async () => {
  const cities = [];
  const weather = nested(SCENARIOS.weather_tool);
  weather.function = { ...weather.function, parse: JSON.parse, function: ({ city }) => (cities.push(city), "sunny") };
  const runner = client.chat.completions.runTools({ ...ask(SCENARIOS.weather), tools: [weather], stream: true });
  equal(await runner.finalContent(), "In Oslo it is sunny.");
  equal(cities, ["Oslo"]);
});

/** The chunks of an extended stream: each as it is, and the event on it, if it has one. */
async function* extended(turns) {
  const headers = { "Turnwire-Profile": "extended" };
  for await (const chunk of await client.chat.completions.create({ ...ask(turns, [SCENARIOS.mcp_tool]), stream: true }, { headers })) {
    yield [chunk, chunk.turnwire?.event?.event];
  }
}

test("progress of a tool, in an extended stream", async () => {
  const events = [];
  const slow = { name: "slow", arguments: { seconds: 0.4, steps: 4 } };
  for await (const [, event] of extended([{ calls: [slow] }, { text: "Done." }])) if (event) events.push(event);
  const place = (type) => events.findIndex((event) => event.type === type);
  assert(place("tool_started") < place("tool_progressed") && place("tool_progressed") < place("tool_finished"), events);
  const told = events.filter(({ type }) => type === "tool_progressed").map(({ progress }) => progress);
  assert(new Set(told).size > 1, told);
});

for (const { name, decision } of DECISIONS) {
  test(`an approval that is ${name}, asked for in an extended stream`, async () => {
    let [text, asked] = ["", 0];
    for await (const [{ id, choices }, event] of extended(guarded("So"))) {
      if (event?.type === "approval_requested") {
        asked += 1;
        await client.post(`/runs/${id.replace("chatcmpl-", "run_")}/calls/${event.call_id}/approve`, { body: { decision } });
      }
      text += choices[0]?.delta.content ?? "";
    }
    assert(asked === 1 && text.startsWith("So: ") && isDecided(text, decision), asked, text);
  });
}

test("cancel by leaving the stream", async () => {
  const controller = new AbortController();
  // Kept, so that its end can be seen.
  const body = { ...ask(SCENARIOS.endless_text), stream: true, store: true, on_disconnect: "cancel" };
  let id;
  for await (const chunk of await client.chat.completions.create(body, { signal: controller.signal })) {
    id = chunk.id.replace("chatcmpl-", "run_");
    controller.abort();
  }
  await waitUntil(async () => (await native(`/${id}`)).status, (status) => status === "cancelled");
});

test("resume with the key of the request", async () => {
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  const again = () => client.chat.completions.create({ ...ask(SCENARIOS.slow_text), stream: true }, { headers });
  let lost;
  for await (const { id } of await again()) {
    lost = id;
    break;
  }
  const ids = new Set();
  let text = "";
  for await (const { id, choices } of await again()) {
    ids.add(id);
    text += choices[0]?.delta.content ?? "";
  }
  equal([...ids], [lost], "it is the same run");
  equal(text, SCENARIOS.slow_text.turns[0].text.join(""));
});

test("a model that is not there is an error", async () => {
  const thrown = await raw({ ...ask({ turns: [] }), model: "no such model" }).catch((error) => error);
  assert(thrown instanceof OpenAI.APIError, thrown);
  equal(thrown.status, 404);
});

for (const [name, turns] of [["at once", [{ error: "rejected" }]], ["in mid-stream", SCENARIOS.broken]]) {
  test(`a failed run throws ${name}`, async (gather) => {
    const thrown = await gather(ask(turns)).catch((error) => error);
    assert(thrown instanceof OpenAI.APIError && thrown.message, thrown);
  }, [raw, whole]);
}

await main(`${process.env.SUITE ?? "node"} chat`);
