// How long a piece of text is on its way: from the model, which writes the time into it, through the
// gateway, to what `useChat` of a page has rendered.
//
// What is promised holds for a machine that has time for it. The kernel says for how much of a round
// something waited for a processor. A round in which that was most of the time can show that the
// promise is kept, and not that it is broken.

import { readFileSync } from "node:fs";

import { assert, main, script, test } from "./harness.mjs";
import { Page, SDKS } from "./page.mjs";

const N_PIECES = 200;
const PACE_MS = 5;
/** What is promised: 99 of 100 pieces are on the page within this time. */
const PROMISED_MS = 50;
/** On a machine that never has time, the median may be so many times as long. */
const SLACK = 10;
const MAX_ROUNDS = 12;
/** Model, gateway and page share two cores, and wait for one another a little. */
const MAX_PRESSURE = 0.5;

const now = () => performance.timeOrigin + performance.now();
const part = (sorted, share) => sorted[Math.ceil(sorted.length * share) - 1];

/** For how long something has waited for a processor, in milliseconds; 0 if the kernel does not say. */
function waited() {
  try {
    return Number(/^some .*total=(\d+)/m.exec(readFileSync("/proc/pressure/cpu", "utf8"))[1]) / 1000;
  } catch {
    return 0;
  }
}

/** The delays of all pieces in milliseconds, shortest first. */
async function delaysOf(sdk) {
  const page = new Page(sdk);
  const delays = [];
  const look = () => {
    const times = page.said.split(" ").slice(0, -1);
    for (const time of times.slice(delays.length)) delays.push(now() - Number(time) / 1000);
  };
  try {
    page.onRendered(look);
    await page.ask(script([{ text: Array(N_PIECES).fill("{now} "), pace_ms: PACE_MS }]));
  } finally {
    page.close();
  }
  assert(delays.length === N_PIECES, delays.length);
  return delays.sort((one, other) => one - other);
}

test("a piece of text is on the page in time", async (sdk) => {
  let [best, hadTime] = [[Infinity], false];
  for (let n = 0; n < MAX_ROUNDS && part(best, 0.99) > PROMISED_MS; n += 1) {
    const [since, waitedBefore] = [now(), waited()];
    const delays = await delaysOf(sdk);
    hadTime ||= (waited() - waitedBefore) / (now() - since) <= MAX_PRESSURE;
    if (part(delays, 0.99) < part(best, 0.99)) best = delays;
  }
  const [median, p99] = [part(best, 0.5), part(best, 0.99)].map((delay) => delay.toFixed(1));
  console.log(`latency: ${sdk.name}: median ${median} ms, p99 ${p99} ms`);
  assert(part(best, 0.99) <= PROMISED_MS || !hadTime, "p99", p99);
  assert(part(best, 0.5) <= PROMISED_MS * SLACK, "median", median);
}, SDKS);

await main("node22 latency");
