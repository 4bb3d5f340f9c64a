// The stories of a person with a chat: tools, approvals, questions, lost lines, dead servers.

import assert from "node:assert/strict";
import { ANSWER, THREE, ask, audited, bestOf, button, card, cardSays, listen, noSideways, noViolations, says, test, times } from "./acts.mjs";
import { call, script, until, turnwire } from "./world.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

test("A9 the page comes with its policy and paints within a second", async (world) => {
  const page = await world.page();
  const response = await page.reload();
  assert.match(response.headers()["content-security-policy"], /script-src 'self'/);
  assert.doesNotMatch(response.headers()["content-security-policy"], /unsafe/);
  const best = await bestOf(5, 1000, async () => {
    const fresh = await world.page();
    await fresh.getByLabel("Message").waitFor();
    const paint = await until("the first paint", () => fresh.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime));
    await fresh.context().close();
    return paint;
  });
  return `first paint ${Math.round(best)} ms`;
});

test("S3-15 S3-16 three tools: one works, one fails, one needs the person", async (world) => {
  const page = await world.page({ width: 1440, height: 900, scheme: "dark" });
  const heard = await listen(page);
  await ask(page, THREE);
  await page.locator(".you").first().waitFor();
  await button(page, /^Stop/).first().waitFor();
  await cardSays(page, "props/structured", "done");
  await cardSays(page, "props/fail", "failed");
  await cardSays(page, "props/add", "needs approval");
  assert.equal(await card(page, "props/fail").getAttribute("open"), "");
  await card(page, "props/fail").getByText("unit tests: 2 failed").first().waitFor();
  await page.getByRole("region", { name: "Waits for you" }).getByText("props/add").waitFor();
  await page.getByRole("heading", { name: "3 tools" }).waitFor();
  await page.locator(".status", { hasText: "Waits for you" }).waitFor();
  // The word of a state has its colour; the icon and the word say the same without it.
  const colour = (name) => card(page, name).locator("summary .word").evaluate((one) => getComputedStyle(one).color);
  const colours = await Promise.all(["props/structured", "props/fail", "props/add"].map(colour));
  assert.equal(new Set(colours).size, 3, colours);
  await world.picture(page, "approval-1440-dark");
  await button(page, /^Approve A/).click();
  await cardSays(page, "props/add", "done");
  await says(page, ANSWER);
  await page.getByText(/3 tools · 1 failed/).waitFor();
  assert.equal(await times(page, ANSWER), 1);
  await until("the end is announced", async () => (await heard()).some((text) => text.includes("Answer ready")));
  const all = await heard();
  assert.ok(all.includes("Approval needed: add"), all);
  assert.ok(all.length <= 10, all);
  for (const word of ["Two of three", "look into"]) assert.ok(!all.join(" ").includes(word), all);
  await world.picture(page, "done-1440-dark");
});

test("an approval that is answered elsewhere leaves the page, and a second answer changes nothing", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("add", { a: 3, b: 4 })] }, { text: "Answered elsewhere." }));
  const dock = page.getByRole("region", { name: "Waits for you" });
  await dock.getByText("props/add").waitFor();
  const run = await page.locator("[data-run]").last().getAttribute("data-run");
  const path = `${world.url}/v1/runs/${run}`;
  const [{ call_id: id }] = (await (await fetch(path)).json()).calls;
  const answer = (decision) =>
    fetch(`${path}/calls/${id}/approve`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ decision }) });
  assert.equal((await answer("approve")).status, 200);
  await says(page, "Answered elsewhere.");
  assert.equal(await dock.count(), 0);
  assert.equal((await answer("deny")).status, 409);
  await cardSays(page, "props/add", "done");
});

