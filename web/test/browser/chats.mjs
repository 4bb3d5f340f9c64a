// A person with many chats: each has its own connection, drafts, files, queue and edits, and what is
// shown as done is done. What counts is what the server has.

import assert from "node:assert/strict";
import { ask, audited, button, cardSays, noViolations, says, test } from "./acts.mjs";
import { Gateway, call, script, until } from "./world.mjs";

const HELD = call("add", { a: 2, b: 3 });
const dock = (page) => page.getByRole("region", { name: "Waits for you" });
const message = (page) => page.getByLabel("Message", { exact: true });
const idOf = (page) => page.url().split("#/c/")[1];
/** By the rail, as a person goes. */
const go = (page, id) => page.locator(`a.thread[href="#/c/${id}"]`).click();
const newChat = (page) => page.getByRole("link", { name: "New chat" }).click();

async function api(world, path, body) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`http://127.0.0.1:${world.gateway.port}${path}`, body && post);
  return answer.json();
}
const runsOf = async (world, id) => (await api(world, `/v1/runs?limit=100&conversation_id=${id}`)).data;
/** What a person said in a chat, as the server has it. */
async function asked(world, id) {
  const { data } = await api(world, `/v1/conversations/${id}/messages?limit=100`);
  return data.filter(({ role }) => role === "user").map(({ content }) => JSON.parse(content[0].text).turns.at(-1).text);
}
async function eventsOf(world, run) {
  const journal = await (await fetch(`http://127.0.0.1:${world.gateway.port}/v1/runs/${run}/events?follow=false&format=ndjson`)).text();
  return journal.trim().split("\n").map((line) => JSON.parse(line).event.type);
}

/** A new chat with one message, in the page. Returns its ID. */
async function begin(page, ...turns) {
  await newChat(page);
  await page.getByRole("heading", { name: "What should be done?" }).waitFor();
  await ask(page, script(...turns));
  await until("the chat has an address", () => idOf(page));
  return idOf(page);
}

/** A chat that waits for an approval. */
async function beginHeld(page, end) {
  const id = await begin(page, { calls: [HELD] }, { text: end });
  await dock(page).waitFor();
  return id;
}

async function approveAll(world, id) {
  for (const { run_id: run } of await runsOf(world, id)) {
    for (const { call_id: one } of (await api(world, `/v1/runs/${run}`)).calls) await api(world, `/v1/runs/${run}/calls/${one}/approve`, { decision: "approve" });
  }
}

test("eight chats wait for a person at once, each is answered, and the journal has every decision", async (world) => {
  const page = await world.page();
  const ids = [];
  for (let n = 1; n <= 8; n += 1) ids.push(await beginHeld(page, `Held ${n}.`));
  assert.equal(new Set(ids).size, 8);
  for (const id of ids) {
    await go(page, id);
    await dock(page).waitFor();
    await button(page, /^Deny/).click();
    await cardSays(page, "props/add", "denied");
    const [{ run_id: run }] = await runsOf(world, id);
    assert.ok((await eventsOf(world, run)).includes("approval_resolved"), "what is shown as denied is denied");
    await says(page, "Held ");
  }
});

test("a decision without an answer is not shown as made, and says so within three seconds", async (world) => {
  const page = await world.page();
  const id = await beginHeld(page, "Decided.");
  let isHeld = true;
  await page.route("**/approve", async (route) => {
    await until("it may go", () => !isHeld);
    await route.continue();
  });
  await button(page, /^Approve A/).click();
  await dock(page).getByText("No answer from the server yet.").waitFor({ timeout: 3000 });
  await cardSays(page, "props/add", "needs approval");
  const [{ run_id: run }] = await runsOf(world, id);
  assert.ok(!(await eventsOf(world, run)).includes("approval_resolved"));
  await world.picture(page, "no-answer-1280-light");
  isHeld = false;
  await says(page, "Decided.");
});

test("a hidden tab and a chat that was left hold no connection, and read on later", async (world) => {
  const page = await world.page();
  const open = new Set();
  page.on("request", (request) => /\/events$|\/changes$/.test(request.url()) && open.add(request));
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => open.delete(request));
  await page.reload();
  const id = await beginHeld(page, "Read on.");
  await until("two are held", () => open.size === 2);
  await newChat(page);
  await until("the list is held alone", () => open.size === 1);
  await go(page, id);
  await until("two are held again", () => open.size === 2);
  const show = (isHidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  await show(true);
  await until("none is held", () => open.size === 0);
  await approveAll(world, id);
  await show(false);
  await says(page, "Read on.");
});

