// The client against real gateways, straight and through a proxy that cuts connections.
//
// TURNWIRE_URL          a gateway whose model plays the script in the message, with the tools of
//                       the MCP server `mcp-props`; `add` needs an approval
// TURNWIRE_LOCKED_URL   a gateway with the demo, which wants TURNWIRE_LOCKED_KEY
// TURNWIRE_BIN          the program, for a gateway that is killed

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  AuthenticationError,
  ConflictError,
  ConnectionLostError,
  NotFoundError,
  RunFailedError,
  Turnwire,
} from "../dist/index.js";
import { all, cuttingProxy, until } from "./fake_server.mjs";

const { TURNWIRE_URL, TURNWIRE_LOCKED_URL, TURNWIRE_LOCKED_KEY } = process.env;
assert.ok(
  TURNWIRE_URL && TURNWIRE_LOCKED_URL && TURNWIRE_LOCKED_KEY,
  "`scripts/client-libraries all` starts the gateways",
);

const turnwire = new Turnwire({ baseUrl: TURNWIRE_URL });
const demo = new Turnwire({ baseUrl: TURNWIRE_LOCKED_URL, apiKey: TURNWIRE_LOCKED_KEY });
const hasty = (baseUrl) => new Turnwire({ baseUrl, firstDelayMs: 1, maxDelayMs: 5 });
const script = (...turns) => JSON.stringify({ turns });
const call = (name, args = {}) => ({ name, arguments: args });

const TOOLS = script(
  { text: "Let me see. ", calls: [call("echo", { text: "naïve 🦀" }), call("fail", { message: "no luck" })] },
  { text: ["That is ", "all."] },
);

/** The ID of the run of a chat, once its first event is there. */
function runIdOf(options) {
  return new Promise((resolve) => (options.onEvent = ({ run_id }) => resolve(run_id)));
}

test("S0-1 S0-2 a chat with tools calls back in order", async () => {
  const calls = [];
  const result = await demo.streamChat({
    message: "multiply 5 and 4",
    onToken: (token) => calls.push(token),
    onToolStart: (name) => calls.push(["start", name]),
    onToolEnd: (name, summary) => calls.push(["end", name, summary]),
  });
  const text = calls.filter((one) => typeof one === "string").join("");
  assert.equal(text, "I will multiply 5 and 4. 5 times 4 is 20.");
  const tools = calls.filter((one) => typeof one !== "string");
  assert.deepEqual(tools, [
    ["start", "multiply"],
    ["end", "multiply", "20"],
  ]);
  assert.equal(calls.slice(0, calls.indexOf(tools[0])).join(""), "I will multiply 5 and 4. ");
  assert.deepEqual([result.text, result.outcome], ["5 times 4 is 20.", { status: "completed" }]);
  assert.match(result.runId, /^run_/);
  assert.ok(result.usage.output_tokens > 0);
});

test("S0-3 without tool callbacks tools are bracketed text", async () => {
  let text = "";
  await demo.streamChat({ message: "multiply 5 and 4", onToken: (token) => (text += token) });
  assert.equal(text, "I will multiply 5 and 4. \n[Executing tool: multiply]\n[Tool result: 20]\n\n5 times 4 is 20.");
});

test("S4-7 S4-8 S4-10 a block goes through its stages, and the list is right at the end", async () => {
  const updates = [];
  let list = [];
  await demo.streamChat({
    message: "multiply 5 and 4",
    onToolBlockUpdated: (update) => updates.push(update),
    onMessagesChange: (messages) => (list = messages),
  });
  const stages = updates.map(({ stage }) => stage);
  assert.deepEqual([stages[0], stages.at(-1)], ["start", "end"]);
  assert.deepEqual(
    stages.filter((stage) => stage === "start" || stage === "end"),
    ["start", "end"],
  );
  assert.equal(updates.map(({ parametersChunk = "" }) => parametersChunk).join(""), updates.at(-1).parameters);
  assert.deepEqual(JSON.parse(updates.at(-1).parameters), { a: 5, b: 4 });
  assert.deepEqual(
    [updates.at(-1).success, updates.at(-1).result, updates.at(-1).compactParams],
    [true, "20", "5 × 4"],
  );
  assert.deepEqual(
    list.map(({ role, state }) => [role, state]),
    [
      ["user", "complete"],
      ["assistant", "complete"],
      ["assistant", "complete"],
    ],
  );
});

