// The official JavaScript client against the gateway, with raw events and with its helper.
// Whatever the client gathered must be, field by field, what the gateway stores.

import { createServer } from "node:http";

import OpenAI, { APIError, toFile } from "openai";

import { Fold, plain, refusalOf, same, textOf } from "./fold.mjs";
import { assert, BASE_URL, equal, main, MODEL, SCENARIOS, script, test, toolsOf, waitUntil } from "./harness.mjs";

const client = new OpenAI({ baseURL: `${BASE_URL}/v1`, apiKey: "test", maxRetries: 0, timeout: 60_000 });
const IS_RUNNING = (status) => status === "queued" || status === "in_progress";

async function raw(body, onEvent = () => {}) {
  const fold = new Fold();
  for await (const event of await client.responses.create({ ...body, stream: true })) {
    fold.add(event);
    await onEvent(event);
  }
  return [fold.response(), fold];
}

async function helper(body, onEvent = () => {}) {
  const fold = new Fold();
  const stream = client.responses.stream(body);
  for await (const event of stream) {
    if (/^response\.(created$|output_item\.|mcp_call\.|web_search_call\.|file_search_call\.)/.test(event.type)) {
      fold.add(plain(structuredClone(event)));
    }
    await onEvent(event);
  }
  return [await stream.finalResponse(), fold];
}

const BOTH = [raw, helper];

async function isStored(response) {
  same(response, await client.responses.retrieve(response.id));
}

async function isGone(look) {
  try {
    await look();
  } catch (error) {
    equal(error.status, 404);
    return;
  }
  throw new Error("it is still there");
}

for (const scenario of SCENARIOS.streams) {
  test(`stream: ${scenario.name}`, async (stream) => {
    const [response, fold] = await stream({ model: MODEL, input: script(scenario.script), tools: toolsOf(scenario) });
    equal(response.status, scenario.status, "status");
    equal(response.output.map((item) => item.type), scenario.output, "output");
    if (scenario.reason) equal(response.incomplete_details.reason, scenario.reason, "reason");
    if (scenario.text) equal(textOf(response), scenario.text, "text");
    if (scenario.refusal) equal(refusalOf(response), scenario.refusal, "refusal");
    for (const [type, statuses] of Object.entries(scenario.statuses ?? {})) {
      equal(response.output.filter((item) => item.type === type).map((item) => item.status), statuses, type);
    }
    const ends = fold.ends.filter(([type]) => !type.includes(".mcp_list_tools."));
    if (scenario.ends) equal(ends.map(([type]) => type), scenario.ends, "ends");
    if (scenario.end_order) equal(ends.map(([, index]) => index), scenario.end_order, "order of ends");
    await isStored(response);
  }, BOTH);
}

test("function call", async (stream) => {
  const tools = [SCENARIOS.weather_tool];
  const [first] = await stream({ model: MODEL, input: script(SCENARIOS.weather), tools });
  equal(first.output.map((item) => item.type), ["message", "function_call"]);
  const call = first.output[1];
  equal([call.name, call.arguments, call.status], ["get_weather", '{"city":"Oslo"}', "completed"]);
  await isStored(first);
  const output = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
  const [second] = await stream({ model: MODEL, previous_response_id: first.id, input: [output], tools });
  equal(textOf(second), "In Oslo it is sunny.");
  await isStored(second);
}, BOTH);

test("two function calls in one answer", async (stream) => {
  const tools = [SCENARIOS.weather_tool];
  const [first] = await stream({ model: MODEL, input: script(SCENARIOS.two_weathers), tools });
  const calls = first.output.filter((item) => item.type === "function_call");
  equal(calls.length, 2);
  const input = calls.map(({ call_id }, place) => ({ type: "function_call_output", call_id, output: ["snow", "sun"][place] }));
  const [second] = await stream({ model: MODEL, previous_response_id: first.id, input, tools });
  equal(textOf(second), "Oslo and Rome: snow, sun.");
  await isStored(second);
}, BOTH);