test("an approval that is answered in the terminal closes the bar of the page", async (world) => {
  const page = await world.page();
  const heard = await listen(page);
  await ask(page, script({ calls: [call("add", { a: 30, b: 4 }), call("add", { a: 1, b: 1 })] }, { text: "Decided in the terminal." }));
  const dock = page.getByRole("region", { name: "Waits for you" });
  await dock.getByText("1 of 2").waitFor();
  const run = await page.locator("[data-run]").last().getAttribute("data-run");
  const runs = (...args) => turnwire("runs", ...args, "--server", world.url);
  const several = await runs("approve", run);
  assert.equal(several.code, 2, several.err);
  const [first, second] = [...several.err.matchAll(/(call_\S+)/g)].map(([id]) => id);
  // A draft of the person is not lost to an answer that comes from elsewhere.
  await page.getByLabel("Message").fill("a draft");
  const denied = await runs("approve", run, second, "--deny", "--reason", "one is enough");
  assert.equal(denied.code, 0, denied.err);
  await until("one is left", async () => (await dock.getByText("1 of 2").count()) === 0);
  await dock.getByText("30").first().waitFor();
  const approved = await runs("approve", run, first);
  assert.equal(approved.code, 0, approved.err);
  await until("the bar is closed", async () => (await dock.count()) === 0);
  await says(page, "Decided in the terminal.");
  const words = await page.locator("details.tool summary .word").allTextContents();
  assert.deepEqual(words, ["done", "denied"]);
  const deniedCard = page.locator("details.tool", { hasText: "denied" });
  await deniedCard.locator("summary").click();
  await deniedCard.getByText("one is enough").first().waitFor();
  assert.equal(await page.getByLabel("Message").inputValue(), "a draft");
  await until("it is announced", async () => (await heard()).some((text) => text.includes("add approved")));
});

test("C15 arguments are changed, and the result is that of the change", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("add", { a: 5, b: 4 })] }, { text: "Added." }));
  await button(page, "Edit").last().click();
  await page.getByLabel("a", { exact: true }).fill("6");
  await page.getByText("changed by you").waitFor();
  await button(page, /Approve with 1 change/).click();
  await says(page, "Added.");
  await card(page, "props/add").locator("summary").click();
  await card(page, "props/add").getByText("Arguments of the model").first().waitFor();
  await card(page, "props/add").locator(".result").getByText("10").waitFor();
});

test("a denial has its reason, by keys alone", async (world) => {
  const page = await world.page({ width: 320, height: 700, scheme: "dark" });
  await ask(page, script({ calls: [call("add", { a: 1, b: 1 })] }, { text: "Not added." }));
  await page.getByLabel(/Reason for a denial/).fill("not today");
  await world.picture(page, "approval-320-dark");
  const box = await button(page, /^Deny/).boundingBox();
  assert.ok(box.y > 350 && box.y + box.height <= 700, "Deny is in the lower half of the screen");
  await noSideways(page, "the approval");
  // Letters do nothing while a text field has the focus, and nothing in the first half second.
  await page.keyboard.press("d");
  assert.equal(await page.getByLabel(/Reason for a denial/).inputValue(), "not todayd");
  await page.getByLabel(/Reason for a denial/).fill("not today");
  await page.locator(".log").focus();
  await until("the key denies", async () => {
    await page.keyboard.press("d");
    return (await page.locator(".ask").count()) === 0;
  });
  await says(page, "Not added.");
  await cardSays(page, "props/add", "denied");
  await card(page, "props/add").locator("summary").click();
  await card(page, "props/add").getByText("not today").first().waitFor();
});

test("a tool asks, and the form answers", async (world) => {
  const page = await world.page({ scheme: "dark" });
  const heard = await listen(page);
  await ask(page, script({ calls: [call("task_that_asks")] }, { text: "Nice to meet you." }));
  const form = page.getByRole("region", { name: "Waits for you" });
  await form.getByText("props/task_that_asks").waitFor();
  await world.picture(page, "question-1280-dark");
  await form.getByRole("textbox").first().fill("Ada");
  await form.getByRole("button", { name: "Answer" }).click();
  await says(page, "Nice to meet you.");
  await card(page, "props/task_that_asks").getByText("hello, Ada").first().waitFor();
  await until("it was announced", async () => (await heard()).includes("task_that_asks asks a question"));
});

