// Chat Completions of the gateway, with the official JavaScript client: raw, with its helper and with
// its runner of tools.

import OpenAI from "openai";

import { assert, BASE_URL, equal, main, MODEL, SCENARIOS, script, test, toolsOf } from "./harness.mjs";

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

test("a failed run throws", async () => {
  try {
    await raw({ ...ask({ turns: [] }), model: "no such model" });
  } catch (error) {
    equal(error.status, 404);
    assert(error instanceof OpenAI.APIError, error);
    return;
  }
  throw new Error("it threw nothing");
});

await main(`${process.env.SUITE ?? "node"} chat`);