// C15: two calls wait for a person at once; one is allowed, the other is not.
test("mcp approvals, one granted and one denied", async (stream) => {
  const tools = [SCENARIOS.guarded_mcp_tool];
  const [first] = await stream({ model: MODEL, input: script(SCENARIOS.two_sums), tools });
  const asked = first.output.filter((item) => item.type === "mcp_approval_request");
  equal(asked.map((item) => [item.name, item.server_label]), [["add", "props"], ["add", "props"]]);
  await isStored(first);
  const input = [
    { type: "mcp_approval_response", approval_request_id: asked[1].id, approve: false, reason: "too big" },
    { type: "mcp_approval_response", approval_request_id: asked[0].id, approve: true },
  ];
  const [second] = await stream({ model: MODEL, previous_response_id: first.id, input, tools });
  const calls = second.output.filter((item) => item.type === "mcp_call");
  equal(calls.map((call) => call.status), ["completed", "failed"]);
  equal(textOf(second), "Sums: 9, Error: denied by the user: too big.");
  await isStored(second);
}, BOTH);

test("progress of a tool", async (stream) => {
  const told = [];
  const slow = { name: "slow", arguments: { seconds: 0.4, steps: 4 } };
  const body = { model: MODEL, input: script([{ calls: [slow] }, { text: "Done." }]), tools: [SCENARIOS.mcp_tool] };
  const [response] = await stream(body, ({ type, turnwire }) => {
    if (type === "response.mcp_call.in_progress" && turnwire?.progress) told.push(turnwire.progress);
  });
  assert(told.length > 1, told);
  await isStored(response);
}, BOTH);

test("cancel", async (stream) => {
  const seen = {};
  const [response] = await stream({ model: MODEL, input: script(SCENARIOS.endless_text), background: true }, async (event) => {
    if (event.type === "response.created") seen.id = event.response.id;
    if (event.type === "response.output_text.delta" && !seen.cancelled) {
      seen.cancelled = true;
      await client.responses.cancel(seen.id);
    }
  });
  equal(response.status, "cancelled");
  await isStored(response);
  same(await client.responses.cancel(seen.id), response);
}, BOTH);

test("error in mid-stream", async (stream) => {
  let id;
  let thrown;
  try {
    await stream({ model: MODEL, input: script(SCENARIOS.broken) }, (event) => {
      if (event.type === "response.created") id = event.response.id;
    });
  } catch (error) {
    thrown = error;
  }
  assert(thrown instanceof APIError, "the client threw", thrown);
  assert(thrown.message, "the error says something");
  const response = await client.responses.retrieve(id);
  equal(response.status, "failed");
  assert(response.error.code && response.error.message, response.error);
}, BOTH);

// A12: the client raises what the provider meant, and sees nothing of what it wrote.
for (const scenario of SCENARIOS.refused) {
  test(`a failed run is raised: ${scenario.name}`, async () => {
    const question = JSON.stringify({ refuse: scenario.refuse });
    let thrown;
    try {
      await client.responses.create({ model: MODEL, input: question });
    } catch (error) {
      thrown = error;
    }
    assert(thrown instanceof OpenAI[scenario.python], "the client threw", thrown);
    equal([thrown.status, thrown.code, thrown.error.turnwire.code], [scenario.status, scenario.code, scenario.own]);
    equal(thrown.headers.get("retry-after") ?? undefined, scenario.retry_after, "retry-after");
    const kept = await client.responses.retrieve(thrown.headers.get("turnwire-response-id"));
    equal([kept.status, kept.error.turnwire.code], ["failed", scenario.own]);
    const shown = JSON.stringify([thrown.error, [...thrown.headers], kept]);
    assert(!shown.includes("sk-UPSTREAMSECRET"), shown);
  });
}

test("a failed run whose tool acted is returned", async () => {
  const input = script(SCENARIOS.acted_then_refused);
  const response = await client.responses.create({ model: MODEL, input, tools: [SCENARIOS.mcp_tool] });
  equal([response.status, response.error.code], ["failed", "invalid_prompt"]);
});

test("background", async () => {
  const { id, status } = await client.responses.create({ model: MODEL, input: script(SCENARIOS.slow_text), background: true });
  assert(IS_RUNNING(status), status);
  const ended = await waitUntil(() => client.responses.retrieve(id), (response) => !IS_RUNNING(response.status));
  equal(ended.status, "completed");
  equal(ended.output_text, "one two three four five six seven eight nine ten.");
});

test("background and stream", async (stream) => {
  const [response] = await stream({ model: MODEL, input: script(SCENARIOS.slow_text), background: true });
  equal([response.status, response.background], ["completed", true]);
  await isStored(response);
}, BOTH);