test("a reload and a second tab show the same run, and Stop works from both", async (world) => {
  const page = await world.page();
  const [answered, stopped] = [[], []];
  // How long the button takes to answer is measured in the page.
  await bestOf(4, 100, async () => {
    const texts = await page.getByText(/Stopped by you/).count();
    await ask(page, script({ text: "Wait. ", calls: [call("wait_for_cancel")] }, { text: "Done." }));
    const running = (tab) => tab.locator("details.tool summary .word", { hasText: "running" }).waitFor();
    await running(page);
    await page.reload();
    await running(page);
    const second = await world.tab(page.context(), page.url());
    await running(second);
    const took = await second.evaluate(
      () =>
        new Promise((resolve) => {
          const stop = [...document.querySelectorAll("button")].find((one) => one.textContent.startsWith("Stop "));
          const since = performance.now();
          new MutationObserver(() => stop.textContent.startsWith("Stopping") && resolve(performance.now() - since)).observe(stop, {
            childList: true,
            subtree: true,
            characterData: true,
          });
          stop.click();
        }),
    );
    const since = Date.now();
    for (const tab of [second, page]) await until("it is stopped", async () => (await tab.getByText(/Stopped by you/).count()) > texts);
    stopped.push(Date.now() - since);
    answered.push(took);
    await page.locator("details.tool summary .word", { hasText: "stopped" }).last().waitFor();
    await second.close();
    return took;
  });
  assert.ok(Math.min(...stopped) <= 2500, `${stopped} ms`);
  return `Stop answered in ${Math.round(Math.min(...answered))} ms, stopped everywhere in ${Math.min(...stopped)} ms`;
});

test("S2-Q3 several tools show as cards in order, also after a reload", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("echo", { text: "one" })] }, { calls: [call("structured"), call("fail", { message: "no" })] }, { text: "In order." }));
  await says(page, "In order.");
  const order = () => page.locator("details.tool summary code").allTextContents();
  const before = await order();
  assert.deepEqual(before, ["props/echo", "props/structured", "props/fail"]);
  await page.reload();
  await says(page, "In order.");
  assert.deepEqual(await order(), before);
});

test("S1-SC-001 one tool reports progress, is stopped, and the run goes on", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("slow", { seconds: 60, steps: 600 })] }, { text: "Went on." }));
  await card(page, "props/slow").getByRole("progressbar").waitFor();
  await card(page, "props/slow").getByText(/^step \d+/).waitFor();
  await page.locator(".status", { hasText: "Waiting for 1 tool" }).waitFor();
  await button(page, "Stop tool").click();
  await cardSays(page, "props/slow", "stopped");
  await says(page, "Went on.");
});

test("S4-X a card that is closed and opened while its tool reports stays as the person left it", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("slow", { seconds: 60, steps: 600 })] }, { text: "Went on." }));
  const slow = card(page, "props/slow");
  const step = async () => Number(/(\d+) of 600/.exec(await slow.textContent())?.[1]);
  await slow.getByRole("progressbar").waitFor();
  const before = await until("the first step", step);
  await slow.locator("summary").click();
  // Another second of reports, by the clock in the line that stays visible.
  const elapsed = async () => Number.parseFloat(await slow.locator("summary .t").textContent());
  const since = await elapsed();
  await until("a second has passed", async () => (await elapsed()) >= since + 1);
  assert.equal(await slow.getAttribute("open"), null, "nothing opens it again");
  assert.equal(await slow.getByRole("progressbar").count(), 0);
  await slow.locator("summary").click();
  const after = await until("it shows where the tool is now", step);
  assert.ok(after > before, `${after} after ${before}`);
  await button(page, "Stop tool").click();
  await cardSays(page, "props/slow", "stopped");
  await says(page, "Went on.");
  assert.equal(await slow.getAttribute("open"), "", "nothing closes it again");
});