test("a message that is changed in one chat deletes nothing in another", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  await message(page).fill("a draft for beta");
  const alpha = await begin(page, { text: "In alpha." });
  await says(page, "In alpha.");
  await message(page).fill("a draft for alpha");
  await button(page, "Edit and send again").first().click();
  await page.getByText("replaces this message").waitFor();
  await go(page, beta);
  await says(page, "In beta.");
  assert.equal(await page.getByText("replaces this message").count(), 0, "it is alpha that is edited");
  assert.equal(await message(page).inputValue(), "a draft for beta");
  await ask(page, script({ text: "Also in beta." }));
  await says(page, "Also in beta.");
  assert.deepEqual(await asked(world, beta), ["In beta.", "Also in beta."]);
  await go(page, alpha);
  await page.getByText("replaces this message").waitFor();
  await ask(page, script({ text: "Instead in alpha." }));
  await says(page, "Instead in alpha.");
  assert.deepEqual(await asked(world, alpha), ["Instead in alpha."]);
  assert.equal(await message(page).inputValue(), "a draft for alpha", "the draft comes back");
});

test("what is queued waits for its own chat, over other pages, other chats and a reload", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  const alpha = await beginHeld(page, "In alpha.");
  await page.getByLabel("Attach files").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a note") }]);
  await ask(page, script({ text: "Then in alpha." }));
  const next = page.locator(".queued", { hasText: "Next: " });
  await next.getByText("notes.txt").waitFor();
  await world.picture(page, "queued-1280-light");
  await go(page, beta);
  await says(page, "In beta.");
  assert.equal(await next.count(), 0);
  await page.evaluate(() => (location.hash = "#/servers"));
  await page.getByRole("heading", { name: "MCP servers" }).waitFor();
  await page.goto(`${world.url}/#/c/${alpha}`);
  await page.reload();
  await next.getByText("notes.txt").waitFor();
  await go(page, beta);
  await message(page).fill("half a sen");
  await approveAll(world, alpha);
  await until("it is sent, to alpha", async () => (await asked(world, alpha)).length === 2);
  assert.deepEqual(await asked(world, beta), ["In beta."]);
  assert.equal(idOf(page), beta, "the person stays where they read");
  assert.equal(await message(page).inputValue(), "half a sen");
  await go(page, alpha);
  await says(page, "Then in alpha.");
  await page.locator(".you").getByText("notes.txt").waitFor();
  assert.equal(await next.count(), 0);
});

test("what is queued survives a server that dies, and is taken back with its files", async (world) => {
  const page = await world.page();
  const alpha = await beginHeld(page, "In alpha.");
  await world.gateway.kill();
  await ask(page, script({ text: "Then in alpha." }));
  await page.getByText(/^Next: /).waitFor();
  await newChat(page);
  await world.gateway.restart();
  await until("the list is there again", async () => (await page.locator(".lamp", { hasText: "live" }).count()) > 0);
  await page.reload();
  await page.locator(`a.thread[href="#/c/${alpha}"]`).waitFor();
  assert.deepEqual((await runsOf(world, alpha)).length, 1, "it waits");
  await go(page, alpha);
  await dock(page).waitFor();
  await page.getByText(/^Next: /).waitFor();
  await page.getByLabel("Attach files").setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a note") }]);
  await ask(page, "one more");
  await page.getByText(/^Next: .*notes.txt/s).waitFor();
  await button(page, "Take back").click();
  await page.getByRole("list", { name: "Attached files" }).getByText("notes.txt").waitFor();
  assert.match(await message(page).inputValue(), /Then in alpha.*one more$/s);
});

test("an attached file stays in its chat, also after a reload", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  const alpha = await begin(page, { text: "In alpha." });
  await says(page, "In alpha.");
  await page.getByLabel("Attach files").setInputFiles([{ name: "salary.txt", mimeType: "text/plain", buffer: Buffer.from("secret") }]);
  const attached = page.getByRole("list", { name: "Attached files" });
  await attached.getByText("salary.txt").waitFor();
  await go(page, beta);
  await says(page, "In beta.");
  assert.equal(await page.getByText("salary.txt").count(), 0);
  await go(page, alpha);
  await attached.getByText("salary.txt").waitFor();
  await page.reload();
  await attached.getByText("salary.txt").waitFor();
  await ask(page, script({ text: "Got it." }));
  await says(page, "Got it.");
  await page.locator(".you").getByText("salary.txt").waitFor();
});