test("resume", async () => {
  const first = [];
  for await (const event of await client.responses.create({
    model: MODEL, input: script(SCENARIOS.slow_text), background: true, stream: true,
  })) {
    first.push(event);
    if (event.type === "response.output_text.delta") break;
  }
  const { id } = first[0].response;
  const starting_after = first.at(-1).sequence_number;
  const rest = await all(await client.responses.retrieve(id, { stream: true, starting_after }));
  const whole = await all(await client.responses.retrieve(id, { stream: true }));
  equal([...first, ...rest], whole, "both parts");
  const fold = new Fold();
  whole.forEach((event) => fold.add(event));
  await isStored(fold.response());
  const stream = client.responses.stream({ response_id: id, starting_after });
  const resumed = await all(stream);
  equal(resumed.map((event) => event.sequence_number), rest.map((event) => event.sequence_number), "numbers");
  same(await stream.finalResponse(), fold.response());
});

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

test("conversation", async (stream) => {
  const conversation = await client.conversations.create({ metadata: { topic: "numbers" } });
  const [first] = await stream({ model: MODEL, conversation: conversation.id, input: "The number is seven." });
  equal(textOf(first), "You said: The number is seven.");
  await isStored(first);
  const [second] = await stream({ model: MODEL, conversation: conversation.id, input: script([{ text: "I know." }]) });
  equal(textOf(second), "I know.");
  const items = await all(client.conversations.items.list(conversation.id, { order: "asc" }));
  equal(items.map((item) => item.role), ["user", "assistant", "user", "assistant"]);
  equal([items[0].content[0].text, items[3].content[0].text], ["The number is seven.", "I know."]);
  equal((await client.conversations.delete(conversation.id)).deleted, true);
  await isGone(() => client.conversations.retrieve(conversation.id));
}, BOTH);

test("input items", async () => {
  const input = [0, 1, 2, 3, 4].map((n) => ({ role: "user", content: `Message ${n}.` }));
  const { id } = await client.responses.create({ model: MODEL, input });
  const items = await all(client.responses.inputItems.list(id, { limit: 2 }));
  equal(items.map((item) => item.content[0].text), [4, 3, 2, 1, 0].map((n) => `Message ${n}.`));
});

test("input tokens", async () => {
  const counted = await client.responses.inputTokens.count({ model: MODEL, input: "Good day" });
  equal(counted.object, "response.input_tokens");
  assert(counted.input_tokens > 0, counted);
});

test("compact", async () => {
  const compacted = await client.responses.compact({ model: MODEL, input: [{ role: "user", content: "The number is seven." }] });
  equal(compacted.object, "response.compaction");
  assert(compacted.output.some((item) => item.type === "compaction"), compacted.output);
  const input = [...plain(compacted.output), { role: "user", content: script([{ text: "Go on." }]) }];
  equal((await client.responses.create({ model: MODEL, input })).output_text, "Go on.");
});

test("delete", async () => {
  const { id } = await client.responses.create({ model: MODEL, input: "Good day" });
  await client.responses.delete(id);
  await isGone(() => client.responses.retrieve(id));
});

test("models", async () => {
  const models = await all(await client.models.list());
  assert(models.some((model) => model.id === MODEL), models);
});

test("web search with sources and citations", async (stream) => {
  const include = ["web_search_call.action.sources"];
  const tools = [SCENARIOS.web_search_tool];
  const [response] = await stream({ model: MODEL, input: script(SCENARIOS.cited_search), tools, include });
  const [searched, message] = response.output;
  const sources = [1, 2, 3].map((n) => ({ type: "url", url: `https://example.com/rust-streams/${n}` }));
  equal(searched.action, { type: "search", query: "rust streams", queries: ["rust streams"], sources });
  const [{ text, annotations }] = message.content;
  // Indexes count code points; strings of JavaScript count halves of them.
  const letters = Array.from(text);
  const cited = annotations.map((note) => [letters.slice(note.start_index, note.end_index).join(""), note.url, note.title]);
  equal(annotations.map((note) => note.type), ["url_citation", "url_citation", "url_citation"]);
  equal(cited, SCENARIOS.cited_places, "cited places");
  same(response, await client.responses.retrieve(response.id, { include }));
}, BOTH);

