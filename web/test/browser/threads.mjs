// What belongs to one thread: its model and tools, and what happened while nobody looked.

import assert from "node:assert/strict";
import { ask, button, card, cardSays, listen, noSideways, says, test } from "./acts.mjs";
import { call, script, until } from "./world.mjs";

/** A picture of one pixel. */
const DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** How the run that is shown last was requested. */
async function requestOf(world, page) {
  const run = await page.locator("[data-run]").last().getAttribute("data-run");
  const journal = await (await fetch(`${world.url}/v1/runs/${run}/events?follow=false&format=ndjson`)).text();
  return JSON.parse(journal.split("\n")[0]).event.request;
}

test("a thread has the model and the tools that were picked for it", async (world) => {
  const page = await world.page({ width: 320, height: 700 });
  await button(page, /^Model and tools: .*all tools/).click();
  const dialog = page.getByRole("dialog", { name: "Model and tools of this chat" });
  await dialog.getByRole("radio", { name: "other" }).check();
  await dialog.getByRole("checkbox", { name: "All tools of props" }).waitFor();
  await dialog.getByRole("checkbox", { name: "All tools of props" }).uncheck();
  await dialog.getByRole("button", { name: "Show the tools of props" }).click();
  for (const name of [/^echo/, /^add/]) await dialog.getByRole("checkbox", { name }).check();
  await dialog.getByRole("checkbox", { name: "All tools of ops" }).uncheck();
  await world.picture(page, "picker-320-light");
  await dialog.getByRole("button", { name: "Done" }).click();
  await button(page, /^Model and tools: other\s+2 tools/).waitFor();
  await noSideways(page, "the composer");
  await ask(page, script({ calls: [call("echo", { text: "hi" }), call("structured")] }, { text: "With two tools." }));
  await says(page, "With two tools.");
  await cardSays(page, "echo", "done");
  await cardSays(page, "structured", "failed");
  const { model, servers } = await requestOf(world, page);
  assert.equal(model, "other");
  assert.deepEqual(servers.map(({ label, allowed }) => [label, allowed]), [["props", ["echo", "add"]]]);
  await page.reload();
  await button(page, /^Model and tools: other\s+2 tools/).waitFor();
  await page.goto(`${world.url}/#/`);
  await button(page, /^Model and tools: .*all tools/).waitFor();
});

test("with a picked model, tools ask for approvals and answers within the run", async (world) => {
  const page = await world.page();
  await button(page, /^Model and tools/).click();
  await page.getByRole("radio", { name: "other" }).check();
  await page.keyboard.press("Escape");
  await ask(page, script({ calls: [call("add", { a: 20, b: 22 })] }, { calls: [call("task_that_asks")] }, { text: "Added it." }));
  const dock = page.getByRole("region", { name: "Waits for you" });
  await dock.getByText("props/add").waitFor();
  await page.reload();
  await dock.getByText("props/add").waitFor();
  await button(page, "Edit").last().click();
  await page.getByLabel("a", { exact: true }).fill("21");
  await button(page, /Approve with 1 change/).click();
  await dock.getByText("props/task_that_asks").waitFor();
  await dock.getByRole("textbox").first().fill("Ada");
  await dock.getByRole("button", { name: "Answer" }).click();
  await says(page, "Added it.");
  await until("nothing waits", async () => (await dock.count()) === 0);
  for (const name of ["props/add", "props/task_that_asks"]) await cardSays(page, name, "done");
  assert.equal(await page.locator("[data-run]").count(), 1, "it is one run");
  assert.equal((await requestOf(world, page)).model, "other");
});

test("a picture and a text go with a message, to the model that was picked", async (world) => {
  const page = await world.page();
  await button(page, /^Model and tools/).click();
  await page.getByRole("radio", { name: "other" }).check();
  await page.keyboard.press("Escape");
  await page.locator("input[type=file]").setInputFiles([
    { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(DOT, "base64") },
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello") },
  ]);
  await ask(page, script({ calls: [call("add", { a: 2, b: 2 })] }, { text: "I see a dot." }));
  await page.locator(".you img").waitFor();
  await button(page, /^Approve A/).click();
  await says(page, "I see a dot.");
  const { model, input } = await requestOf(world, page);
  assert.equal(model, "other");
  assert.deepEqual(input[0].content.map(({ type }) => type), ["text", "image", "file"]);
});

test("a message waits for the files that are still read", async (world) => {
  const page = await world.page();
  await page.evaluate(() => {
    const read = FileReader.prototype.readAsDataURL;
    FileReader.prototype.readAsDataURL = function slow(file) {
      setTimeout(() => read.call(this, file), 500);
    };
  });
  await page.locator("input[type=file]").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello") }]);
  await ask(page, script({ text: "Read it." }));
  await says(page, "Read it.");
  const { input } = await requestOf(world, page);
  assert.deepEqual(input[0].content.map(({ type }) => type), ["text", "file"]);
});

test("a run that finished while the page was closed says so", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("slow", { seconds: 1, steps: 4 })] }, { text: "Here is the answer." }));
  await cardSays(page, "props/slow", "running");
  const [address, context] = [page.url(), page.context()];
  const run = await page.locator("[data-run]").last().getAttribute("data-run");
  await until("it is listed", () => page.evaluate((id) => localStorage.getItem("turnwire.at-work")?.includes(id), run));
  await page.close();
  await until("it is over", async () => (await (await fetch(`${world.url}/v1/runs/${run}`)).json()).status === "completed");
  const again = await world.tab(context, `${world.url}/#/servers`);
  const mark = again.getByRole("navigation", { name: "Turnwire" }).getByRole("img", { name: "finished while you were away" });
  await mark.waitFor();
  const heard = await listen(again);
  await again.goto(address);
  await says(again, "Here is the answer.");
  await again.getByText("Finished while you were away", { exact: true }).waitFor();
  await world.picture(again, "away-1280-light");
  await until("the mark is gone", async () => (await mark.count()) === 0);
  await until("it is announced", async () => (await heard()).includes("The run finished while you were away"));
  await again.reload();
  await says(again, "Here is the answer.");
  assert.equal(await again.getByText("Finished while you were away", { exact: true }).count(), 0, "it is said once");
});

test("a run that finished while the line was cut says so, and one on the screen does not", async (world) => {
  const page = await world.page();
  await ask(page, script({ text: "Quick." }));
  await says(page, "Quick.");
  assert.equal(await page.getByText(/while you were away/).count(), 0);
  await ask(page, script({ calls: [call("slow", { seconds: 2, steps: 4 })] }, { text: "Slow one." }));
  await cardSays(page, "props/slow", "running");
  const run = await page.locator("[data-run]").last().getAttribute("data-run");
  world.line.cut();
  const straight = `http://127.0.0.1:${world.gateway.port}/v1/runs/${run}`;
  await page.getByText("Connection lost.").first().waitFor();
  await until("it is over", async () => (await (await fetch(straight)).json()).status === "completed");
  world.line.mend();
  await page.locator(".banner", { hasText: "The run finished while you were away." }).waitFor();
  await says(page, "Slow one.");
});
