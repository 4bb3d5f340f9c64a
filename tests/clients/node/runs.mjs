// Runs as the surfaces show them, a folder each: those that were recorded, and random ones where
// there are any.

import { readdirSync, readFileSync } from "node:fs";

import { test } from "./harness.mjs";

export const RECORDED = runsIn(process.env.TURNWIRE_GOLDENS);
const RANDOM = runsIn(process.env.TURNWIRE_RANDOM_RUNS);

function runsIn(folder) {
  const names = folder ? readdirSync(folder).sort() : [];
  return names.map((name) => ({ name, read: (file) => readFileSync(`${folder}/${name}/${file}`, "utf8") }));
}

/** Adds a test for each recorded run, and one for each hundred of the random ones. */
export function testRuns(name, judge) {
  testRecorded(name, judge);
  testRandom(name, judge);
}

export function testRecorded(name, judge) {
  for (const run of RECORDED) test(`${name} ${run.name}`, () => judge(run));
}

export function testRandom(name, judge) {
  for (let first = 0; first < RANDOM.length; first += 100) {
    const runs = RANDOM.slice(first, first + 100);
    test(`${name} ${runs.length} random runs from ${runs[0].name}`, async () => {
      for (const run of runs) {
        await Promise.resolve(run).then(judge).catch((error) => {
          throw new Error(`${run.name}: ${error.message}`, { cause: error });
        });
      }
    });
  }
}