test("vector stores in full", async () => {
  const expires_after = { anchor: "last_active_at", days: 3 };
  const store = await client.vectorStores.create({ name: "all of it", expires_after });
  equal(store.expires_at, store.last_active_at + 3 * 24 * 3600);
  equal((await client.vectorStores.update(store.id, { name: "renamed" })).name, "renamed");
  const texts = { "fern.txt": "Ferns grow in shade.", "moss.txt": "Moss grows on stones." };
  const files = [];
  for (const [name, text] of Object.entries(texts)) {
    files.push(await client.files.create({ file: await toFile(Buffer.from(text), name), purpose: "assistants" }));
  }
  const chunking_strategy = { type: "static", static: { max_chunk_size_tokens: 200, chunk_overlap_tokens: 20 } };
  const batch = await client.vectorStores.fileBatches.createAndPoll(store.id, {
    file_ids: files.map((file) => file.id), attributes: { kind: "green" }, chunking_strategy,
  });
  equal([batch.status, batch.file_counts.completed], ["completed", 2]);
  const listed = await all(await client.vectorStores.fileBatches.listFiles(batch.id, { vector_store_id: store.id }));
  equal(listed.map((file) => file.id).sort(), files.map((file) => file.id).sort());
  equal(listed[0].chunking_strategy, chunking_strategy);
  await client.vectorStores.files.update(files[1].id, { vector_store_id: store.id, attributes: { kind: "grey" } });
  const filters = { type: "eq", key: "kind", value: "green" };
  const found = await all(await client.vectorStores.search(store.id, { query: "grow", filters }));
  equal(found.map((one) => one.filename), ["fern.txt"]);
  const parsed = await all(await client.vectorStores.files.content(files[0].id, { vector_store_id: store.id }));
  equal(parsed.map((piece) => piece.text), ["Ferns grow in shade."]);
  await client.vectorStores.delete(store.id);
  for (const file of files) await client.files.delete(file.id);
});

test("files and file search", async (stream) => {
  const word = `word${Math.random().toString(36).slice(2)}`;
  const content = `The secret word is ${word}.`;
  const file = await client.files.create({ file: await toFile(Buffer.from(content), "notes.txt"), purpose: "assistants" });
  equal(await (await client.files.content(file.id)).text(), content);
  const store = await client.vectorStores.create({ name: "notes" });
  const added = await client.vectorStores.files.createAndPoll(store.id, { file_id: file.id });
  equal(added.status, "completed");
  const found = await all(await client.vectorStores.search(store.id, { query: "secret word" }));
  assert(found[0].content[0].text.includes(word), found);
  const tools = [{ type: "file_search", vector_store_ids: [store.id] }];
  const include = ["file_search_call.results"];
  const [response] = await stream({ model: MODEL, input: script(SCENARIOS.file_search), tools, include });
  equal(response.output.map((item) => item.type), ["file_search_call", "message"]);
  equal([response.output[0].status, response.output[0].queries], ["completed", ["secret word"]]);
  assert(response.output[0].results[0].text.includes(word), response.output[0]);
  assert(textOf(response).includes(word), textOf(response));
  same(response, await client.responses.retrieve(response.id, { include }));
  await client.vectorStores.delete(store.id);
  await client.files.delete(file.id);
  await isGone(() => client.files.retrieve(file.id));
}, BOTH);

test("webhooks are accepted", async () => {
  const { TURNWIRE_HOOK_NODE: port, TURNWIRE_HOOK_SECRET: secret } = process.env;
  if (!port) return;
  const arrived = [];
  const server = createServer(async (request, answer) => {
    let body = "";
    for await (const piece of request) body += piece;
    arrived.push([body, request.headers]);
    answer.writeHead(204).end();
  });
  await new Promise((done) => server.listen(Number(port), "127.0.0.1", done));
  const response = await client.responses.create({ model: MODEL, input: "Good day", background: true });
  const [body, headers] = await waitUntil(
    () => arrived.find(([text]) => text.includes(response.id)),
    (found) => found !== undefined,
  );
  server.close();
  const event = await client.webhooks.unwrap(body, headers, secret);
  equal([event.type, event.object, event.data.id], ["response.completed", "event", response.id]);
  equal(event.id, headers["webhook-id"]);
  const changed = client.webhooks.unwrap(body.replace("completed", "cancelled"), headers, secret);
  const refusal = await changed.then(() => "accepted", (error) => error.constructor.name);
  equal(refusal, "InvalidWebhookSignatureError");
});

await main(`${process.env.SUITE ?? "node"} openai`);
