// The examples of both README.md, as printed but for the address of the server.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const { TURNWIRE_DEMO_URL } = process.env;
assert.ok(TURNWIRE_DEMO_URL, "`scripts/client-libraries all` starts the gateways");

/** Runs the examples of a file, one after the other in one program, and returns what it prints. */
function run(t, readme, count) {
  const blocks = [...readFileSync(readme, "utf8").matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  assert.equal(blocks.length, count);
  // Inside of the package, so that it can be imported by its name.
  const file = fileURLToPath(new URL("readme.mjs", import.meta.url));
  t.after(() => rmSync(file, { force: true }));
  writeFileSync(file, blocks.join("\n").replaceAll("http://127.0.0.1:7878", TURNWIRE_DEMO_URL));
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], { encoding: "utf8", timeout: 60_000 });
  assert.equal(status, 0, stderr);
  return stdout;
}

test("the examples of README.md work as printed", (t) => {
  const stdout = run(t, new URL("../README.md", import.meta.url), 5);
  for (const expected of [
    "→ multiply\n← multiply: 20\n",
    "completed: 5 times 4 is 20.\n",
    "a new message\nmultiply start",
    "multiply end 6 × 7 42\n",
    "succeeded true\n",
    "cancelled: false\n",
    "404 not_found\n",
  ]) {
    assert.ok(stdout.includes(expected), `${expected} is not in:\n${stdout}`);
  }
});

test("the example in the README.md of the repository works as printed", (t) => {
  const stdout = run(t, process.env.TURNWIRE_README ?? new URL("../../../README.md", import.meta.url), 1);
  assert.match(stdout, /^I will multiply 5 and 4\. 5 times 4 is 20\.1 run_queued\n2 run_started\n/);
  assert.match(stdout, /\n\d+ run_finished\n$/);
});
