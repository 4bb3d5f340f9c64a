// The Vercel AI SDK, 6 and 7, over every recorded run: its own schemas read each event and each
// response, and its own loop goes through to the end.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";
import { generateText as generateText6, streamText as streamText6 } from "ai-6";
import { createOpenAI as createOpenAI6 } from "ai-6-openai";

import { GOLDENS, has, streaming, whole } from "./goldens.mjs";
import { assert, equal, main, test } from "./harness.mjs";

const SDKS = [
  { name: "ai 7", createOpenAI, streamText, generateText },
  { name: "ai 6", createOpenAI: createOpenAI6, streamText: streamText6, generateText: generateText6 },
];
const PROMPT = [{ role: "user", content: [{ type: "text", text: "?" }] }];

// It has no schema for the results of functions that the server runs, an official item, and so
// reads no whole response with one. It cannot ask for such functions either: it always describes
// the functions it offers, and those are the client's.
const isReadable = (golden) => !has(golden, "function_call_output");

// Calls of functions are the client's to it, and there is no client here that has them.
const isWithoutClient = (golden) => !has(golden, "function_call");

// Version 7 has a schema for calls of custom tools, and no word in it for one that was cut, which
// is official too.
const isCutCustomCall = (item) => item.type === "custom_tool_call" && item.status === "incomplete";
const isStreamReadable = (sdk, { response }) => sdk.name !== "ai 7" || !response.output.some(isCutCustomCall);

function model(sdk, fetch) {
  return sdk.createOpenAI({ baseURL: "http://localhost/v1", apiKey: "test", fetch }).responses("default");
}

function textOf({ response }) {
  const parts = response.output.filter((item) => item.type === "message").flatMap((item) => item.content);
  return parts.map((part) => part.text ?? part.refusal ?? "").join("");
}

/** What was thrown by `run`, or nothing. */
async function thrownBy(run) {
  try {
    await run();
  } catch (error) {
    return error;
  }
}

/** Fails with what the schemas did not like, if they did not. */
function isNoMismatch(error) {
  const words = `${error?.message} ${error?.cause?.message ?? ""}`;
  assert(!/validation failed|Invalid JSON response/i.test(words), words);
}

for (const sdk of SDKS) {
  for (const golden of GOLDENS) {
    const { name, profile, response } = golden;
    const isFailed = response.status === "failed";

    test(`${sdk.name}: stream of ${name}, ${profile}`, async () => {
      const errors = [];
      const thrown = await thrownBy(async () => {
        const { stream } = await model(sdk, streaming(golden)).doStream({ prompt: PROMPT });
        for await (const part of stream) if (part.type === "error") errors.push(part.error);
      });
      if (thrown) errors.push(thrown);
      if (!isStreamReadable(sdk, golden)) return assert(errors.length, "it reads these by now: take out the exception");
      errors.forEach(isNoMismatch);
      equal(errors.length > 0, isFailed, `errors: ${errors.map((error) => error.message)}`);
      if (isFailed) assert(`${errors[0].message}`.includes(response.error.message), errors[0]);
    });

    test(`${sdk.name}: response of ${name}, ${profile}`, async () => {
      const thrown = await thrownBy(() => model(sdk, whole(golden)).doGenerate({ prompt: PROMPT }));
      if (!isReadable(golden)) return assert(thrown, "it reads these by now: take out the exception");
      if (thrown) isNoMismatch(thrown);
      equal(Boolean(thrown), isFailed, `thrown: ${thrown?.message}`);
      if (isFailed) assert(thrown.message.includes(response.error.message), thrown);
    });

    if (!isWithoutClient(golden) || isFailed) continue;

    if (isStreamReadable(sdk, golden)) test(`${sdk.name}: streamText of ${name}, ${profile}`, async () => {
      const errors = [];
      const result = sdk.streamText({
        model: model(sdk, streaming(golden)), prompt: "?", maxRetries: 0, onError: ({ error }) => errors.push(error),
      });
      const texts = [];
      for await (const delta of result.textStream) texts.push(delta);
      equal(errors, [], "errors");
      equal(texts.join(""), textOf(golden), "text");
    });

    test(`${sdk.name}: generateText of ${name}, ${profile}`, async () => {
      const result = await sdk.generateText({ model: model(sdk, whole(golden)), prompt: "?", maxRetries: 0 });
      equal(result.text, textOf(golden), "text");
    });
  }
}

await main("judges ai-sdk");
