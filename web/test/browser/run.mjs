// The web view in Chromium against a real gateway. Each check is a story with its own browser
// context; it waits for what it expects to see and never for a length of time.

import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { CHECKS } from "./acts.mjs";
import "./stories.mjs";
import "./threads.mjs";
import "./chats.mjs";
import "./pages.mjs";
import "./looks.mjs";
import "./checklist.mjs";
import "./audits.mjs";
import { Gateway, Line, PATIENCE, openBrowser, settingsFor, startUpstreams, stopEverything } from "./world.mjs";

const { PICTURES, ONLY } = process.env;
if (PICTURES) mkdirSync(PICTURES, { recursive: true });
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const models = await startUpstreams();
const gateway = await Gateway.start(settingsFor(models));
const asking = await Gateway.start(`${settingsFor(models)}\n[approvals]\nunknown_outcomes = "ask"\n`);
const locked = await Gateway.start("", { args: ["--demo"], env: { TURNWIRE_API_KEYS: "key-of-the-web-view-test", TURNWIRE_DEMO_TOOL_MS: "100" } });
const browser = await openBrowser();
let [passed, failed] = [0, 0];

/** What a check works with. */
async function worldFor() {
  const line = await Line.to(gateway);
  const contexts = [];
  const problems = [];
  const world = {
    gateway,
    asking,
    locked,
    line,
    url: line.url,
    axePath: AXE,
    problems,
    /** A page of its own device. */
    async page({ width = 1280, height = 800, scheme = "light", url = line.url } = {}) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
      contexts.push(context);
      return world.tab(context, url);
    },
    async tab(context, url = line.url) {
      const page = await context.newPage();
      page.setDefaultTimeout(PATIENCE);
      page.on("pageerror", (error) => problems.push(error.message));
      await page.goto(url);
      return page;
    },
    async picture(page, name) {
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    },
    async close() {
      await Promise.all(contexts.map((context) => context.close()));
      line.close();
    },
    last: () => contexts.at(-1)?.pages().at(-1),
  };
  return world;
}

const begin = Date.now();
for (const [name, run] of CHECKS) {
  if (ONLY && !name.includes(ONLY)) continue;
  const world = await worldFor();
  const since = Date.now();
  try {
    const figure = await run(world);
    if (world.problems.length > 0) throw new Error(world.problems.join("\n"));
    passed += 1;
    console.log(`ok     web view: ${name}${figure ? ` (${figure})` : ""}, ${Date.now() - since} ms`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED web view: ${name}`);
    console.error(error);
    const page = world.last();
    if (page) {
      console.error(await page.textContent("#app").catch(() => ""));
      await world.picture(page, `failed-${failed}`).catch(() => undefined);
    }
  }
  await world.close();
}
await browser.close();
await stopEverything();
console.log(`web view: ${passed} passed${failed ? `, ${failed} failed` : ""} in ${Math.round((Date.now() - begin) / 1000)} s`);
process.exit(failed ? 1 : 0);