test("S0-12 a failing tool ends too, and the run goes on", async () => {
  const ends = [];
  const { text } = await turnwire.streamChat({ message: TOOLS, onToolEnd: (...end) => ends.push(end) });
  assert.deepEqual(ends.sort(), [
    ["echo", "naïve 🦀"],
    ["fail", "Error: no luck"],
  ]);
  assert.equal(text, "That is all.");
});

test("a conversation is continued by its session", async () => {
  const first = await demo.streamChat({ message: "multiply 5 and 4" });
  const second = await demo.streamChat({ message: "multiply 2 and 3", sessionId: first.sessionId });
  assert.equal(second.sessionId, first.sessionId);
  assert.notEqual(second.runId, first.runId);
});

test("a message picks its model and tools, and carries files", async () => {
  const requests = [];
  const onEvent = ({ event }) => event.type === "run_queued" && requests.push(event.request);
  await demo.streamChat({ message: "multiply 5 and 4", onEvent });
  const tools = [{ type: "mcp", server_label: "demo" }];
  const attachments = [{ type: "input_file", filename: "a.txt", file_data: "aGk=" }];
  const { text } = await demo.streamChat({ message: "multiply 5 and 4", model: requests[0].model, tools, attachments, onEvent });
  assert.equal(text, "5 times 4 is 20.");
  assert.deepEqual(requests[1].servers.map(({ label }) => label), ["demo"]);
  assert.deepEqual(requests[1].input[0].content.map(({ type }) => type), ["text", "file"]);
  await assert.rejects(turnwire.streamChat({ message: "x", model: "nobody" }), (error) => error.code === "model_not_found");
});

test("the journal of a finished run can be read from any event", async () => {
  const { runId } = await turnwire.streamChat({ message: TOOLS });
  const whole = await all(turnwire.followRun(runId));
  assert.deepEqual(
    whole.map(({ seq }) => seq),
    whole.map((_, index) => index + 1),
  );
  assert.equal(whole.at(-1).event.type, "run_finished");
  for (const after of whole.keys()) {
    assert.deepEqual(await all(turnwire.followRun(runId, { after })), whole.slice(after));
  }
  assert.deepEqual(await all(turnwire.followRun(runId, { after: whole.length })), []);
});

test("a run is followed while it runs, by several readers", async () => {
  const options = { message: script({ calls: [call("slow", { seconds: 0.5, steps: 5 })] }, { text: "Done." }) };
  const known = runIdOf(options);
  const chat = turnwire.streamChat(options);
  const runId = await known;
  const readers = await Promise.all([all(turnwire.followRun(runId)), all(turnwire.followRun(runId, { after: 2 }))]);
  assert.deepEqual(readers[1], readers[0].slice(2));
  assert.ok(readers[0].some(({ event }) => event.type === "tool_progressed"));
  assert.equal((await chat).text, "Done.");
});

/** What a frame has beside its JSON, at least: `id: 1`, `data: ` and three line breaks. */
const FRAME_BYTES = 14;

/** A finished run with its events, and their size on the wire. */
async function finishedRun() {
  const { runId } = await turnwire.streamChat({ message: TOOLS });
  const whole = await all(turnwire.followRun(runId));
  const sizes = whole.map((recorded) => Buffer.byteLength(JSON.stringify(recorded)) + FRAME_BYTES);
  return { runId, whole, largest: Math.max(...sizes), size: sizes.reduce((sum, size) => sum + size) };
}

