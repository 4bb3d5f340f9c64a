// OpenAI's framework for agents, in JavaScript, over both dialects: it runs functions of the program,
// and the gateway the tools of its servers.

import { Agent, hostedMcpTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

import { assert, BASE_URL, DECISIONS, equal, guarded, isDecided, main, MODEL, native, runsWith, SCENARIOS, script, test, waitUntil } from "./harness.mjs";

setTracingDisabled(true);
const clientWith = (defaultHeaders) => new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test", maxRetries: 0, defaultHeaders });

/** A dialect, and the same with more headers. */
function dialect(name, Model) {
  const make = (headers) => ({ name, make, model: new Model(clientWith(headers), MODEL) });
  return make({});
}

const RESPONSES = dialect("responses", OpenAIResponsesModel);
const CHAT = dialect("chat completions", OpenAIChatCompletionsModel);
const BOTH = [RESPONSES, CHAT];
const scenario = (name) => SCENARIOS.streams.find((scenario) => scenario.name === name);

/** Runs an agent, and returns the result and the names of the items in its stream. */
async function ask({ model }, turns, tools = [], modelSettings = {}) {
  const result = await run(new Agent({ name: "Tester", model, tools, modelSettings }), script(turns), { stream: true });
  const items = [];
  for await (const event of result) if (event.type === "run_item_stream_event") items.push(event.name);
  await result.completed;
  return { result, items, text: result.finalOutput };
}

function weather(cities) {
  return tool({
    name: "get_weather",
    description: "Tells the weather of a city.",
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => (cities.push(city), "sunny"),
  });
}

test("text", async (dialect) => {
  const { text } = await ask(dialect, scenario("text").script);
  equal(text, scenario("text").text);
}, BOTH);

test("a function of the program", async (dialect) => {
  const cities = [];
  const { text, items } = await ask(dialect, SCENARIOS.weather, [weather(cities)]);
  equal([text, cities], ["In Oslo it is sunny.", ["Oslo"]]);
  assert(items.includes("tool_called") && items.includes("tool_output"), items);
}, BOTH);

test("two functions at once", async (dialect) => {
  const cities = [];
  await ask(dialect, SCENARIOS.two_weathers, [weather(cities)]);
  equal(cities, ["Oslo", "Rome"]);
}, BOTH);

test("a cut length", async (dialect) => {
  const answer = await ask(dialect, scenario("length").script).catch((error) => error);
  // Over the Responses API the framework takes no cut answer, and says so.
  if (dialect === RESPONSES) assert(/response\.incomplete/.test(answer.message), answer);
  else equal(answer.text, scenario("length").text);
}, BOTH);

test("a failed run throws", async (dialect) => {
  const thrown = await ask(dialect, [{ error: "rejected" }]).catch((error) => error);
  assert(thrown instanceof Error, thrown);
}, BOTH);

for (const name of ["mcp success", "mcp failure", "three tools side by side"]) {
  test(name, async (dialect) => {
    const hosted = hostedMcpTool({ serverLabel: "props", requireApproval: "never" });
    // Over Chat Completions the framework knows no tools of the server, and passes on what it is given.
    const { text } = await (dialect === RESPONSES
      ? ask(dialect, scenario(name).script, [hosted])
      : ask(dialect, scenario(name).script, [], { providerData: { tools: [SCENARIOS.mcp_tool] } }));
    equal(text, scenario(name).text);
  }, BOTH);
}

for (const approve of [true, false]) {
  test(`an approval that is ${approve ? "granted" : "denied"}`, async (dialect) => {
    const asked = [];
    const onApproval = async (_, { rawItem }) => (asked.push(rawItem.name), { approve });
    const tools = [hostedMcpTool({ serverLabel: "props", requireApproval: "always", onApproval })];
    const turns = [{ calls: [{ name: "add", arguments: { a: 4, b: 5 } }] }, { text: "So be it: {results}." }];
    const { text } = await ask(dialect, turns, tools);
    equal([asked, text === "So be it: 9."], [["add"], approve]);
  }, [RESPONSES]);
}

/** The events of the dialect as they are, which the framework passes on. */
async function* rawEvents({ model }, turns, agent) {
  for await (const { type, data } of await run(new Agent({ name: "Tester", model, ...agent }), script(turns), { stream: true })) {
    if (type === "raw_model_stream_event" && data.type === "model") yield data.event;
  }
}

const EXTENDED = { "Turnwire-Profile": "extended" };
const OF_SERVER = { modelSettings: { providerData: { tools: [SCENARIOS.mcp_tool] } } };

for (const { name, decision } of DECISIONS) {
  test(`an approval that is ${name}, asked for in an extended stream`, async ({ make }) => {
    let [text, asked] = ["", 0];
    for await (const { choices, turnwire } of rawEvents(make(EXTENDED), guarded("So"), OF_SERVER)) {
      const { run_id, event } = turnwire?.event ?? {};
      if (event?.type === "approval_requested") {
        asked += 1;
        await native(`/${run_id}/calls/${event.call_id}/approve`, { decision });
      }
      text += choices[0]?.delta.content ?? "";
    }
    assert(asked === 1 && text.startsWith("So: ") && isDecided(text, decision), asked, text);
  }, [CHAT]);
}

const SLOW = [{ calls: [{ name: "slow", arguments: { seconds: 0.4, steps: 4 } }] }, { text: "Done." }];

test("progress of a tool, on the events that the framework passes on", async (dialect) => {
  const told = [];
  const tools = [hostedMcpTool({ serverLabel: "props", requireApproval: "never" })];
  for await (const { type, turnwire } of rawEvents(dialect, SLOW, { tools })) {
    if (type === "response.mcp_call.in_progress" && turnwire.progress) told.push(turnwire.progress);
  }
  assert(told.length > 1, told);
}, [RESPONSES]);

test("progress of a tool, in an extended stream", async ({ make }) => {
  const told = [];
  for await (const { turnwire } of rawEvents(make(EXTENDED), SLOW, OF_SERVER)) {
    const event = turnwire?.event?.event;
    if (event?.type === "tool_progressed") told.push(event.progress);
  }
  assert(told.length > 1, told);
}, [CHAT]);

/** One of the slow scripts, whose run can be found. */
function marked(name, mark) {
  const [turn] = SCENARIOS[name].turns;
  return [{ ...turn, text: [...turn.text, mark] }];
}

/** Goes away at the first piece of text. */
async function leave({ model }, turns, modelSettings) {
  const controller = new AbortController();
  const agent = new Agent({ name: "Tester", model, modelSettings });
  const result = await run(agent, script(turns), { stream: true, signal: controller.signal });
  for await (const { type, data } of result) {
    if (type === "raw_model_stream_event" && data.type === "output_text_delta") controller.abort();
  }
}

test("cancel by its signal ends the run", async (dialect) => {
  const mark = `mark${crypto.randomUUID()}`;
  // A client that only disconnects leaves its run of the Responses API going; one of Chat Completions
  // is kept here, so that its end can be seen.
  const providerData = { on_disconnect: "cancel", store: true };
  await leave(dialect, marked("endless_text", mark), { providerData });
  await waitUntil(async () => (await runsWith(mark)).map(({ status }) => status), ([status]) => status === "cancelled");
}, BOTH);

test("resume with the key of the request", async ({ make }) => {
  const mark = `mark${crypto.randomUUID()}`;
  const dialect = make({ "Idempotency-Key": crypto.randomUUID() });
  const turns = marked("slow_text", mark);
  const modelSettings = { providerData: { store: true } };
  await leave(dialect, turns, modelSettings);
  const { text } = await ask(dialect, turns, [], modelSettings);
  equal(text, turns[0].text.join(""));
  equal((await runsWith(mark)).length, 1, "it is the same run");
}, BOTH);

await main("node22 agents");
