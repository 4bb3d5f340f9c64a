// Every recorded and every random run, read by the official clients: their schemas take each event,
// and their agents go through to the end without a complaint.

import { CLIENTS, said, warningsOf } from "./clients.mjs";
import { assert, equal, main } from "./harness.mjs";
import { testRecorded, testRuns } from "./runs.mjs";

const eventsOf = (text) => [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data));

/** An answer that comes in pieces of any size. */
function answering(text, size) {
  const bytes = new TextEncoder().encode(text);
  return async () => {
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
}

function textOf(events) {
  const texts = new Map();
  for (const { type, messageId, delta } of events) {
    if (type === "TEXT_MESSAGE_CONTENT") texts.set(messageId, (texts.get(messageId) ?? "") + delta);
  }
  return [...texts.values()];
}

/** The agent goes through to the end without a complaint. */
async function read(client, run, size) {
  const text = run.read(client.golden);
  const events = eventsOf(text);
  const agent = new client.HttpAgent({ url: "http://localhost/ag-ui", threadId: "t" });
  agent.fetch = answering(text, size);
  agent.messages = [{ id: "u", role: "user", content: "?" }];
  const seen = [];
  let thrown;
  const warnings = await warningsOf(async () => {
    const subscriber = { onEvent: ({ event }) => void seen.push(event.type) };
    await agent.runAgent({}, subscriber).catch((error) => (thrown = error));
  });
  equal(thrown?.message, undefined, "thrown");
  equal(seen, events.map(({ type }) => type), "what the agent has seen");
  equal(warnings, [], "warnings");
  equal(said(agent.messages), textOf(events).filter(Boolean), "the texts");
}

for (const client of CLIENTS) {
  testRuns(`${client.name}: events of`, (run) => {
    for (const event of eventsOf(run.read(client.golden))) {
      const { success, error } = client.schema.safeParse(event);
      assert(success, event, error);
    }
  });

  testRuns(`${client.name}: agent through`, (run) => read(client, run, 1 << 20));
  testRecorded(`${client.name}: agent, in pieces of 7 bytes, through`, (run) => read(client, run, 7));
}

await main(`${process.env.SUITE} judge`);