test("C11 a stream that is cut anywhere is whole after the resume", async (t) => {
  const { runId, whole, size } = await finishedRun();
  const steps = 250;
  for (let step = 0; step < steps; step += 1) {
    const most = Math.floor((size * step) / steps);
    const proxy = await cuttingProxy(t, TURNWIRE_URL, (n) => (n === 1 ? most : Infinity));
    assert.deepEqual(await all(hasty(proxy.url).followRun(runId)), whole, `cut after ${most} bytes`);
    assert.equal(proxy.connections(), 2);
  }
});

test("C11 a proxy that cuts every connection after so many bytes loses and doubles nothing", async (t) => {
  const { runId, whole, largest, size } = await finishedRun();
  const steps = 20;
  for (let step = 0; step < steps; step += 1) {
    const most = largest + 100 + Math.floor(((size - largest - 200) * step) / steps);
    const proxy = await cuttingProxy(t, TURNWIRE_URL, () => most);
    assert.deepEqual(await all(hasty(proxy.url).followRun(runId)), whole, `every ${most} bytes`);
    assert.ok(proxy.connections() > 1);
  }
});

test("C11 a live chat survives a proxy that cuts all of its connections", async (t) => {
  const { largest } = await finishedRun();
  const text = Array.from({ length: 300 }, (_, index) => `${index} `);
  const proxy = await cuttingProxy(t, TURNWIRE_URL, () => largest + 500);
  let tokens = "";
  const seqs = [];
  const result = await hasty(proxy.url).streamChat({
    message: script({ text, pace_ms: 1, calls: [call("echo", { text: "x" })] }, { text: ["E", "nd."] }),
    onToken: (token) => (tokens += token),
    onToolStart: (name) => (tokens += `<${name}>`),
    onToolEnd: (_, summary) => (tokens += `<${summary}>`),
    onEvent: ({ seq }) => seqs.push(seq),
  });
  assert.equal(tokens, `${text.join("")}<echo><x>End.`);
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index + 1),
  );
  assert.ok(proxy.connections() > 5, `${proxy.connections()} connections`);
  assert.equal(result.text, "End.");
});

/** Starts a gateway of its own with the demo; the run is kept in a file in `folder`. */
async function startDemo(t, folder, listen) {
  const env = {
    ...process.env,
    TURNWIRE_DEMO_PACE_MS: "10",
    TURNWIRE_DEMO_TOOL_MS: "1500",
    TURNWIRE_STORE_URL: "sqlite://turnwire.db",
  };
  const gateway = spawn(process.env.TURNWIRE_BIN, ["serve", "--demo", "--json", "--listen", listen], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  t.after(() => gateway.kill("SIGKILL"));
  const [line] = await once(gateway.stdout, "data");
  return { gateway, listening: JSON.parse(line).listening };
}

test("C2 C11 a gateway that is killed and started again costs a client time, and no event", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "turnwire-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { gateway, listening } = await startDemo(t, folder, "127.0.0.1:0");
  const seqs = [];
  const tools = [];
  let tokens = "";
  const result = await new Turnwire({ baseUrl: `http://${listening}`, maxDelayMs: 200, attempts: 100 }).streamChat({
    message: "multiply 5 and 4",
    onToken: (token) => (tokens += token),
    onToolStart: (name) => {
      tools.push(name);
      gateway.kill("SIGKILL");
      gateway.once("exit", () => void startDemo(t, folder, listening));
    },
    onToolEnd: (name, summary) => tools.push(`${name}: ${summary}`),
    onEvent: ({ seq, event }) => {
      seqs.push(seq);
      if (event.type === "run_taken_over") tools.push("taken over");
    },
  });
  assert.deepEqual(tools, ["multiply", "taken over", "multiply: 20"]);
  assert.equal(tokens, "I will multiply 5 and 4. 5 times 4 is 20.");
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index + 1),
  );
  assert.equal(result.text, "5 times 4 is 20.");
});

