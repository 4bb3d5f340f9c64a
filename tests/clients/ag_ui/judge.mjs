// Every recorded run, read by the official clients: their schemas take each event, and their agents
// go through to the end without a complaint.

import { readdirSync, readFileSync } from "node:fs";

import { CLIENTS, said, warningsOf } from "./clients.mjs";
import { assert, equal, main, test } from "./harness.mjs";

// Recorded runs, and random ones if a folder has them.
const FOLDERS = [process.env.TURNWIRE_GOLDENS, process.env.TURNWIRE_AG_UI_RUNS].filter(Boolean);

function goldensOf(client) {
  const all = FOLDERS.flatMap((folder) => readdirSync(folder).sort().map((name) => ({ folder, name })));
  return all.map(({ folder, name }) => {
    const text = readFileSync(`${folder}/${name}/${client.golden}`, "utf8");
    const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data));
    return { name, text, events };
  });
}

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

for (const client of CLIENTS) {
  for (const { name, text, events } of goldensOf(client)) {
    test(`${client.name}: events of ${name}`, () => {
      for (const event of events) {
        const { success, error } = client.schema.safeParse(event);
        assert(success, event, error);
      }
    });

    for (const size of [7, 1 << 20]) {
      test(`${client.name}: agent through ${name}, in pieces of ${size} bytes`, async () => {
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
      });
    }
  }
}

await main(process.env.SUITE);
