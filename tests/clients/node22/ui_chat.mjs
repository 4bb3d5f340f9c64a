// `useChat` of the AI SDK 5, 6 and 7 against the gateway: the class behind the hook, with a state of
// its own instead of React's.

import * as ai7 from "ai";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";

import { assert, BASE_URL, equal, main, native, SCENARIOS, script, test, waitUntil } from "./harness.mjs";

const API = `${BASE_URL}/ai-sdk/chat`;
const SDKS = [
  { name: "ai 5", sdk: 5, ai: ai5 },
  { name: "ai 6", sdk: 6, ai: ai6 },
  { name: "ai 7", sdk: 7, ai: ai7 },
];
const WITH_APPROVALS = SDKS.filter(({ sdk }) => sdk > 5);

/** What a hook keeps in React. */
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (place, message) => { this.messages = this.messages.with(place, structuredClone(message)); };
  snapshot = (thing) => structuredClone(thing);
}

/** A chat, as a page has it. */
function chatOf({ ai, sdk }, { body, ...options } = {}) {
  class Chat extends ai.AbstractChat {}
  const state = new State();
  const transport = new ai.DefaultChatTransport({
    api: `${API}?sdk=${sdk}`,
    body,
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${API}/${encodeURIComponent(id)}/stream?sdk=${sdk}` }),
  });
  const id = crypto.randomUUID();
  return new Chat({ id, transport, state, ...options });
}

const said = (chat) => chat.messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text).join("");
const toolsOf = (chat) => chat.messages.at(-1).parts.filter((part) => part.type === "dynamic-tool");
const add = (a, b) => ({ name: "add", arguments: { a, b } });

async function ask(chat, text) {
  await chat.sendMessage({ text });
  assert(!chat.error, chat.error);
  equal(chat.status, "ready", "status");
}

test("text, and a second message that knows of the first", async (sdk) => {
  const chat = chatOf(sdk);
  await ask(chat, "Good day");
  equal(said(chat), "You said: Good day");
  await ask(chat, "Good night");
  equal(said(chat), "You said: Good night");
  equal(chat.messages.map((message) => message.role), ["user", "assistant", "user", "assistant"]);
  const { conversation_id } = chat.messages.at(-1).metadata;
  equal(chat.messages[1].metadata.conversation_id, conversation_id, "one conversation");
  const { data } = await (await fetch(`${BASE_URL}/v1/conversations/${conversation_id}/items`)).json();
  equal(data.length, 4, "items");
}, SDKS);

test("a tool, and one that fails", async (sdk) => {
  const called = [];
  const chat = chatOf(sdk, { onToolCall: ({ toolCall }) => called.push(toolCall) });
  const fail = { name: "fail", arguments: { message: "disk is full" } };
  await ask(chat, script([{ calls: [add(4, 5), fail] }, { text: "Well." }]));
  const [sum, failed] = toolsOf(chat);
  equal([sum.state, sum.input, sum.output], ["output-available", { a: 4, b: 5 }, "9"]);
  equal([failed.state, failed.errorText.startsWith("failed: ")], ["output-error", true]);
  equal(said(chat), "Well.");
  equal(called, [], "the page has nothing to do");
}, SDKS);

test("three tools at once, with progress", async (sdk) => {
  const chat = chatOf(sdk);
  const slow = { name: "slow", arguments: { seconds: 0.2, steps: 2 } };
  await ask(chat, script([{ calls: [add(1, 1), slow, add(2, 2)] }, { text: "Done." }]));
  equal(toolsOf(chat).map((part) => part.state), Array(3).fill("output-available"));
  const progress = chat.messages.at(-1).parts.filter((part) => part.type === "data-tool-progress");
  equal(progress.map((part) => part.data.call_id), [toolsOf(chat)[1].toolCallId]);
}, SDKS);

test("a stream that is resumed is the same message", async (sdk) => {
  const first = chatOf(sdk);
  const whole = ask(first, script(SCENARIOS.slow_text));
  await waitUntil(() => first.messages.length, (n) => n === 2);
  const second = chatOf(sdk, { id: first.id });
  await second.resumeStream();
  await whole;
  equal(said(second), "one two three four five six seven eight nine ten.");
  equal(second.messages.at(-1).id, first.messages.at(-1).id);
  await second.resumeStream();
  equal(second.messages.length, 1, "nothing is in progress any more");
}, SDKS);

test("stop stops the run", async (sdk) => {
  const chat = chatOf(sdk);
  const stopped = chat.sendMessage({ text: script(SCENARIOS.endless_text) });
  await waitUntil(() => chat.messages.length === 2 && said(chat), (text) => text);
  const response = await fetch(`${API}/${chat.id}/stop`, { method: "POST" });
  equal((await response.json()).done, true);
  await stopped;
  equal(chat.status, "ready");
  equal((await fetch(`${API}/${chat.id}/stream`)).status, 204);
}, SDKS);

test("an answer that is generated again replaces the old one", async (sdk) => {
  const chat = chatOf(sdk);
  await ask(chat, "Good day");
  const old = chat.messages.at(-1).id;
  await chat.regenerate();
  assert(chat.messages.at(-1).id !== old, "it is another one");
  const { conversation_id } = chat.messages.at(-1).metadata;
  const { data } = await (await fetch(`${BASE_URL}/v1/conversations/${conversation_id}/items`)).json();
  equal(data.length, 2, "items");
}, SDKS);

test("a function of the page, whose output continues the answer", async (sdk) => {
  const tools = { where: { description: "Where the user is.", inputSchema: { type: "object", properties: {} } } };
  // Not awaited: the chat must be done with the call first.
  const onToolCall = ({ toolCall: { toolName: tool, toolCallId } }) => {
    const add = (chat.addToolOutput ?? chat.addToolResult).bind(chat);
    void add({ tool, toolCallId, output: { city: "Ulm" } });
  };
  const sendAutomaticallyWhen = sdk.ai.lastAssistantMessageIsCompleteWithToolCalls;
  const chat = chatOf(sdk, { body: { tools }, onToolCall, sendAutomaticallyWhen });
  await chat.sendMessage({ text: script([{ calls: [{ name: "where", arguments: {} }] }, { text: "You are in {results}." }]) });
  await waitUntil(() => chat.status === "ready" && said(chat), (text) => text === 'You are in {"city":"Ulm"}.');
  equal(toolsOf(chat).map((part) => part.state), ["output-available"]);
}, SDKS);

test("a cut length", async (sdk) => {
  const chat = chatOf(sdk);
  await ask(chat, script([{ text: "Half", finish: "length" }]));
  equal([said(chat), chat.messages.at(-1).metadata.outcome.status], ["Half", "incomplete"]);
}, SDKS);

test("a failed run is an error", async (sdk) => {
  const chat = chatOf(sdk);
  await chat.sendMessage({ text: script([{ error: "rejected" }]) });
  equal(chat.status, "error");
  assert(chat.error.message, chat.error);
}, SDKS);

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "granted" : "denied"} on a route of ours`, async (sdk) => {
    const chat = chatOf(sdk);
    const asked = ask(chat, script([{ calls: [{ name: "structured", arguments: {} }] }, { text: "So be it." }]));
    const find = () => chat.messages.at(-1)?.parts.find((part) => part.type === "data-approval")?.data;
    const { run_id, call_id } = await waitUntil(find, (question) => question);
    await native(`/${run_id}/calls/${call_id}/approve`, { decision: approved ? "approve" : "deny" });
    await asked;
    equal(said(chat), "So be it.");
    equal(toolsOf(chat).map((part) => part.state), [approved ? "output-available" : "output-error"]);
  }, SDKS.filter(({ sdk }) => sdk === 5));

  test(`an approval that is ${approved ? "granted" : "denied"}`, async (sdk) => {
    const chat = chatOf(sdk, { sendAutomaticallyWhen: sdk.ai.lastAssistantMessageIsCompleteWithApprovalResponses });
    await ask(chat, script([{ calls: [{ name: "structured", arguments: {} }] }, { text: "So be it." }]));
    const [asked] = toolsOf(chat);
    equal(asked.state, "approval-requested");
    const id = chat.messages.at(-1).id;
    await chat.addToolApprovalResponse({ id: asked.approval.id, approved, reason: "mine" });
    await waitUntil(() => chat.status === "ready" && said(chat), (text) => text === "So be it.");
    equal(toolsOf(chat).map((part) => part.state), [approved ? "output-available" : "output-denied"]);
    equal([chat.messages.length, chat.messages.at(-1).id], [2, id], "one message");
    assert(!chat.error, chat.error);
  }, WITH_APPROVALS);

  test(`an approval that is ${approved ? "granted" : "denied"} after a reload`, async (sdk) => {
    const before = chatOf(sdk);
    await ask(before, script([{ calls: [{ name: "structured", arguments: {} }] }, { text: "So be it." }]));
    const sendAutomaticallyWhen = sdk.ai.lastAssistantMessageIsCompleteWithApprovalResponses;
    const chat = chatOf(sdk, { id: before.id, sendAutomaticallyWhen });
    await chat.resumeStream();
    const [asked] = toolsOf(chat);
    await chat.addToolApprovalResponse({ id: asked.approval.id, approved });
    await waitUntil(() => chat.status === "ready" && said(chat), (text) => text === "So be it.");
    equal(toolsOf(chat).map((part) => part.state), [approved ? "output-available" : "output-denied"]);
  }, WITH_APPROVALS);
}

await main("node22 ui-chat");
