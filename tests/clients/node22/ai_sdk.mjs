// The Vercel AI SDK against the gateway, as a provider of models: streamed runs with tools of the server,
// and runs in which the SDK carries out a tool.

import { createOpenAI } from "@ai-sdk/openai";
import { isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { assert, BASE_URL, equal, main, MODEL, runsWith, SCENARIOS, script, test, waitUntil } from "./harness.mjs";

const openai = createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test" });

/** The model of a program that changes the body of its requests, where the SDK has no setting for it. */
function modelWith(change, headers = {}) {
  const changing = (url, init) => fetch(url, { ...init, body: JSON.stringify(change(JSON.parse(init.body))) });
  return createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test", fetch: changing, headers }).responses(MODEL);
}

/** A server of the settings. The SDK wants an address, which a server with a label does without. */
const mcp = (requireApproval = "never") => ({
  model: modelWith(({ tools, ...body }) => ({ ...body, tools: tools.map(({ server_url, ...tool }) => tool) })),
  tools: { props: openai.tools.mcp({ serverLabel: "props", serverUrl: "http://127.0.0.1/", requireApproval }) },
});

/** Streams an answer; all of its parts, and what failed. */
async function play(options) {
  const parts = [];
  for await (const part of streamText({ model: openai.responses(MODEL), maxRetries: 0, onError: () => {}, ...options }).fullStream) parts.push(part);
  const text = parts.filter(({ type }) => type === "text-delta").map((part) => part.text).join("");
  return { parts, text, errors: parts.filter(({ type }) => type === "error"), finish: parts.findLast(({ type }) => type === "finish") };
}

const NAMES = ["text", "mcp success", "mcp failure", "three tools side by side", "length"];
for (const { name, script: turns, tools, text: wanted, reason } of SCENARIOS.streams.filter(({ name }) => NAMES.includes(name))) {
  test(`${name} with streamText`, async () => {
    const { text, errors, finish } = await play({ prompt: script(turns), ...(tools ? mcp() : {}) });
    equal([errors, text, finish.finishReason], [[], wanted, reason ? "length" : "stop"]);
  });
}

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "granted" : "denied"} with streamText`, async () => {
    const prompt = script([{ calls: [{ name: "add", arguments: { a: 4, b: 5 } }] }, { text: "So be it: {results}." }]);
    const first = streamText({ prompt, ...mcp("always") });
    const asked = (await first.content).filter(({ type }) => type === "tool-approval-request");
    equal(asked.length, 1, "questions");
    // Without the ID of the response, the SDK names the question alone, which is no item to continue from.
    const { id: previousResponseId, messages } = await first.response;
    const response = { type: "tool-approval-response", approvalId: asked[0].approvalId, approved, providerExecuted: true };
    messages.push({ role: "tool", content: [response] });
    const { text, errors } = await play({ messages, ...mcp("always"), providerOptions: { openai: { previousResponseId } } });
    equal(errors, []);
    assert(text.startsWith("So be it: ") && (text === "So be it: 9.") === approved, text);
  });
}

test("progress of a tool in the raw chunks of streamText", async () => {
  const prompt = script([{ calls: [{ name: "slow", arguments: { seconds: 0.4, steps: 4 } }] }, { text: "Done." }]);
  const { parts, text } = await play({ prompt, ...mcp(), includeRawChunks: true });
  const raw = parts.filter(({ type }) => type === "raw").map(({ rawValue }) => rawValue);
  const told = raw.filter(({ type, turnwire }) => type === "response.mcp_call.in_progress" && turnwire?.progress);
  equal(text, "Done.");
  assert(told.length > 1, raw.map(({ type }) => type));
});

/** One of the slow scripts, whose run can be found. */
function marked(name, mark) {
  const [turn] = SCENARIOS[name].turns;
  return [{ ...turn, text: [...turn.text, mark] }];
}

/** Goes away at the first piece of text. */
async function leave(model, prompt) {
  const controller = new AbortController();
  const { fullStream } = streamText({ model, prompt, maxRetries: 0, abortSignal: controller.signal });
  for await (const { type } of fullStream) if (type === "text-delta") controller.abort();
}

test("cancel by its signal ends the run", async () => {
  const mark = `mark${crypto.randomUUID()}`;
  await leave(modelWith((body) => ({ ...body, on_disconnect: "cancel" })), script(marked("endless_text", mark)));
  await waitUntil(async () => (await runsWith(mark)).map(({ status }) => status), ([status]) => status === "cancelled");
});

test("resume with the key of the request", async () => {
  const mark = `mark${crypto.randomUUID()}`;
  const model = modelWith((body) => body, { "Idempotency-Key": crypto.randomUUID() });
  const turns = marked("slow_text", mark);
  await leave(model, script(turns));
  const { text } = await play({ model, prompt: script(turns) });
  equal(text, turns[0].text.join(""));
  equal((await runsWith(mark)).length, 1, "it is the same run");
});

for (const [name, turns] of [["at once", [{ error: "rejected" }]], ["in mid-stream", SCENARIOS.broken]]) {
  test(`a failed run is an error ${name}`, async () => {
    const { errors } = await play({ prompt: script(turns) });
    assert(errors.length > 0 && errors[0].error, errors);
  });
}

test("a function of the program with streamText", async () => {
  const cities = [];
  const errors = [];
  const get_weather = tool({
    description: "Tells the weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city);
      return "sunny";
    },
  });
  const result = streamText({
    model: openai.responses(MODEL),
    prompt: script(SCENARIOS.weather),
    tools: { get_weather },
    stopWhen: isStepCount(4),
    onError: ({ error }) => errors.push(error),
  });
  const texts = [];
  for await (const delta of result.textStream) texts.push(delta);
  equal(errors, [], "errors");
  equal(cities, ["Oslo"]);
  equal(texts.join(""), "Let me look. In Oslo it is sunny.");
});

test("a custom tool with streamText", async () => {
  const inputs = [];
  const errors = [];
  const apply_patch = openai.tools.customTool({
    description: "Edits files.",
    format: { type: "grammar", syntax: "lark", definition: "start: /(.|\\n)+/" },
    execute: async (input) => {
      inputs.push(input);
      return "done";
    },
  });
  const result = streamText({
    model: openai.responses(MODEL),
    prompt: script([{ calls: [{ name: "apply_patch", input: ['+"quo', 'ted"\n'] }] }, { text: "It says {results}." }]),
    tools: { apply_patch },
    stopWhen: isStepCount(4),
    onError: ({ error }) => errors.push(error),
  });
  const texts = [];
  for await (const delta of result.textStream) texts.push(delta);
  equal(errors, [], "errors");
  equal(inputs, ['+"quoted"\n']);
  equal(texts.join(""), "It says done.");
});

await main("node22 ai-sdk");
