// What a person does with the page, and what is looked for on it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { call, script } from "./world.mjs";

export const THREE = script(
  {
    text: "I look into it. ",
    calls: [call("structured"), call("fail", { message: "unit tests: 2 failed" }), call("add", { a: 5, b: 4 })],
  },
  { text: ["Two of three ", "went well."] },
);
export const ANSWER = "Two of three went well.";

export async function ask(page, text) {
  await page.getByLabel("Message").fill(text);
  await page.keyboard.press("Enter");
}

export const card = (page, name) => page.locator("details.tool", { has: page.locator("summary", { hasText: name }) }).first();
export const cardSays = (page, name, word) => card(page, name).locator("summary .word", { hasText: word }).waitFor();
export const button = (page, name, options = {}) => page.getByRole("button", { name, ...options });
// The message of the person contains the script, and so every text in it.
export const says = (page, text) => page.locator(".log .said", { hasText: text }).last().waitFor();

/** How often a text is in the transcript. */
export async function times(page, text) {
  const all = await page.locator(".log .said").allTextContents();
  return all.join("\n").split(text).length - 1;
}

/** Collects everything that a screen reader is told. */
export async function listen(page) {
  await page.evaluate(() => {
    window.heard = [];
    for (const region of document.querySelectorAll('.sr[role="status"], .sr[role="alert"]')) {
      new MutationObserver(() => region.textContent && window.heard.push(region.textContent)).observe(region, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    }
  });
  return () => page.evaluate(() => window.heard);
}

export async function noViolations(page, world, where) {
  await page.addScriptTag({ path: world.axePath }).catch(() => undefined);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
  });
  assert.deepEqual(found, [], where);
}

/** Nothing that can be pressed or typed into is beyond the edge of the screen. */
export async function noSideways(page, where) {
  const beyond = await page.evaluate(() =>
    [...document.querySelectorAll("main button, main input, main textarea, main a, main h1")]
      .filter((one) => !one.closest(".filters, .sr, .tl-scroll, .jr-list, .tablebox") && !one.matches(".sr"))
      .map((one) => [one.getBoundingClientRect(), one])
      .filter(([box]) => box.width > 0 && box.right > innerWidth + 1)
      .map(([, one]) => one.outerHTML.slice(0, 120)),
  );
  assert.deepEqual(beyond, [], where);
}

/** The axe script is injected past the policy of the page, which is what keeps others out. */
export async function audited(world, options) {
  const page = await world.page(options);
  await page.context().addInitScript({ path: world.axePath });
  await page.reload();
  return page;
}

/** For how long something has waited for a processor, in milliseconds; 0 if the kernel does not say. */
function waited() {
  try {
    return Number(/^some .*total=(\d+)/m.exec(readFileSync("/proc/pressure/cpu", "utf8"))[1]) / 1000;
  } catch {
    return 0;
  }
}

/** A machine on which something waits for a processor for most of the time has none for the page. */
const MAX_PRESSURE = 0.8;

/**
 * Measures until a value is within `limit`, at most `rounds` times, and returns the best. A round on a
 * machine that has no time can show that a limit is kept, and not that it is broken.
 */
export async function bestOf(rounds, limit, measure) {
  let [best, hadTime] = [Infinity, false];
  for (let round = 0; round < rounds && best > limit; round += 1) {
    const [since, waitedBefore] = [Date.now(), waited()];
    best = Math.min(best, await measure());
    hadTime ||= (waited() - waitedBefore) / (Date.now() - since) <= MAX_PRESSURE;
  }
  assert.ok(best <= limit || !hadTime, `${best} ms, and at most ${limit} ms are promised`);
  return best;
}

/**
 * The tasks of the page's main thread while `act` runs, in milliseconds of the CPU, longest first.
 * What other programs do meanwhile does not count, so a busy machine measures the same.
 */
export async function tasksDuring(page, act) {
  const browser = page.context().browser();
  await browser.startTracing(page, { categories: ["devtools.timeline", "toplevel"] });
  let trace;
  try {
    await act();
  } finally {
    trace = JSON.parse(String(await browser.stopTracing()));
  }
  const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
  const named = trace.traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const renderers = new Set(named.map(threadOf));
  const tasks = trace.traceEvents.filter((event) => event.name === "ThreadControllerImpl::RunTask" && event.tdur && renderers.has(threadOf(event)));
  assert.ok(tasks.length > 0, "the trace has tasks with their time");
  return tasks.map(({ tdur }) => tdur / 1000).sort((one, other) => other - one);
}

/** The checks, in order. */
export const CHECKS = new Map();

export function test(name, run) {
  CHECKS.set(name, run);
}