test("C9 a start whose answer is lost makes one run", async (t) => {
  const proxy = await cuttingProxy(t, TURNWIRE_URL, (n) => (n <= 3 ? 0 : Infinity));
  const marker = `once ${Math.random()}`;
  const { runId } = await hasty(proxy.url).streamChat({ message: script({ text: marker }) });
  const { data } = await (await fetch(`${TURNWIRE_URL}/v1/runs?limit=20`)).json();
  const texts = await Promise.all(data.map(async ({ run_id }) => [run_id, (await turnwire.getRun(run_id)).text]));
  assert.deepEqual(
    texts.filter(([, text]) => text === marker),
    [[runId, marker]],
  );
});

test("a frame that never fits through the proxy is given up, with the way to go on", async (t) => {
  const { runId } = await turnwire.streamChat({ message: TOOLS });
  const proxy = await cuttingProxy(t, TURNWIRE_URL, () => 300);
  await assert.rejects(
    all(hasty(proxy.url).followRun(runId)),
    (error) => error instanceof ConnectionLostError && error.lastSeq === 0,
  );
});

test("an event of 10 MB arrives", async () => {
  const { runId } = await turnwire.streamChat({
    message: script({ calls: [call("big", { bytes: 10_000_000 })] }, { text: "Done." }),
  });
  const finished = (await all(turnwire.followRun(runId))).find(({ event }) => event.type === "tool_finished");
  assert.equal(finished.event.outcome.output.text.length, 10_000_000);
});

test("C10 an abort closes the connection, and the run goes on", async (t) => {
  const proxy = await cuttingProxy(t, TURNWIRE_URL, () => Infinity);
  const controller = new AbortController();
  const options = {
    message: script({ calls: [call("slow", { seconds: 1, steps: 2 })] }, { text: "Done." }),
    signal: controller.signal,
  };
  const known = runIdOf(options);
  const chat = hasty(proxy.url).streamChat(options);
  const runId = await known;
  controller.abort();
  await assert.rejects(chat, { name: "AbortError" });
  await until("the end of the connection", () => proxy.open() === 0);
  const events = await all(turnwire.followRun(runId));
  assert.deepEqual(events.at(-1).event.outcome, { status: "completed" });
});

test("C14 a run is cancelled, once", async () => {
  const options = { message: script({ text: "Wait. ", calls: [call("hang")] }) };
  const known = runIdOf(options);
  const chat = turnwire.streamChat(options);
  const runId = await known;
  await until("the start of the tool", async () => (await turnwire.getRun(runId)).calls[0]?.state === "running");
  assert.deepEqual(await turnwire.cancel(runId), { run_id: runId, done: true });
  const { outcome } = await chat;
  assert.deepEqual(outcome, { status: "cancelled" });
  assert.equal((await turnwire.cancel(runId)).done, false);
});

test("one call is cancelled, and the run goes on", async () => {
  const ends = [];
  const chat = turnwire.streamChat({
    message: script(
      { text: "Wait. ", calls: [call("wait_for_cancel"), call("echo", { text: "hi" })] },
      { text: "Done." },
    ),
    onToolEnd: (name, summary) => ends.push([name, summary]),
    onEvent: ({ run_id, event }) => {
      if (event.type === "tool_started" && event.attempt === 1) started.set(event.call_id, run_id);
      if (event.type === "call_announced" && event.tool.name === "wait_for_cancel") hanging = event.call_id;
    },
  });
  const started = new Map();
  let hanging;
  await until("the start of the tool", () => started.has(hanging));
  assert.equal((await turnwire.cancelCall(started.get(hanging), hanging)).done, true);
  assert.equal((await chat).text, "Done.");
  assert.deepEqual(ends.sort(), [
    ["echo", "hi"],
    ["wait_for_cancel", "Error: cancelled"],
  ]);
});

