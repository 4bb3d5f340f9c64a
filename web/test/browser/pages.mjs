// The pages beside the chat: runs, MCP servers, and runs that are shared.

import assert from "node:assert/strict";
import { ask, audited, button, cardSays, noSideways, noViolations, says, test } from "./acts.mjs";
import { call, script, until } from "./world.mjs";

const open = (page, where) => page.evaluate((to) => (location.hash = `#/${to}`), where);
const rowOf = (page, run) => page.locator(".rr", { has: page.locator(`a[href="#/run/${run}"]`) });

/** Starts a run as another client would, and returns its ID as soon as it has one. */
async function startElsewhere(world, message) {
  const body = JSON.stringify({ message, approvals: true });
  const answer = await fetch(`${world.url}/chat/stream`, { method: "POST", headers: { "content-type": "application/json" }, body });
  void answer.text().catch(() => undefined);
  return answer.headers.get("turnwire-run-id");
}

test("the page of runs changes by itself, and nothing slides", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  await ask(page, script({ text: "One that is over." }));
  await says(page, "One that is over.");
  await open(page, "runs");
  await page.getByRole("list", { name: "Runs" }).getByRole("listitem").first().waitFor();
  const filter = (name) => page.getByRole("group", { name: "Filters" }).getByRole("button", { name });
  const needing = async () => Number((await filter(/^Needs input/).textContent()).match(/\d+/)[0]);
  const before = await needing();
  
  const run = await startElsewhere(world, script({ calls: [call("add", { a: 1, b: 2 })] }, { text: "Sum." }));
  await button(page, /^1 new run$/).waitFor();
  await until("it is counted", async () => (await needing()) === before + 1);
  assert.equal(await rowOf(page, run).count(), 0, "it comes when it is asked for");
  const badge = page.getByRole("navigation", { name: "Turnwire" }).getByRole("img", { name: /needs? input/ });
  await badge.waitFor();
  await page.getByRole("navigation", { name: "Turnwire" }).locator(".thread .st", { hasText: "needs input" }).first().waitFor();
  await button(page, /^1 new run$/).click();
  await page.getByRole("list", { name: "Needs input" }).getByRole("listitem").first().waitFor();
  await rowOf(page, run).locator(".st", { hasText: "needs input" }).waitFor();
  await world.picture(page, "runs-live-1440-light");
  const waiting = await rowOf(page, run).boundingBox();
  const { data } = await (await fetch(`${world.url}/v1/runs?status=needs_input&limit=1`)).json();
  const { calls } = await (await fetch(`${world.url}/v1/runs/${data[0].run_id}`)).json();
  const since = Date.now();
  await fetch(`${world.url}/v1/runs/${run}/calls/${calls[0].call_id}/approve`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ decision: "approve" }),
  });
  await rowOf(page, run).locator(".st", { hasText: "done" }).waitFor();
  const took = Date.now() - since;
  assert.equal((await rowOf(page, run).boundingBox()).y, waiting.y, "it changes in its place");

  return `done after ${took} ms`;
});

test("runs are found by status, tool, model, chat, time and text, and the address keeps it", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  await ask(page, script({ calls: [call("echo", { text: "needle" })] }, { text: "Found." }));
  await says(page, "Found.");
  const found = (await page.locator("[data-run]").last().getAttribute("data-run")) ?? "";
  await ask(page, script({ text: "Another." }));
  await says(page, "Another.");
  const other = (await page.locator("[data-run]").last().getAttribute("data-run")) ?? "";
  await open(page, "runs");
  await rowOf(page, other).waitFor();
  await page.getByRole("combobox", { name: "Tool" }).selectOption("echo");
  await rowOf(page, found).waitFor();
  await until("the other is gone", async () => (await rowOf(page, other).count()) === 0);
  await page.getByLabel("Text in the message").fill("needle");
  await page.getByRole("combobox", { name: "Time" }).selectOption("last hour");
  await page.getByRole("combobox", { name: "Chat" }).selectOption({ index: 1 });
  await page.getByRole("combobox", { name: "Model" }).selectOption("default");
  await button(page, /^Done/).click();
  await until("one is left", async () => (await page.locator(".rr").count()) === 1);
  await rowOf(page, found).waitFor();
  await page.reload();
  await rowOf(page, found).waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Tool" }).inputValue(), "echo");
  assert.equal(await page.locator(".rr").count(), 1);
  await button(page, /^Failed/).click();
  await page.getByText("No run fits these filters").waitFor();
});

