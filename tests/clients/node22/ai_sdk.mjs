// The Vercel AI SDK against the gateway: streamed runs in which the SDK carries out a tool.

import { createOpenAI } from "@ai-sdk/openai";
import { isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { BASE_URL, equal, main, MODEL, SCENARIOS, script, test } from "./harness.mjs";

const openai = createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test" });

test("a tool run with streamText", async () => {
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
