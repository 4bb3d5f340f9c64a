// The UI message streams of every recorded and every random run, judged by the AI SDK 5, 6 and 7: their schemas check
// each chunk, and their readers make a message of them, as `useChat` does. A client of version 7 may
// also read the streams for version 6.

import * as ai7 from "ai";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";

import { assert, equal, main } from "./harness.mjs";
import { testRuns } from "./runs.mjs";

const READERS = [
  { version: 5, dialect: 5, ai: ai5 },
  { version: 6, dialect: 6, ai: ai6 },
  { version: 7, dialect: 6, ai: ai7 },
  { version: 7, dialect: 7, ai: ai7 },
];
const DONE = "data: [DONE]\n\n";
// A call that has come to its end, or waits for somebody outside of the run.
const ENDS = ["output-available", "output-error", "output-denied"];

/** The streams of a run, one for each segment, as chunks. */
function streamsOf(run, reader) {
  const text = run.read(`ai_sdk_${reader.dialect}.txt`);
  assert(text.endsWith(DONE), "the stream has no end");
  const streams = text.split(DONE).slice(0, -1).map((stream) => stream + DONE);
  return Promise.all(streams.map((stream) => chunksOf(reader, stream)));
}

const eventsOf = (run) => run.read("events.jsonl").trim().split("\n").map((line) => JSON.parse(line).event);

/** The chunks of a stream, each of which the schema must accept. */
async function chunksOf({ ai }, stream) {
  const chunks = [];
  const parsed = ai.parseJsonEventStream({ stream: new Blob([stream]).stream(), schema: ai.uiMessageChunkSchema });
  for await (const chunk of parsed) {
    assert(chunk.success, chunk.error);
    chunks.push(chunk.value);
  }
  return chunks;
}

/** The message that a reader makes of chunks, going on with the one it has. */
async function messageOf({ ai }, chunks, before, errors) {
  let message = before;
  const stream = new ReadableStream({
    start(controller) {
      chunks.forEach((chunk) => controller.enqueue(chunk));
      controller.close();
    },
  });
  const onError = (error) => errors.push(error);
  for await (const next of ai.readUIMessageStream({ message, stream, onError })) message = next;
  return message;
}

const isTool = (part) => part.type === "dynamic-tool";

/** What the page shows at the end must be what happened. */
function check({ version, dialect }, message, events) {
  const superseded = message.parts.filter((part) => part.type === "data-superseded").map((part) => part.data.item_id);
  const finished = events.filter((event) => event.type === "message_finished");
  const said = finished.filter((event) => dialect !== 7 || event.completeness !== "superseded");
  const texts = message.parts.filter((part) => part.type === "text");
  equal(texts.length, said.length, "texts");
  assert(texts.every((part) => part.state === "done"), "a text is open", texts);
  assert(superseded.length === 0 || dialect !== 7, "nothing is left of what was withdrawn");
  const outcomes = new Map(
    events.filter((event) => event.type === "tool_finished").map((event) => [event.call_id, event.outcome.status]),
  );
  for (const part of message.parts.filter(isTool)) {
    const outcome = outcomes.get(part.toolCallId);
    if (!outcome) continue;
    assert(ENDS.includes(part.state), part);
    equal(part.state === "output-available", outcome === "succeeded", `${part.toolCallId} ${outcome}`);
    equal(part.preliminary ?? false, false, "preliminary");
    if (outcome === "outcome_unknown") assert(part.errorText.startsWith("unknown"), part.errorText);
    if (outcome === "denied" && version > 5) equal(part.state, "output-denied");
  }
  const announced = events.filter((event) => event.type === "call_announced").map((event) => event.call_id);
  const shown = message.parts.filter(isTool).map((part) => part.toolCallId);
  if (dialect !== 7) equal(shown, announced, "calls");
  equal(message.metadata.run_id, message.id, "the id of the message");
}

/** The chunks of all segments, as a client gets them that reads the message again as one. */
function asOne(streams) {
  const isInner = (chunk, place) =>
    (chunk.type === "start" && place > 0) || (chunk.type === "finish" && place < streams.length - 1);
  return streams.flatMap((chunks, place) => chunks.filter((chunk) => !isInner(chunk, place)));
}

for (const reader of READERS) {
  testRuns(`ai ${reader.version} in ${reader.dialect}:`, async (run) => {
    const events = eventsOf(run);
    const streams = await streamsOf(run, reader);
    const failure = events.at(-1).outcome.failure;
    const errors = [];
    let message;
    for (const chunks of streams) {
      equal(chunks.at(-1).type, "finish", "the last chunk");
      message = await messageOf(reader, chunks, message, errors);
    }
    equal(errors.map((error) => error.message), failure ? [failure.message] : [], "errors");
    check(reader, message, events);
    if (streams.length > 1) check(reader, await messageOf(reader, asOne(streams), undefined, []), events);
  });
}

await main("judges ui-messages");