test("what was typed into a question is there again when one comes back", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  const alpha = await beginHeld(page, "In alpha.");
  await page.getByLabel(/Reason for a denial/).fill("not today");
  await dock(page).getByRole("button", { name: "Edit" }).click();
  await page.getByLabel("a", { exact: true }).fill("6");
  await go(page, beta);
  await says(page, "In beta.");
  await go(page, alpha);
  await button(page, /^Approve with 1 change/).waitFor();
  assert.equal(await page.getByLabel("a", { exact: true }).inputValue(), "6");
  assert.equal(await page.getByLabel(/Reason for a denial/).inputValue(), "not today");
});

test("a message that arrives late moves nobody, and one that is refused is a draft again", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  await newChat(page);
  await world.gateway.kill();
  await ask(page, script({ text: "Late." }));
  await page.locator(".you", { hasText: "Late." }).waitFor();
  await go(page, beta);
  await says(page, "In beta.");
  assert.equal(await page.getByText("Sending…").count(), 0);
  await message(page).fill("half a sen");
  const rail = page.getByRole("navigation", { name: "Turnwire" });
  await rail.getByRole("heading", { name: "Not sent yet" }).waitFor();
  await world.picture(page, "not-sent-1280-light");
  await world.gateway.restart();
  await until("it was sent", async () => (await rail.getByRole("heading", { name: "Not sent yet" }).count()) === 0);
  assert.equal(idOf(page), beta);
  assert.equal(await message(page).inputValue(), "half a sen");
  const runs = (await api(world, "/v1/runs?limit=5")).data.filter(({ title }) => title.includes("Late."));
  assert.equal(runs.length, 1, "and once");
  assert.notEqual(runs[0].conversation_id, beta);
  await page.route("**/chat/stream", (route) => route.fulfill({ status: 400, json: { error: { message: "Not like this.", code: "invalid", type: "invalid_request_error" } } }));
  await ask(page, "refused");
  await page.getByText("Not like this.").waitFor();
  assert.equal(await message(page).inputValue(), "refused");
});

test("Esc has one meaning in each place, and an input method keeps its keys", async (world) => {
  const page = await world.page();
  const id = await beginHeld(page, "Over.");
  const [{ run_id: run }] = await runsOf(world, id);
  const isOver = async () => (await eventsOf(world, run)).includes("run_finished");
  const search = page.getByLabel("Search chats");
  const reason = page.getByLabel(/Reason for a denial/);
  await search.fill("be");
  await page.keyboard.press("Escape");
  assert.equal(await search.inputValue(), "");
  await reason.fill("no");
  await page.keyboard.press("Escape");
  assert.equal(await reason.inputValue(), "no", "what was typed stays");
  assert.ok(await dock(page).evaluate((one) => one === document.activeElement), "the focus goes back to the question");
  await message(page).fill("に");
  for (const [key, init] of [["Escape", { isComposing: true }], ["Enter", { isComposing: true }], ["Enter", { keyCode: 229 }]]) {
    await message(page).evaluate((field, more) => field.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...more })), { key, ...init });
  }
  await page.keyboard.press("Escape");
  assert.equal(await message(page).inputValue(), "に", "it is neither sent nor emptied");
  await page.evaluate((to) => (location.hash = `#/run/${to}`), run);
  await page.getByPlaceholder("Filter").fill("tool");
  await page.keyboard.press("Escape");
  await go(page, id);
  assert.equal(await isOver(), false, "nothing has stopped the run");
  await message(page).fill("");
  await message(page).press("Escape");
  await page.getByText("Esc again stops the run").first().waitFor();
  assert.equal(await isOver(), false);
  await page.keyboard.press("Escape");
  await until("it is stopped", isOver);
});