test("a tool is tried as a run of its own, with its approval and the server's claims", async (world) => {
  const page = await world.page({ width: 1440, height: 900, scheme: "dark" });
  await open(page, "servers");
  const servers = page.getByRole("list", { name: "Servers" });
  await servers.getByRole("button", { name: /^ops .*connected/ }).click();
  const ops = page.getByRole("region", { name: "ops" });
  await ops.getByText("server claims: destructive").waitFor();
  await ops.getByText("server claims: read-only").waitFor();
  await ops.getByText("asks first").waitFor();
  await button(page, "Try drop_table").click();
  await button(page, "Run tool").click();
  await ops.getByText("Please fill this in.").waitFor();
  await ops.getByRole("textbox", { name: "table" }).fill("orders");
  await world.picture(page, "try-1440-dark");
  await button(page, "Run tool").click();
  const dock = page.getByRole("region", { name: "Waits for you" });
  await dock.getByText("ops/drop_table").waitFor();
  await dock.getByText("server claims: destructive").waitFor();
  await dock.getByText('"orders"').waitFor();
  await page.locator("h1 + .st", { hasText: "needs input" }).waitFor();
  await world.picture(page, "try-approval-1440-dark");
  await button(page, /^Approve A/).click();
  await page.locator("h1 + .st", { hasText: "done" }).waitFor();
  await page.getByRole("region", { name: "Call of drop_table" }).getByText("dropped orders").waitFor();
  await open(page, "servers");
  await servers.getByRole("button", { name: /^ops .*connected/ }).click();
  await ops.getByRole("img", { name: /^Last 24 hours: \d+ calls?, \d+ failed/ }).waitFor();
  const fact = async (name) => (await ops.locator(".stats > div", { hasText: name }).locator("dd").textContent()).trim();
  assert.match(await fact("Calls since"), /^[1-9]/);
  assert.match(await fact("Median"), /^\d/);
  assert.match(await ops.getByRole("listitem").filter({ hasText: "drop_table" }).textContent(), /\d+ ms|\d\.\ds/);
  await world.picture(page, "servers-calls-1440-dark");
});

test("what a server claims is marked as its claim when it asks, and stops approving all at once", async (world) => {
  const page = await world.page({ width: 320, height: 800 });
  await ask(page, script({ calls: [call("drop_table", { table: "people" }), call("add", { a: 1, b: 1 })] }, { text: "Both were asked." }));
  const dock = page.getByRole("region", { name: "Waits for you" });
  await dock.getByText("1 of 2").waitFor();
  await dock.getByText("server claims: destructive").waitFor();
  await dock.getByText(/drop_table is said to be destructive/).waitFor();
  await noSideways(page, "two approvals");
  await world.picture(page, "claims-320-light");
  for (const n of [2, 1]) {
    await button(page, /^Deny/).click();
    await until(`${n - 1} wait`, async () => (await page.locator("details.tool .word", { hasText: "denied" }).count()) > 2 - n);
  }
  await says(page, "Both were asked.");
});

/** Makes a link in the dialog of the run that is shown, and returns its address. */
async function share(page, { redact }) {
  await button(page, "Share").click();
  const dialog = page.getByRole("dialog", { name: "Share this run" });
  await dialog.getByRole("checkbox").setChecked(redact);
  await dialog.getByRole("button", { name: "Make a link" }).click();
  const link = await dialog.getByLabel("Link", { exact: true }).inputValue();
  await dialog.getByRole("button", { name: "Revoke" }).last().waitFor();
  return link;
}