test("the line is cut and mended: nothing is lost, nothing comes twice", async (world) => {
  const page = await world.page({ scheme: "dark" });
  let round = 0;
  const back = await bestOf(3, 1000, async () => {
    round += 1;
    const words = Array.from({ length: 120 }, (_, n) => `word${n}of${round}. `);
    await ask(page, script({ text: words, pace_ms: 40 }));
    await says(page, words[5].trim());
    await page.getByLabel("Message").fill("a draft");
    world.line.cut();
    await page.getByText("Connection lost.").first().waitFor();
    await world.picture(page, "disconnected-1280-dark");
    const run = await page.locator("[data-run]").last().getAttribute("data-run");
    const missed = await until("words are missed", async () => {
      const { text } = await (await fetch(`http://127.0.0.1:${world.gateway.port}/v1/runs/${run}`)).json();
      const last = text.trim().split(" ").at(-1);
      return (await times(page, last)) === 0 && last;
    });
    world.line.mend();
    const since = Date.now();
    await says(page, missed);
    const shown = Date.now() - since;
    await page.getByText("Back.").first().waitFor();
    await says(page, words[119].trim());
    for (const word of words) assert.equal(await times(page, word.trim()), 1, word);
    assert.equal(await page.getByLabel("Message").inputValue(), "a draft");
    return shown;
  });
  return `missed events shown after ${back} ms`;
});

test("the server dies at work: the run goes on, and an unknown outcome is said", async (world) => {
  const page = await world.page({ width: 1440, height: 900, scheme: "dark" });
  await ask(page, script({ text: "Careful. ", calls: [call("hang")] }, { text: "Please check." }));
  await cardSays(page, "props/hang", "running");
  await world.gateway.kill();
  await page.getByText(/Connection lost|Still trying|restarting/).first().waitFor();
  await world.gateway.restart();
  await cardSays(page, "props/hang", "outcome unknown");
  await says(page, "Please check.");
  await page.getByText(/Back on another worker, \S+\. The one before was last heard of at \d\d:\d\d:\d\d, .* earlier\./).first().waitFor();
  assert.equal(await times(page, "Careful."), 1);
  await world.picture(page, "unknown-1440-dark");
  await card(page, "props/hang").getByText("Run again").waitFor();
});

test("the server dies at work: a person settles the call, after a reload", async (world) => {
  const page = await audited(world, { width: 1440, height: 900, url: `http://127.0.0.1:${world.asking.port}/` });
  const heard = await listen(page);
  await ask(page, script({ calls: [call("hang")] }, { text: "It is settled." }));
  await cardSays(page, "props/hang", "running");
  await world.asking.kill();
  await world.asking.restart();
  const waits = page.getByRole("region", { name: "Waits for you" });
  await waits.getByRole("heading", { name: "Outcome unknown: props/hang" }).waitFor();
  await until("it is announced once", async () => (await heard()).filter((text) => text === "Outcome unknown: hang").length === 1);
  await page.reload();
  await waits.getByText("the server stopped while the tool was running").waitFor();
  await noViolations(page, world, "an outcome to be settled");
  await world.picture(page, "settle-1440-light");
  await waits.getByLabel("Result of the call").fill("branch 7 is gone");
  await waits.getByRole("button", { name: "Mark done" }).click();
  await says(page, "It is settled.");
  await cardSays(page, "props/hang", "done");
  await until("nothing waits", async () => (await waits.count()) === 0);
});

test("a failed call is repeated, a message is changed and sent again", async (world) => {
  const page = await world.page();
  await ask(page, script({ calls: [call("fail", { message: "no luck" })] }, { text: "First answer." }));
  await says(page, "First answer.");
  await button(page, "Edit and send again").first().click();
  await page.getByText("replaces this message").waitFor();
  await page.getByLabel("Message").fill(script({ calls: [call("fail", { message: "again" })] }, { text: "Second answer." }));
  await page.keyboard.press("Enter");
  await says(page, "Second answer.");
  await until("the first answer is gone", async () => (await times(page, "First answer.")) === 0);
  await page.reload();
  await says(page, "Second answer.");
  await until("it stays gone", async () => (await times(page, "First answer.")) === 0);
  await card(page, "props/fail").getByRole("button", { name: "Retry" }).click();
  await until("there is a second call", async () => (await page.locator("details.tool").count()) === 2);
});

