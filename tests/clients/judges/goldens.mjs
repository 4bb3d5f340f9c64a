// Every recorded run as a client of `/v1/responses` sees it: the stream in both profiles, and the
// response at its end.

import { RECORDED } from "./runs.mjs";

const PROFILES = { strict: "responses.jsonl", extended: "responses_extended.jsonl" };

/** A run in a profile: `{ name, profile, lines, events, response }`. */
export function goldenOf(run, profile) {
  const lines = run.read(PROFILES[profile]).trim().split("\n");
  const events = lines.map((line) => JSON.parse(line));
  return { name: run.name, profile, lines, events, response: events.at(-1).response };
}

/** All that were recorded. */
export const GOLDENS = RECORDED.flatMap((run) => Object.keys(PROFILES).map((profile) => goldenOf(run, profile)));

/** Answers every request with the stream, as the gateway writes it. */
export function streaming({ lines, events }) {
  const frames = lines.map((line, place) => `event: ${events[place].type}\ndata: ${line}\n\n`);
  return answering([...frames, "data: [DONE]\n\n"].join(""), "text/event-stream");
}

/** Answers every request with the response at the end. */
export function whole({ response }) {
  return answering(JSON.stringify(response), "application/json");
}

function answering(body, type) {
  return async () => new Response(body, { headers: { "content-type": type } });
}

/** Those that have a given kind of item in their output. */
export function has(golden, type) {
  return golden.response.output.some((item) => item.type === type);
}