test("a run is shared: redacted or not, without a key, until the link is revoked", async (world) => {
  const origin = `http://127.0.0.1:${world.locked.port}`;
  const page = await world.page({ url: origin, width: 1440, height: 900 });
  await page.getByLabel("API key").fill("key-of-the-web-view-test");
  await page.getByLabel("Keep it in this browser").check();
  await button(page, "Continue").click();
  await ask(page, "multiply 98765 and 4321");
  await says(page, "98765 times 4321 is 426763565.");
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("group", { name: "Lanes" }).waitFor();
  const redactedLink = await share(page, { redact: true });
  await world.picture(page, "share-1440-light");
  await page.keyboard.press("Escape");
  const openLink = await share(page, { redact: false });
  const dialog = page.getByRole("dialog", { name: "Share this run" });
  await until("both are listed", async () => (await dialog.getByRole("button", { name: "Revoke" }).count()) === 2);
  // Not even the browser that has a key sends it.
  const asked = [];
  const owner = await page.context().newPage();
  owner.on("request", (request) => request.url().includes("/v1/") && asked.push(request));
  await owner.goto(redactedLink);
  await owner.getByText("redacted by its owner").waitFor();
  assert.ok(asked.length > 0 && asked.every((one) => one.url().includes("/v1/shared/") && !one.headers()["authorization"]), "no key is sent");
  await owner.close();
  const stranger = await audited(world, { url: redactedLink, width: 1440, height: 900 });
  // More than once, because an answer may come before the page watches for it.
  for (let n = 0; n < 6; n += 1) {
    await stranger.reload();
    await stranger.getByText("redacted by its owner").waitFor();
  }
  await stranger.getByRole("group", { name: "Lanes" }).getByRole("button", { name: /multiply/ }).click();
  await stranger.getByRole("region", { name: "Call of multiply" }).locator(".redacted").first().waitFor();
  const shown = await stranger.locator("#app").textContent();
  for (const secret of ["98765", "426763565"]) assert.ok(!shown.includes(secret), secret);
  assert.equal(await stranger.getByRole("button", { name: /Stop|Share|Retry/ }).count(), 0);
  await noViolations(stranger, world, "a redacted run");
  await world.picture(stranger, "shared-redacted-1440-light");
  await stranger.setViewportSize({ width: 320, height: 700 });
  await noSideways(stranger, "a redacted run, 320 px");
  await world.picture(stranger, "shared-redacted-320-light");
  const reader = await audited(world, { url: openLink, scheme: "dark" });
  await reader.getByRole("group", { name: "Lanes" }).getByRole("button", { name: /multiply/ }).waitFor();
  await reader.getByRole("radio", { name: "Answer" }).check();
  await says(reader, "98765 times 4321 is 426763565.");
  await noViolations(reader, world, "a shared answer");
  await world.picture(reader, "shared-answer-1280-dark");
  await reader.getByText(/^Link ends /).waitFor();
  for (const left of [1, 0]) {
    await dialog.getByRole("button", { name: "Revoke" }).first().click();
    await until("it is gone from the list", async () => (await dialog.getByRole("button", { name: "Revoke" }).count()) === left);
  }
  for (const viewer of [stranger, reader]) {
    await viewer.reload();
    await viewer.getByRole("heading", { name: "This link shows nothing" }).waitFor();
    await viewer.getByText(/expired or been revoked/).waitFor();
  }
  await world.picture(reader, "shared-revoked-1280-dark");
});

test("a large result is read to its end over a link, and not over a redacted one", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  await ask(page, script({ calls: [call("big", { bytes: 90_000 })] }, { text: "That was a lot." }));
  await says(page, "That was a lot.");
  await page.getByRole("link", { name: "Timeline" }).click();
  const shownIn = async (link) => {
    const reader = await world.page({ url: link, width: 1440, height: 900 });
    await reader.getByRole("group", { name: "Lanes" }).getByRole("button", { name: /big/ }).click();
    return reader.getByRole("region", { name: /^Call of/ });
  };
  const open = await shownIn(await share(page, { redact: false }));
  await open.getByRole("button", { name: /^Show all/ }).click();
  await until("all of it is there", async () => (await open.getByRole("group", { name: "Result" }).textContent()).length === 90_000);
  await page.keyboard.press("Escape");
  const redacted = await shownIn(await share(page, { redact: true }));
  await redacted.locator(".result .redacted").waitFor();
  assert.equal(await redacted.getByRole("button", { name: /^Show all/ }).count(), 0);
});

test("a run at work is watched over a link, and a revoked link ends it", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  await ask(page, script({ text: "Working on it. ", calls: [call("add", { a: 2, b: 3 })] }, { text: "All done." }));
  await cardSays(page, "props/add", "needs approval");
  await page.getByRole("link", { name: "Timeline" }).click();
  const link = await share(page, { redact: false });
  const viewer = await world.page({ url: link });
  await viewer.locator("h1 + .st", { hasText: "needs input" }).waitFor();
  assert.equal(await viewer.getByRole("region", { name: "Waits for you" }).count(), 0);
  const other = await world.page({ url: (await share(await revisit(page), { redact: false })) });
  await other.locator("h1 + .st", { hasText: "needs input" }).waitFor();
  await page.getByRole("dialog", { name: "Share this run" }).getByRole("button", { name: "Revoke" }).last().click();
  await other.getByRole("heading", { name: "This link shows nothing" }).waitFor();
  await page.keyboard.press("Escape");
  await button(page, /^Approve A/).click();
  await viewer.locator("h1 + .st", { hasText: "done" }).waitFor();
});

async function revisit(page) {
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  return page;
}

