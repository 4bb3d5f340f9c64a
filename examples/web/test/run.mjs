// Opens every page in Chromium, asks what its placeholder asks, and expects to see the tool and the
// answer. A page of an origin that the server does not know is told which setting lets it in.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

const { SITE, SERVER, PORT, CHROMIUM, PICTURES } = process.env;
const PAGES = ["plain", "use-chat", "turnwire-react", "ag-ui"];
const KINDS = { ".html": "text/html", ".js": "text/javascript" };

/** Serves the built pages. */
function serve(port) {
  const site = createServer(async ({ url }, response) => {
    const path = new URL(url, "http://x").pathname;
    const file = join(SITE, path.endsWith("/") ? `${path}index.html` : path);
    try {
      response.setHeader("content-type", KINDS[extname(file)] ?? "text/plain");
      response.end(await readFile(file));
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => site.listen(port, "127.0.0.1", () => resolve(site)));
}

const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const sites = [await serve(Number(PORT)), await serve(0)];
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
let [passed, failed] = [0, 0];

async function test(name, run) {
  const page = await browser.newPage({ viewport: { width: 800, height: 500 } });
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  try {
    await run(page);
    if (problems.length) throw new Error(problems.join("\n"));
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    passed += 1;
    console.log(`ok     web examples: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED web examples: ${name}`);
    console.error(error, await page.textContent("body"));
  }
  await page.close();
}

async function ask(page, port, folder) {
  await page.goto(`http://localhost:${port}/${folder}/?server=${encodeURIComponent(SERVER)}`);
  const input = page.getByLabel("Message");
  await input.fill(await input.getAttribute("placeholder"));
  await page.getByRole("button", { name: "Send" }).click();
}

for (const folder of PAGES) {
  await test(folder, async (page) => {
    await ask(page, PORT, folder);
    await page.getByText("multiply", { exact: false }).first().waitFor();
    await page.getByText("5 times 4 is 20.").waitFor({ timeout: 20_000 });
    await page.getByRole("button", { name: "Send", disabled: false }).waitFor();
    const text = await page.textContent("body");
    if (text.split("5 times 4 is 20.").length !== 2) throw new Error(`the answer is there twice: ${text}`);
  });
}

await test("S3-15 S3-16 fetch and ReadableStream: the status names the tool at work, in a style of its own", async (page) => {
  await page.addInitScript(() => {
    window.said = [];
    addEventListener("DOMContentLoaded", () => {
      const status = document.querySelector("#status");
      const note = () => window.said.push([status.textContent, getComputedStyle(status).fontStyle]);
      new MutationObserver(note).observe(status, { childList: true });
    });
  });
  await ask(page, PORT, "chat-stream");
  await page.getByText("5 times 4 is 20.").waitFor({ timeout: 20_000 });
  const said = JSON.stringify(await page.evaluate(() => window.said));
  const expected = [["Thinking…", "normal"], ["Running multiply…", "italic"], ["Thinking…", "normal"], ["", "normal"]];
  if (said !== JSON.stringify(expected)) throw new Error(said);
});

await test("a page of another origin is told what to set", async (page) => {
  await ask(page, sites[1].address().port, "plain");
  await page.getByText("Start it with `--origin").waitFor();
});

await browser.close();
sites.forEach((site) => site.close());
console.log(`web examples: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
