// Clients that know almost nothing: one that knows two messages of the WebSocket, and one that
// reads nothing but lines beginning with `data: `.

import { assert, BASE_URL, equal, main, script, test } from "./harness.mjs";

const Socket = globalThis.WebSocket ?? (await import("ws")).WebSocket;

const TOOL_RUN = [
  { text: "Let me see. ", calls: [{ name: "add", arguments: { a: 5, b: 4 } }] },
  { text: ["The sum ", "is {results}."] },
];

// The whole client: what a message type is not known for, it does not look at.
function ask(content, conversation_id) {
  return new Promise((resolve, reject) => {
    const socket = new Socket(`${BASE_URL.replace(/^http/, "ws")}/ws/chat`);
    let text = "";
    socket.onopen = () => socket.send(JSON.stringify({ type: "message", conversation_id, content }));
    socket.onerror = (event) => reject(event.error ?? new Error("the socket failed"));
    socket.onclose = () => reject(new Error("the socket closed before the answer was complete"));
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "token") text += message.content;
      if (message.type === "complete") {
        socket.onclose = null;
        socket.close();
        resolve({ text, ...message });
      }
    };
  });
}

// S2-J, S2-19: a client that knows only `token` and `complete` gets the whole answer.
test("S2-19 only token and complete", async () => {
  const { text, message_id, conversation_id } = await ask(script(TOOL_RUN), await conversation());
  equal(text, "Let me see. The sum is 9.");
  assert(message_id && message_id !== "unknown", message_id);
  assert(conversation_id, conversation_id);
});

test("S2-J the conversation goes on", async () => {
  const id = await conversation();
  const first = await ask("The number is seven.", id);
  const second = await ask("And now?", first.conversation_id);
  equal(second.text, "You said: And now?");
  equal(second.conversation_id, first.conversation_id);
});

async function conversation() {
  const response = await fetch(`${BASE_URL}/v1/conversations`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  return (await response.json()).id;
}

// Only lines that begin with `data: `, each one JSON.
async function chatStream(body) {
  const response = await fetch(`${BASE_URL}/chat/stream`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  equal(response.status, 200);
  assert(response.headers.get("content-type").startsWith("text/event-stream"), response.headers);
  equal(response.headers.get("cache-control"), "no-cache");
  equal(response.headers.get("x-accel-buffering"), "no");
  const lines = (await response.text()).split("\n");
  return lines.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice("data: ".length)));
}

// S3-8: a reader of `data: ` lines understands it all.
test("S3-8 only data lines", async () => {
  const events = await chatStream({ message: script(TOOL_RUN) });
  equal(events.map((event) => event.type), ["tool_call", "tool_result", "response", "done"]);
  equal([events[0].tool, events[0].args], ["add", { a: 5, b: 4 }]);
  equal(events[1].tool, "add");
  assert(events[2].content.endsWith("The sum is 9."), events[2]);
  assert(events[3].session_id, events[3]);
});

test("S3-8 tokens on demand, and the session goes on in /chat", async () => {
  const events = await chatStream({ message: "Good day", tokens: true });
  const tokens = events.filter((event) => event.type === "token").map((event) => event.content ?? event.token);
  equal(tokens.join(""), "You said: Good day");
  const { session_id } = events.at(-1);
  const response = await fetch(`${BASE_URL}/chat`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message: "And again", session_id }),
  });
  equal(await response.json(), { response: "You said: And again", session_id });
});

test("S3-8 an error, then done", async () => {
  const events = await chatStream({ message: script([{ error: "rejected" }]) });
  equal(events.map((event) => event.type), ["error", "done"]);
  assert(events[0].error, events[0]);
});

await main(`${process.env.SUITE ?? "node"} plain`);
