// The types of the callbacks, as `tsc` sees them.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const TSC = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));

/** What `tsc` says about the project. */
function check(project) {
  const { stdout, status } = spawnSync(process.execPath, [TSC, "--project", project], { cwd: HERE, encoding: "utf8" });
  return { stdout, status, errors: (stdout.match(/error TS\d+/g) ?? []).length };
}

test("S0-6 S0-7 S4-6 the callbacks have exactly the types of the specifications", () => {
  const { status, stdout } = check("tsconfig.json");
  assert.equal(status, 0, stdout);
});

test("S0-8 S4-14 every wrong callback is an error of its own", (t) => {
  const files = ["unmarked.ts", "unmarked.json"].map((name) => `${HERE}${name}`);
  t.after(() => files.forEach((file) => rmSync(file, { force: true })));
  const marked = readFileSync(`${HERE}types.ts`, "utf8");
  const wrong = marked.match(/\/\/ @ts-expect-error/g).length;
  writeFileSync(files[0], marked.replaceAll("// @ts-expect-error", "// wrong:"));
  writeFileSync(files[1], JSON.stringify({ extends: "./tsconfig.json", include: ["unmarked.ts"] }));
  const { errors, stdout } = check("unmarked.json");
  assert.ok(wrong > 15, String(wrong));
  assert.equal(errors, wrong, stdout);
});