/** Runs a chat whose tool `add` needs an approval, and answers it. */
async function askFor(approval) {
  const answers = [];
  const ends = [];
  const chat = await turnwire.streamChat({
    message: script({ text: "Well. ", calls: [call("add", { a: 5, b: 4 })] }, { text: "Done." }),
    approvals: true,
    onToolEnd: (...end) => ends.push(end),
    onEvent: ({ run_id, event }) => {
      if (event.type === "approval_requested") answers.push(turnwire.approve(run_id, event.call_id, approval));
    },
  });
  assert.deepEqual(
    (await Promise.all(answers)).map(({ done }) => done),
    [true],
  );
  return { ends, ...chat };
}

test("C15 a call that needs an approval waits for it", async () => {
  assert.deepEqual((await askFor({ decision: "approve" })).ends, [["add", "9"]]);
  assert.deepEqual((await askFor({ decision: "approve", arguments: { a: 1, b: 2 } })).ends, [["add", "3"]]);
  const denied = await askFor({ decision: "deny", reason: "not today" });
  assert.deepEqual(denied.ends, [["add", "Error: denied by the user: not today"]]);
  const { calls } = await turnwire.getRun(denied.runId);
  await assert.rejects(
    turnwire.approve(denied.runId, calls[0].call_id, { decision: "approve" }),
    (error) => error instanceof ConflictError && error.code === "already_answered",
  );
});

test("without `approvals` such a call is denied", async () => {
  const ends = [];
  await turnwire.streamChat({
    message: script({ calls: [call("add", { a: 5, b: 4 })] }, { text: "Done." }),
    onToolEnd: (...end) => ends.push(end),
  });
  assert.equal(ends[0][0], "add");
  assert.match(ends[0][1], /^Error: denied/);
});

test("a tool that asks gets the reply", async () => {
  const ends = [];
  const replies = [];
  await turnwire.streamChat({
    message: script({ calls: [call("task_that_asks")] }, { text: "Done." }),
    inputs: true,
    onToolEnd: (...end) => ends.push(end),
    onEvent: ({ run_id, event }) => {
      if (event.type === "input_requested")
        replies.push(
          turnwire.reply(run_id, event.call_id, {
            action: "accept",
            content: { name: "Ada" },
            inputId: event.input_id,
          }),
        );
    },
  });
  assert.equal((await Promise.all(replies))[0].done, true);
  assert.match(ends[0][1], /Ada/);
});

test("a run that fails is an error with its code", async () => {
  await assert.rejects(turnwire.streamChat({ message: script({ error: "rejected" }) }), (error) => {
    assert.ok(error instanceof RunFailedError, error);
    assert.equal(error.failure.code, "model_rejected");
    assert.match(error.runId, /^run_/);
    return true;
  });
});

test("A2 without the right key everything is refused", async () => {
  for (const apiKey of [undefined, "wrong"]) {
    const stranger = new Turnwire({ baseUrl: TURNWIRE_LOCKED_URL, ...(apiKey ? { apiKey } : {}) });
    for (const attempt of [
      () => stranger.streamChat({ message: "x" }),
      () => all(stranger.followRun("run_x")),
      () => stranger.cancel("run_x"),
    ]) {
      await assert.rejects(attempt, (error) => error instanceof AuthenticationError && error.status === 401);
    }
  }
});

test("what does not exist is not found", async () => {
  for (const attempt of [
    () => all(turnwire.followRun("run_none")),
    () => turnwire.getRun("run_none"),
    () => turnwire.cancel("run_none"),
    () => turnwire.cancelCall("run_none", "call_none"),
    () => turnwire.streamChat({ message: "x", sessionId: "conv_none" }),
  ]) {
    await assert.rejects(attempt, (error) => error instanceof NotFoundError && error.code === "not_found");
  }
});

test("a cursor that the run has not reached is refused", async () => {
  const { runId } = await turnwire.streamChat({ message: script({ text: "Hi" }) });
  await assert.rejects(
    all(turnwire.followRun(runId, { after: 9999 })),
    (error) => error.status === 400 && error.code === "invalid_cursor",
  );
});
