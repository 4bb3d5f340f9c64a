// Following a run on a server that misbehaves in every way.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ApiError,
  AuthenticationError,
  ConnectionLostError,
  NotFoundError,
  Turnwire,
  UnavailableError,
} from "../dist/index.js";
import { all, fakeServer, frame, lastFrame, streamOf, until } from "./fake_server.mjs";

const FAST = { firstDelayMs: 1, maxDelayMs: 5, attempts: 4 };
const client = (baseUrl, options = {}) => new Turnwire({ baseUrl, ...FAST, ...options });
const seqs = (events) => events.map(({ seq }) => seq);

test("a stream that ends early is continued after the last event", async (t) => {
  const cursors = [];
  const { url } = await fakeServer(t, (request, response, n) => {
    cursors.push(request.headers["last-event-id"]);
    streamOf(response, n === 1 ? [frame(1), frame(2), "retry: 1\n"] : [frame(3), lastFrame(4)]);
  });
  assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2, 3, 4]);
  assert.deepEqual(cursors, [undefined, "2"]);
});

test("events that come again are dropped", async (t) => {
  const { url } = await fakeServer(t, (_, response, n) => {
    streamOf(response, n === 1 ? [frame(1), frame(2)] : [frame(1), frame(2), frame(2), frame(3), lastFrame(4)]);
  });
  assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2, 3, 4]);
});

test("a gap is a broken connection: the missing event is asked for", async (t) => {
  const { url } = await fakeServer(t, (_, response, n) => {
    streamOf(response, n === 1 ? [frame(1), frame(3)] : [frame(2), frame(3), lastFrame(4)]);
  });
  assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2, 3, 4]);
});

test("half a frame is dropped and comes again", async (t) => {
  const { url } = await fakeServer(t, (_, response, n) => {
    streamOf(response, n === 1 ? [frame(1), frame(2).slice(0, 40)] : [frame(2), lastFrame(3)]);
  });
  assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2, 3]);
});

test("nothing is read after the end of the run, even if the server holds the stream open", async (t) => {
  const { url } = await fakeServer(t, (_, response) => streamOf(response, [frame(1), lastFrame(2)], { end: false }));
  assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2]);
});

test("204 means that nothing follows", async (t) => {
  const { url, requests } = await fakeServer(t, (_, response) => response.writeHead(204).end());
  assert.deepEqual(await all(client(url).followRun("run_1", { after: 7 })), []);
  assert.equal(requests(), 1);
});

test("a server that never comes back ends it, with what was seen", async (t) => {
  const { url, requests, server } = await fakeServer(t, (_, response) => {
    response.shouldKeepAlive = false;
    streamOf(response, [frame(1), frame(2)]);
    server.close();
  });
  await assert.rejects(all(client(url).followRun("run_1")), (error) => {
    assert.ok(error instanceof ConnectionLostError, error);
    assert.equal(error.attempts, 4);
    assert.equal(error.lastSeq, 2);
    assert.match(error.message, /Gave up after 4 failed attempts in a row and event 2/);
    return true;
  });
  assert.equal(requests(), 1);
});

test("a server that accepts and sends nothing new is given up as well", async (t) => {
  const { url, requests } = await fakeServer(t, (_, response) => streamOf(response, [frame(1), "retry: 1\n"]));
  await assert.rejects(all(client(url).followRun("run_1")), ConnectionLostError);
  assert.equal(requests(), 4);
});