test("A and D decide where their hints are shown, and are letters where they are not", async (world) => {
  const page = await world.page();
  await begin(page, { calls: [HELD, call("add", { a: 3, b: 3 })] }, { text: "Both decided." });
  await dock(page).getByText("1 of 2").waitFor();
  // The person has just written, so the question waits for a moment and then has the focus.
  await button(page, /^Approve A/).waitFor();
  await message(page).focus();
  await button(page, "Approve", { exact: true }).waitFor();
  await page.keyboard.press("a");
  assert.equal(await message(page).inputValue(), "a");
  await message(page).fill("");
  await page.locator(".log").focus();
  await button(page, /^Approve A/).waitFor();
  await until("A approves", async () => (await page.keyboard.press("a"), (await dock(page).getByText("of 2").count()) === 0));
  await button(page, /^Deny D/).waitFor();
  await until("D denies", async () => (await page.keyboard.press("d"), (await dock(page).count()) === 0));
  await says(page, "Both decided.");
  assert.deepEqual((await page.locator("details.tool summary .word").allTextContents()).toSorted(), ["denied", "done"]);
  assert.equal(await message(page).inputValue(), "");
});

test("a deleted chat stays deleted, and one that is not there says so", async (world) => {
  const page = await audited(world, { width: 1280, height: 800 });
  const id = await begin(page, { text: "Soon gone." });
  await says(page, "Soon gone.");
  const link = page.locator(`a.thread[href="#/c/${id}"]`);
  const appeared = () => page.addInitScript((href) => new MutationObserver(() => (window.wasListed ||= !!document.querySelector(href))).observe(document, { childList: true, subtree: true }), `a.thread[href="#/c/${id}"]`);
  await link.waitFor();
  await button(page, "Delete this chat").click();
  await button(page, "Delete", { exact: true }).last().click();
  await until("it is gone", async () => (await link.count()) === 0);
  await appeared();
  await page.reload();
  await page.locator(".threads, .thread").first().waitFor();
  for (const gone of [id, `conv_${"0".repeat(32)}`]) {
    await page.goto(`${world.url}/#/c/${gone}`);
    await page.getByRole("heading", { name: "This chat does not exist" }).waitFor();
    assert.equal(await message(page).count(), 0);
  }
  await noViolations(page, world, "a chat that is not there");
  await world.picture(page, "no-chat-1280-light");
  assert.equal(await page.evaluate(() => window.wasListed ?? false), false, "not even for a moment");
  // One that is deleted elsewhere, with something written for it here.
  const other = await begin(page, { text: "Deleted elsewhere." });
  await says(page, "Deleted elsewhere.");
  await message(page).fill("not lost");
  await fetch(`http://127.0.0.1:${world.gateway.port}/v1/conversations/${other}`, { method: "DELETE" });
  await page.reload();
  await page.getByText("Not sent: not lost").waitFor();
  await until("it is listed no more", async () => (await page.locator(`a.thread[href="#/c/${other}"]`).count()) === 0);
});

test("chats before the newest runs are listed and found", async (world) => {
  const page = await world.page();
  const old = await begin(page, { text: "An old needle." });
  await says(page, "An old needle.");
  await begin(page, { text: "A new one." });
  await says(page, "A new one.");
  const link = page.locator(`a.thread[href="#/c/${old}"]`);
  // The newest page of the list has one run, as if all others of it belonged to no chat.
  let hasMore = true;
  await page.route(/\/v1\/runs\?limit=100$/, async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, data: answer.data.slice(0, 1), last_id: answer.data[0].run_id, has_more: hasMore } });
  });
  await page.reload();
  await link.waitFor();
  hasMore = false;
  await page.reload();
  await page.locator("a.thread").first().waitFor();
  assert.equal(await link.count(), 0);
  await page.getByLabel("Search chats").fill("old needle");
  await link.waitFor();
});

test("one's own message is shown, and a chat is where it was left", async (world) => {
  const page = await world.page();
  const beta = await begin(page, { text: "In beta." });
  await says(page, "In beta.");
  const alpha = await begin(page, { text: "line\n\n".repeat(120) });
  const log = page.locator(".log");
  const top = () => log.evaluate((one) => one.scrollTop);
  await page.locator(".foot").waitFor();
  await log.evaluate((one) => (one.scrollTop = 300));
  await until("it is there", async () => (await top()) === 300);
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  await go(page, beta);
  await says(page, "In beta.");
  await go(page, alpha);
  await until("it is where it was left", async () => (await top()) === 300);
  await ask(page, script({ text: "Second." }));
  await says(page, "Second.");
  assert.ok(
    await page.locator(".you", { hasText: "Second." }).evaluate((one) => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0),
    "it is on the screen",
  );
});