test("files go with a message", async (world) => {
  const page = await world.page();
  const file = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a note") };
  const image = { name: "dot.png", mimeType: "image/png", buffer: Buffer.from(PIXEL, "base64") };
  await page.getByLabel("Attach files").setInputFiles([file, image]);
  await page.getByRole("list", { name: "Attached files" }).getByText("notes.txt").waitFor();
  await ask(page, script({ text: "Got both." }));
  await says(page, "Got both.");
  await page.locator(".you").getByText("notes.txt").waitFor();
  await page.locator(".you").getByRole("img", { name: "Attached image" }).waitFor();
  await page.reload();
  await page.locator(".you").getByRole("img", { name: "Attached image" }).waitFor();
});

test("threads are found, renamed and deleted", async (world) => {
  const page = await world.page();
  await ask(page, script({ text: "Hello there." }));
  await says(page, "Hello there.");
  await button(page, "Rename this chat").click();
  await page.getByLabel("Name", { exact: true }).fill("Plans for Tuesday");
  await button(page, "Rename", { exact: true }).last().click();
  const threads = page.getByRole("navigation", { name: "Turnwire" });
  await threads.getByRole("link", { name: /Plans for Tuesday/ }).waitFor();
  const other = await world.page();
  await other.getByRole("link", { name: /Plans for Tuesday/ }).waitFor();
  await page.getByLabel("Search chats").fill("no such chat");
  await page.getByText("No chat has this name.").waitFor();
  await page.getByLabel("Search chats").fill("tuesday");
  await threads.getByRole("link", { name: /Plans for Tuesday/ }).waitFor();
  await button(page, "Delete this chat").click();
  await button(page, "Delete", { exact: true }).last().click();
  await until("it is gone", async () => (await threads.getByRole("link", { name: /Plans for Tuesday/ }).count()) === 0);
});

test("A2 a key is asked for once and kept out of the address", async (world) => {
  const url = `http://127.0.0.1:${world.locked.port}`;
  const page = await world.page({ url, scheme: "dark" });
  await page.getByRole("heading", { name: /wants a key/ }).waitFor();
  await world.picture(page, "key-1280-dark");
  await page.getByLabel("API key").fill("wrong");
  await button(page, "Continue").click();
  await page.getByText("The key was not accepted").waitFor();
  await page.getByLabel("API key").fill("key-of-the-web-view-test");
  await button(page, "Continue").click();
  await button(page, "Check the release and clean the old branch").waitFor();
  await button(page, "multiply 5 and 4").click();
  await says(page, "5 times 4 is 20.");
  assert.ok(!page.url().includes("key-of"));
  await page.reload();
  await says(page, "5 times 4 is 20.");
});