test("a proxy that answers for the server is not taken for it", async (t) => {
  const { url } = await fakeServer(t, (_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
  );
  await assert.rejects(all(client(url).followRun("run_1")), /not an event stream/);
});

test("a silent connection is replaced", async (t) => {
  const { url, requests } = await fakeServer(t, (_, response, n) => {
    streamOf(response, n === 1 ? [frame(1)] : [frame(2), lastFrame(3)], { end: n > 1 });
  });
  assert.deepEqual(seqs(await all(client(url, { maxSilenceMs: 500 }).followRun("run_1"))), [1, 2, 3]);
  assert.equal(requests(), 2);
});

for (const [how, cut] of [
  ["ends", (response) => response.end()],
  ["resets", (response) => response.destroy()],
]) {
  test(`a quiet run outlives a proxy that ${how} idle connections`, async (t) => {
    const { now } = Date;
    const begin = now();
    // A hundred times as fast, so that 60 ms are 6 s.
    t.mock.method(Date, "now", () => begin + 100 * (now() - begin));
    const { url, requests } = await fakeServer(t, (_, response, n) => {
      streamOf(response, n === 1 ? [frame(1)] : n === 9 ? [lastFrame(2)] : [": ping\n"], { end: n === 9 });
      setTimeout(() => cut(response), 80);
    });
    assert.deepEqual(seqs(await all(client(url).followRun("run_1"))), [1, 2]);
    assert.equal(requests(), 9);
  });
}

test("a connection that is dead every time is given up", async (t) => {
  const { now } = Date;
  t.mock.method(Date, "now", () => 100 * now());
  const { url } = await fakeServer(t, (_, response) => streamOf(response, [frame(1)], { end: false }));
  const isGivenUp = (error) => error instanceof ConnectionLostError && error.attempts === 4 && error.lastSeq === 1;
  await assert.rejects(all(client(url, { maxSilenceMs: 300 }).followRun("run_1")), isGivenUp);
});

test("keep-alives keep a silent connection", async (t) => {
  const { url, requests } = await fakeServer(t, (_, response) => {
    streamOf(response, [frame(1)], { end: false });
    const beat = setInterval(() => response.write(": ping\n"), 50);
    setTimeout(() => {
      clearInterval(beat);
      response.end(lastFrame(2));
    }, 1200);
  });
  assert.deepEqual(seqs(await all(client(url, { maxSilenceMs: 500 }).followRun("run_1"))), [1, 2]);
  assert.equal(requests(), 1);
});

for (const [how, leave] of [
  [
    "leaving the loop",
    async (run) => {
      for await (const _ of run) break;
    },
  ],
  [
    "an abort",
    async (run, controller) => {
      await assert.rejects(
        async () => {
          for await (const _ of run) controller.abort();
        },
        { name: "AbortError" },
      );
    },
  ],
]) {
  test(`${how} closes the connection`, async (t) => {
    let open = 0;
    const { url } = await fakeServer(t, (_, response) => {
      open += 1;
      response.on("close", () => (open -= 1));
      streamOf(response, [frame(1)], { end: false });
    });
    const controller = new AbortController();
    await leave(client(url).followRun("run_1", { signal: controller.signal }), controller);
    await until("the end of the connection", () => open === 0);
  });
}

test("an abort ends the pause between two attempts", async () => {
  const controller = new AbortController();
  const run = new Turnwire({ baseUrl: "http://127.0.0.1:1", firstDelayMs: 60_000, maxDelayMs: 60_000 }).followRun(
    "run_1",
    controller,
  );
  setTimeout(() => controller.abort(), 50);
  await assert.rejects(all(run), { name: "AbortError" });
});

const refusal = (response, status, code, headers = {}) =>
  response
    .writeHead(status, { "content-type": "application/json", ...headers })
    .end(JSON.stringify({ error: { message: "No.", type: "t", code, param: null } }));

for (const [status, Class] of [
  [401, AuthenticationError],
  [404, NotFoundError],
  [400, ApiError],
]) {
  test(`${status} is a ${Class.name} at once`, async (t) => {
    const { url, requests } = await fakeServer(t, (_, response) => refusal(response, status, "some_code"));
    const isIt = (error) =>
      error instanceof Class && error.status === status && error.code === "some_code" && error.message === "No.";
    await assert.rejects(all(client(url).followRun("run_1")), isIt);
    await assert.rejects(client(url).cancel("run_1"), isIt);
    await assert.rejects(client(url).streamChat({ message: "x" }), isIt);
    assert.equal(requests(), 3);
  });
}

test("503 is tried again after Retry-After, and is an UnavailableError in the end", async (t) => {
  const { url, requests } = await fakeServer(t, (_, response) =>
    refusal(response, 503, "shutting_down", { "retry-after": "2" }),
  );
  await assert.rejects(
    client(url).getRun("run_1"),
    (error) => error instanceof UnavailableError && error.retryAfterMs === 2000,
  );
  assert.equal(requests(), 4);
  const begin = Date.now();
  await assert.rejects(client(url, { attempts: 2, maxDelayMs: 300 }).getRun("run_1"), UnavailableError);
  assert.ok(Date.now() - begin >= 290, "it waits as long as it may");
  await assert.rejects(
    all(client(url).followRun("run_1")),
    (error) => error instanceof ConnectionLostError && error.cause instanceof UnavailableError,
  );
});

test("a server that recovers is used again", async (t) => {
  const { url } = await fakeServer(t, (_, response, n) =>
    n < 3 ? refusal(response, 503, "x") : response.end('{"run_id":"run_1","done":true}'),
  );
  assert.deepEqual(await client(url).cancel("run_1"), { run_id: "run_1", done: true });
});

test("a chat is started once: the request is repeated with the same key and the same body", async (t) => {
  const sent = [];
  const { url } = await fakeServer(t, async (request, response, n) => {
    if (request.url !== "/chat/stream") return streamOf(response, [frame(1), lastFrame(2)]);
    const body = (await request.setEncoding("utf8").toArray()).join("");
    sent.push([request.headers["idempotency-key"], body]);
    return n === 1
      ? response.destroy()
      : n === 2
        ? streamOf(response, ["retry: 1\n"])
        : streamOf(response, ["id: run_1:7.0\ndata: {}\n\n"]);
  });
  assert.equal((await client(url).streamChat({ message: "x" })).runId, "run_1");
  assert.equal(sent.length, 3);
  assert.deepEqual(sent[1], sent[0]);
  assert.deepEqual(sent[2], sent[0]);
});

test("the ID of the run is taken from the header if there is one", async (t) => {
  const { url } = await fakeServer(t, (request, response) => {
    if (request.url !== "/chat/stream") return streamOf(response, [frame(1), lastFrame(2)]);
    response.writeHead(200, { "content-type": "text/event-stream", "turnwire-run-id": "run_1" });
    response.flushHeaders();
  });
  assert.equal((await client(url).streamChat({ message: "x" })).runId, "run_1");
});

test("S4-4 a callback that throws or rejects is reported and disturbs nothing", async (t) => {
  const { url } = await fakeServer(t, (request, response) =>
    streamOf(
      response,
      request.url === "/chat/stream"
        ? ["id: run_1:7.0\ndata: {}\n\n"]
        : [frame(1), frame(2, { type: "text_added", item_id: "m", text: "Hi" }), lastFrame(3)],
    ),
  );
  const reports = t.mock.method(console, "error", () => {});
  const tokens = [];
  const { outcome } = await client(url).streamChat({
    message: "x",
    onEvent: () => {
      throw new Error("callback");
    },
    onAssistantMessageAdded: async () => {
      throw new Error("async callback");
    },
    onToken: (token) => tokens.push(token),
  });
  assert.deepEqual([outcome.status, tokens], ["completed", ["Hi"]]);
  await until("the reports", () => reports.mock.callCount() === 4);
});