test("a call that was denied or stopped is not called failed", async (world) => {
  const page = await world.page({ width: 390, height: 800 });
  await ask(page, script({ calls: [HELD, call("add", { a: 3, b: 3 }), call("fail", { message: "no luck" })] }, { text: "None of them." }));
  for (const n of [1, 2]) {
    await button(page, /^Deny/).click();
    await until(`${n} are denied`, async () => (await page.locator("details.tool .word", { hasText: "denied" }).count()) === n);
  }
  await says(page, "None of them.");
  const head = page.locator(".group-h");
  await head.getByText("2 denied").waitFor();
  await head.getByText("1 failed").waitFor();
  await page.locator(".foot", { hasText: "3 tools · 1 failed" }).waitFor();
  await world.picture(page, "denied-390-light");
});

test("a folded card says that its tool is silent, and stops it", async (world) => {
  const page = await audited(world, { width: 390, height: 800, scheme: "dark" });
  await ask(page, script({ calls: [call("wait_for_cancel")] }, { text: "Went on." }));
  await cardSays(page, "props/wait_for_cancel", "running");
  await page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 20_000;
  });
  await page.getByText(/^No update for 0:2\d\. It may still be at work\.$/).waitFor();
  await noViolations(page, world, "a silent tool");
  await world.picture(page, "silent-390-dark");
  await button(page, "Stop tool").click();
  await cardSays(page, "props/wait_for_cancel", "stopped");
  await says(page, "Went on.");
  assert.equal(await page.getByText(/^No update for/).count(), 0);
});

test("Copy says when it cannot", async (world) => {
  const page = await world.page();
  await begin(page, { text: "Copy me." });
  await says(page, "Copy me.");
  for (const [allows, says] of [[false, /^Not copied/], [true, /^Copied$/]]) {
    await page.evaluate((value) => {
      Object.defineProperty(navigator, "clipboard", { configurable: true, value: undefined });
      document.execCommand = () => ((window.copied = getSelection().toString() || document.activeElement.value), value);
    }, allows);
    await button(page, "Copy the answer").click();
    await button(page, says).waitFor();
    assert.equal(await page.evaluate(() => window.copied), "Copy me.");
    await button(page, "Copy the answer").waitFor();
  }
});

test("a tool server that is broken is told of once in a chat", async (world) => {
  const broken = await Gateway.start('[mcp_servers.broken]\ncommand = "/no/such/program"\n', { args: ["--demo"] });
  const page = await world.page({ url: `http://127.0.0.1:${broken.port}/` });
  for (const n of [1, 2, 3]) {
    await ask(page, `multiply ${n} and 4`);
    await says(page, `${n} times 4 is ${n * 4}.`);
  }
  assert.equal(await page.locator(".notice", { hasText: "The tools of broken are missing" }).count(), 1);
  await broken.kill();
});

test("two tabs have the same drafts and the same queue, which is sent once", async (world) => {
  const page = await world.page();
  const id = await beginHeld(page, "In both.");
  const second = await world.tab(page.context(), page.url());
  await dock(second).waitFor();
  await ask(page, script({ text: "Then once." }));
  await second.getByText(/^Next: /).waitFor();
  await message(second).fill("from the second");
  await until("the first has it", async () => (await message(page).inputValue()) === "from the second");
  await approveAll(world, id);
  for (const tab of [page, second]) await says(tab, "Then once.");
  assert.equal((await runsOf(world, id)).length, 2);
  for (const tab of [page, second]) assert.equal(await tab.getByText(/^Next: /).count(), 0);
});

test("a message whose answer is lost is sent again after a reload, and has one run", async (world) => {
  const page = await world.page();
  let [sent, isLost] = [0, true];
  await page.route("**/chat/stream", async (route) => {
    sent += 1;
    if (!isLost) return route.continue();
    void route.fetch().catch(() => undefined);
  });
  const [text, chats] = [script({ text: "Only once." }), () => api(world, "/v1/runs?limit=100&q=Only+once")];
  await ask(page, text);
  await until("the server has it", async () => (await chats()).data.length === 1);
  await page.locator(".status", { hasText: "No answer from the server yet." }).waitFor();
  isLost = false;
  await page.reload();
  await says(page, "Only once.");
  assert.ok(sent >= 2);
  assert.equal((await chats()).data.length, 1);
  assert.deepEqual(await asked(world, idOf(page)), ["Only once."]);
});
