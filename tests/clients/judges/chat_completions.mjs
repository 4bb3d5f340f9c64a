// openai-node, 6 and 7, over every recorded and every random run as a chat completion: what its
// stream reader and its helper gather is the answer without a stream.

import OpenAI from "openai";
import OpenAI6 from "openai-6";

import { assert, equal, main } from "./harness.mjs";
import { testRuns } from "./runs.mjs";

const CLIENTS = [
  { name: "openai 7", Client: OpenAI },
  { name: "openai 6", Client: OpenAI6 },
];
const DONE = "data: [DONE]\n\n";
const BODY = { model: "m", messages: [{ role: "user", content: "?" }], stream_options: { include_usage: true } };

/** The stream of a run, and the answer without one. */
function chatOf(run) {
  const [stream, whole] = run.read("chat_completions.txt").split(DONE);
  return { stream: stream + DONE, whole: JSON.parse(whole) };
}

const isFailed = ({ whole }) => !whole.choices;

function clientOf({ Client }, body, type) {
  const fetch = async () => new Response(body, { headers: { "content-type": type } });
  return new Client({ apiKey: "test", maxRetries: 0, fetch });
}

const streaming = (client, { stream }) => clientOf(client, stream, "text/event-stream").chat.completions;

/** Reads to the end; a failed run must throw what the answer without a stream says. */
async function reading(chat, read) {
  try {
    await read();
  } catch (error) {
    assert(isFailed(chat) && error.message.includes(chat.whole.message), error);
    return false;
  }
  assert(!isFailed(chat), "it threw nothing");
  return true;
}

/** What chunks add up to. */
class Gathered {
  texts = { content: "", refusal: "", reasoning_content: "" };
  calls = [];
  finishReason = null;
  usage = null;

  add({ choices: [choice], usage }) {
    this.usage = usage ?? this.usage;
    if (!choice) return;
    equal(this.finishReason, null, "something follows the finish reason");
    for (const name of Object.keys(this.texts)) this.texts[name] += choice.delta[name] ?? "";
    for (const call of choice.delta.tool_calls ?? []) this.#addCall(call);
    this.finishReason = choice.finish_reason;
  }

  #addCall({ index, ...call }) {
    if (index === this.calls.length) return this.calls.push(structuredClone(call));
    if (call.custom) this.calls[index].custom.input += call.custom.input;
    else this.calls[index].function.arguments += call.function.arguments;
  }

  isSameAs({ choices: [{ message, finish_reason }], usage }) {
    for (const [name, text] of Object.entries(this.texts)) equal(text, message[name] ?? "", name);
    equal(this.calls, message.tool_calls ?? [], "calls");
    equal([this.finishReason, this.usage], [finish_reason, usage]);
  }
}

for (const client of CLIENTS) {
  testRuns(`${client.name}: raw stream of`, async (run) => {
    const chat = chatOf(run);
    const gathered = new Gathered();
    const isRead = await reading(chat, async () => {
      const stream = await streaming(client, chat).create({ ...BODY, stream: true });
      for await (const chunk of stream) gathered.add(chunk);
    });
    if (isRead) gathered.isSameAs(chat.whole);
  });

  testRuns(`${client.name}: helper stream of`, async (run) => {
    const chat = chatOf(run);
    // The helper knows no custom tools.
    if (chat.stream.includes('"type":"custom"')) return;
    const stream = streaming(client, chat).stream(BODY);
    await reading(chat, async () => {
      const [{ message, finish_reason }] = (await stream.finalChatCompletion()).choices;
      const [theirs] = chat.whole.choices;
      equal([message.content ?? "", finish_reason], [theirs.message.content ?? "", theirs.finish_reason]);
      const brief = (calls = []) => calls.map(({ id, function: { name } }) => [id, name]);
      equal(brief(message.tool_calls), brief(theirs.message.tool_calls), "calls");
    });
  });

  testRuns(`${client.name}: answer of`, async (run) => {
    const { whole } = chatOf(run);
    if (!whole.choices) return;
    const answer = await clientOf(client, JSON.stringify(whole), "application/json").chat.completions.create(BODY);
    equal({ ...answer }, whole);
  });
}

await main("judges chat");
