// Runs the tests of a file one by one and counts. A test is a name and a function that throws
// when it fails; one with variants is run once for each of them.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual, inspect } from "node:util";

export const BASE_URL = (process.env.TURNWIRE_URL ?? "http://127.0.0.1:7878").replace(/\/$/, "");
export const SCENARIOS = JSON.parse(readFileSync(new URL("scenarios.json", import.meta.url), "utf8"));
export const MODEL = SCENARIOS.model;
const ONLY = process.env.ONLY ?? "";

const tests = [];

/** Adds a test. */
export function test(name, run, variants = [undefined]) {
  for (const variant of variants) {
    tests.push({ name: variant ? `${name} (${variant.name})` : name, run: () => run(variant) });
  }
}

/** Runs everything that was added and ends the process. */
export async function main(suite) {
  let passed = 0;
  let failed = 0;
  for (const { name, run } of tests.filter(({ name }) => name.includes(ONLY))) {
    try {
      await within(60_000, run());
      passed += 1;
      console.log(`ok     ${suite}: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${suite}: ${name}`);
      console.error(error);
    }
  }
  console.log(`${suite}: ${passed} passed, ${failed} failed`);
  process.exit(failed || !(passed || ONLY) ? 1 : 0);
}

export function assert(holds, ...details) {
  if (!holds) throw new Error(`does not hold: ${details.map((it) => inspect(it, { depth: 8 })).join(" ")}`);
}

export function equal(mine, theirs, what = "") {
  if (isDeepStrictEqual(mine, theirs)) return;
  const isObject = (it) => it && typeof it === "object" && !Array.isArray(it);
  if (isObject(mine) && isObject(theirs)) {
    for (const name of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
      equal(mine[name], theirs[name], `${what}.${name}`);
    }
  }
  throw new Error(`${what}\n  ${inspect(mine, { depth: 8 })}\nis not\n  ${inspect(theirs, { depth: 8 })}`);
}

/** Waits for `promise`, but not for ever. */
export async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Looks again and again until what is seen is it. */
export async function waitUntil(look, isIt, seconds = 20) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const seen = await look();
    if (isIt(seen)) return seen;
    assert(Date.now() < deadline, "still", seen);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The question that makes the scripted model play `turns`. */
export function script(turns) {
  return JSON.stringify(Array.isArray(turns) ? { turns } : turns);
}

export function toolsOf(scenario) {
  return (scenario.tools ?? []).map((name) => SCENARIOS[name]);
}

/** One request to the native surface, where runs of all clients are listed and answered. */
export async function native(path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${BASE_URL}/v1/runs${path}`, body && { method: "POST", headers, body: JSON.stringify(body) });
  assert(response.ok, path, response.status);
  return response.json();
}

/** The runs whose question contains this text, newest first. */
export async function runsWith(mark) {
  return (await native(`?q=${encodeURIComponent(mark)}`)).data;
}

/** How a person may decide about a call. */
export const DECISIONS = [{ name: "granted", decision: "approve" }, { name: "denied", decision: "deny" }];

/** A call of the one tool that a person has to allow. */
export function guarded(mark) {
  return [{ calls: [{ name: "structured", arguments: {} }] }, { text: `${mark}: {results}` }];
}

/** Whether the model heard of the decision. */
export function isDecided(text, decision) {
  return text.includes("denied by the user") === (decision === "deny");
}
