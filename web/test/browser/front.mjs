// For work on the page: a gateway whose page is that of a folder. Everything else is passed on, and
// a gateway that is dead refuses connections as it would without this.

import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };

/** Serves the page in `folder` before the gateway at `port`, and returns its own port. */
export async function pageInFront(folder, port) {
  const { headers } = await fetch(`http://127.0.0.1:${port}/`);
  const policy = Object.fromEntries(["content-security-policy", "x-content-type-options", "referrer-policy"].map((name) => [name, headers.get(name)]));
  const server = createServer((near, answer) => {
    const name = near.url === "/" ? "index.html" : near.url.slice(1);
    if (name === "index.html" || /^(assets\/[\w.-]+|favicon\.svg)$/.test(name)) {
      answer.writeHead(200, { "content-type": TYPES[extname(name)], "cache-control": "no-cache", "content-encoding": "gzip", ...policy });
      answer.end(readFileSync(join(folder, `${name}.gz`)));
      return;
    }
    const far = request({ agent: false, port, host: "127.0.0.1", method: near.method, path: near.url, headers: near.headers }, (back) => {
      answer.writeHead(back.statusCode, back.headers);
      answer.flushHeaders();
      back.pipe(answer);
      back.on("error", () => near.socket.destroy());
      back.on("close", () => back.complete || near.socket.destroy());
    });
    far.on("error", () => near.socket.destroy());
    answer.on("close", () => far.destroy());
    near.pipe(far);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return server.address().port;
}