test("a key of the store: refused, without the scope of the page, and good", async (world) => {
  const url = `http://127.0.0.1:${world.locked.port}`;
  const manage = (path, method, body) =>
    fetch(`${url}/v1/admin/keys${path}`, {
      method,
      headers: { authorization: "Bearer key-of-the-web-view-test", "content-type": "application/json" },
      body: body && JSON.stringify(body),
    }).then(async (answer) => (assert.ok(answer.ok, `${method} ${path}: ${answer.status}`), answer.json()));
  const [weak, revoked, good] = await Promise.all([["runs:write", "files"], ["runs:read"], ["runs:read", "runs:write"]].map((scopes) => manage("", "POST", { name: "page", scopes })));
  await manage(`/${revoked.key_id}`, "DELETE");
  const refused = () => fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${revoked.key}` } });
  await until("the server knows that it is revoked", async () => (await refused()).status === 401);
  const page = await world.page({ url });
  await page.getByText("turnwire keys create").waitFor();
  const type = async (key) => {
    await page.getByLabel("API key").fill(key);
    await button(page, "Continue").click();
  };
  const kept = () => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));
  await type(revoked.key);
  await page.getByText("it is unknown, has expired or was revoked").waitFor();
  await type(weak.key);
  await page.getByText("lacks the scope runs:read").waitFor();
  assert.equal(await page.getByText("has expired or was revoked").count(), 0, "a valid key is not called unknown");
  await page.getByRole("heading", { name: /wants a key/ }).waitFor();
  const held = await kept();
  assert.ok(!held.includes(weak.key) && !held.includes(revoked.key), held);
  await type(good.key);
  await button(page, "multiply 5 and 4").click();
  await says(page, "5 times 4 is 20.");
  assert.ok((await kept()).includes(good.key));
});

test("S2-F2 a card for each tool with its name, input and result, and tools side by side", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  const ms = [1000, 2000];
  await ask(page, script({ calls: ms.map((time) => call("slow", { seconds: time / 1000, steps: 4 })) }, { text: "Both are done." }));
  await says(page, "Both are done.");
  const cards = page.locator("details.tool");
  assert.equal(await cards.count(), 2);
  for (const [n, time] of ms.entries()) {
    const one = cards.nth(n);
    await one.locator("summary code", { hasText: "props/slow" }).waitFor();
    await one.locator("summary .word", { hasText: "done" }).waitFor();
    if ((await one.getAttribute("open")) === null) await one.locator("summary").click();
    assert.match(await one.locator(".args").textContent(), new RegExp(`"seconds": ?${time / 1000}\\b`));
    await one.locator(".body").getByText("4 steps").first().waitFor();
  }
  await page.getByRole("link", { name: "Timeline" }).click();
  const lanes = page.getByRole("group", { name: "Lanes" }).locator("li.lane");
  // The bars of a lane from its first start to its last end.
  const span = async (name) => {
    const lane = lanes.filter({ has: page.getByRole("button", { name }) });
    const boxes = await lane.evaluateAll((all) => all.map((one) => [...one.querySelectorAll(".bar")].map((bar) => bar.getBoundingClientRect().toJSON())));
    return boxes.map((bars) => ({ top: bars[0].top, from: Math.min(...bars.map((bar) => bar.left)), to: Math.max(...bars.map((bar) => bar.right)) }));
  };
  const [[first], [second], [short, long]] = [await span(/Turn 1/), await span(/Turn 2/), await span(/props\/slow/)];
  assert.notEqual(short.top, long.top, "a lane for each call");
  const width = ({ from, to }) => to - from;
  const shared = Math.min(short.to, long.to) - Math.max(short.from, long.from);
  assert.ok(shared > 0.8 * width(short), `${JSON.stringify([short, long])} are side by side`);
  assert.ok(width(long) > 1.5 * width(short), `${JSON.stringify([short, long])} are as long as their calls took`);
  assert.ok(first.to <= short.from + 1 && second.from >= long.to - 1, "the turns are before and behind them");
});

test("S2-F2 the timeline and the journal of a run", async (world) => {
  const page = await world.page({ width: 1440, height: 900, scheme: "dark" });
  await ask(page, THREE);
  await button(page, /^Approve A/).click();
  await says(page, ANSWER);
  await page.getByRole("link", { name: "Timeline" }).click();
  const lanes = page.getByRole("group", { name: "Lanes" });
  for (const name of [/Turn 1/, /props\/structured/, /props\/fail/, /props\/add/, /Turn 2/]) await lanes.getByRole("button", { name }).waitFor();
  await lanes.getByRole("button", { name: /props\/add/ }).click();
  await page.getByRole("region", { name: "Call of add" }).getByText("needs approval").first().waitFor();
  await page.getByLabel("Filter the events").fill("tool_finished");
  const events = page.getByRole("listbox", { name: "Events" });
  await until("three are left", async () => (await events.getByRole("option").count()) === 3);
  await events.getByRole("option").first().click();
  await page.getByRole("group", { name: /^Event \d+/ }).getByText('"tool_finished"').waitFor();
  await world.picture(page, "run-1440-dark");
});
