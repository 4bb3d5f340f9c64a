// A person with many chats: each has its own connection, drafts, files, queue and edits, and what is
// shown as done is done. What counts is what the server has.

import assert from "node:assert/strict";
import { ask, button, cardSays, says, test } from "./acts.mjs";
import { call, script, until } from "./world.mjs";

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
