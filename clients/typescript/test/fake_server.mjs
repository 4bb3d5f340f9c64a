// A server that answers as a test says, and a proxy that cuts connections. Both listen on loopback.

import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";

/** Starts a server; `answer(request, response, n)` gets the n-th request, counted from 1. */
export async function fakeServer(t, answer) {
  let n = 0;
  const server = createHttpServer((request, response) => answer(request, response, (n += 1)));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests: () => n, server };
}

/** Answers with an event stream that consists of `pieces`, and ends it unless told otherwise. */
export function streamOf(response, pieces, { end = true } = {}) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const piece of pieces) response.write(piece);
  if (end) response.end();
}

/** One event of a run as the server sends it. */
export function frame(seq, event = { type: "tool_phase", call_id: "c", phase: "x" }) {
  return `id: ${seq}\ndata: ${JSON.stringify({ run_id: "run_1", seq, at: "2026-01-01T00:00:00Z", event })}\n\n`;
}

/** The last event of a run. */
export function lastFrame(seq) {
  return frame(seq, { type: "run_finished", outcome: { status: "completed" }, usage: {} });
}

/**
 * Starts a proxy in front of `target`. `cutAfter(n)` says after how many bytes of the body the
 * n-th response is cut, counted from 1; `open()` counts the connections that are open.
 */
export async function cuttingProxy(t, target, cutAfter) {
  const { hostname, port } = new URL(target);
  const sockets = new Set();
  let n = 0;
  const server = createServer((client) => {
    const most = cutAfter((n += 1));
    const upstream = connect(Number(port), hostname);
    const close = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", close).on("close", () => {
        sockets.delete(socket);
        close();
      });
    }
    // One response per connection: the limit is for each of them.
    client.on("data", (bytes) =>
      upstream.write(bytes.toString("latin1").replace(/^connection: keep-alive/im, "connection: close"), "latin1"),
    );
    client.on("end", () => upstream.end());
    let head = Buffer.alloc(0);
    let left = most;
    upstream.on("data", (bytes) => {
      let body = bytes;
      if (head !== undefined) {
        head = Buffer.concat([head, bytes]);
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) return;
        client.write(head.subarray(0, end + 4));
        body = head.subarray(end + 4);
        head = undefined;
      }
      client.write(body.subarray(0, left));
      left -= body.length;
      if (left <= 0) client.end(() => close());
    });
    upstream.on("end", () => client.end());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, connections: () => n, open: () => sockets.size / 2 };
}

/** All that an async iterable yields. */
export async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

/** Waits until a condition holds. */
export async function until(what, condition) {
  for (let n = 0; n < 200; n += 1) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`${what} did not happen`);
}
