// The client of the Durable Streams protocol reads a run: as it is stored, by long polls and by
// server-sent events, while it is in progress and afterwards.

import { stream } from "@durable-streams/client";

import { assert, BASE_URL, equal, main, MODEL, script, test } from "./harness.mjs";

async function startRun() {
  const input = script({ turns: [{ text: ["one ", "two ", "three."], pace_ms: 50 }] });
  const body = JSON.stringify({ model: MODEL, input, background: true });
  const headers = { "content-type": "application/json" };
  const { id } = await (await fetch(`${BASE_URL}/v1/responses`, { method: "POST", headers, body })).json();
  return `${BASE_URL}/v1/runs/${id.replace("resp_", "run_")}/stream`;
}

/** Everything from `offset` to the end of the stream. */
async function readFrom(url, offset, live) {
  const response = await stream({ url, offset, live });
  if (!live) return response.json();
  const events = [];
  await new Promise((resolve, reject) => {
    response.closed.catch(reject);
    response.subscribeJson(async ({ items, streamClosed }) => {
      events.push(...items);
      if (streamClosed) resolve();
    });
  });
  return events;
}

for (const live of ["long-poll", "sse"]) {
  test(`a run in progress is followed to its end: ${live}`, async () => {
    const url = await startRun();
    const events = await readFrom(url, "-1", live);
    equal(events.map(({ seq }) => seq), events.map((_, place) => place + 1), "no gaps, nothing twice");
    equal(events.at(-1).event.type, "run_finished");
    equal(await readFrom(url, "-1", false), events, "and so it is stored");
  });
}

test("a reader goes on from any offset", async () => {
  const url = await startRun();
  const events = await readFrom(url, "-1", "sse");
  for (const { seq } of events.slice(0, -1)) {
    const response = await fetch(`${url}?offset=${String(seq).padStart(20, "0")}`);
    equal(await response.json(), events.slice(seq));
    assert(response.headers.get("stream-closed") === "true", seq);
  }
});

await main(`${process.env.SUITE ?? "node22"} durable streams`);
