// What is easily forgotten: keys alone, long names, many tools, everything wrong at once.

import assert from "node:assert/strict";
import { ask, audited, button, card, cardSays, noSideways, noViolations, says, test } from "./acts.mjs";
import { call, script, until } from "./world.mjs";

const LONG_NAME = `a_tool_with_a_name_${"of_eighty_characters_".repeat(4)}`.slice(0, 80);
const GERMAN = "Donaudampfschifffahrtsgesellschaftskapitänswitwenrentenauszahlungsstellenleiterin";

/** Presses Tab until what has the focus is called so; the rail has the chats of all checks. */
async function tabTo(page, name) {
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.labels?.[0]?.textContent ?? document.activeElement?.textContent ?? "");
  for (let n = 0; n < 250; n += 1) {
    await page.keyboard.press("Tab");
    if (name.test((await focused()).trim())) return;
  }
  assert.fail(`Tab never reaches ${name}`);
}

test("keys alone: ask, change arguments, approve, stop, open an event, share", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  await tabTo(page, /^Message/);
  await page.keyboard.insertText(script({ calls: [call("add", { a: 5, b: 4 })] }, { calls: [call("wait_for_cancel")] }, { text: "Over." }));
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Waits for you" }).waitFor();
  await page.locator(".log").focus();
  await until("E opens the arguments", async () => {
    await page.keyboard.press("e");
    return (await page.getByLabel("a", { exact: true }).count()) > 0;
  });
  await tabTo(page, /^a\b/);
  await page.keyboard.press("Control+a");
  await page.keyboard.type("6");
  await tabTo(page, /^Approve with 1 change/);
  await page.keyboard.press("Enter");
  await cardSays(page, "props/add", "done");
  await cardSays(page, "props/wait_for_cancel", "running");
  await page.locator(".log").focus();
  await page.keyboard.press("Escape");
  await page.getByText("Esc again stops the run").first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByText(/Stopped by you/).waitFor();
  await page.keyboard.press("t");
  await page.getByRole("group", { name: "Lanes" }).waitFor();
  await tabTo(page, /^Share/);
  await page.keyboard.press("Enter");
  await tabTo(page, /^Make a link/);
  await page.keyboard.press("Enter");
  await button(page, "Revoke").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("listbox", { name: "Events" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.getByRole("group", { name: /^Event \d+/ }).waitFor();
});

test("a long name, 20 kB of arguments, 50 tools and long words break nothing, at 320 px and at 200 %", async (world) => {
  const text = `${GERMAN} `.repeat(250);
  const many = Array.from({ length: 48 }, (_, n) => call("echo", { text: `${GERMAN} ${n}` }));
  const turns = script({ text: `# ${GERMAN}\n\n| ${GERMAN} | ${GERMAN} |\n|---|---|\n| 1 | 2 |\n`, calls: [...many, call(LONG_NAME, {}), call("add", { a: 1, b: 2, note: text })] }, { text: "All of it." });
  // At 200 % a window of 1280 px has 640 of them.
  for (const width of [320, 640]) {
    const page = await audited(world, { width, height: 800, scheme: width === 320 ? "dark" : "light" });
    await ask(page, turns);
    const dock = page.getByRole("region", { name: "Waits for you" });
    await dock.waitFor();
    await page.locator("details.tool summary", { hasText: LONG_NAME }).waitFor();
    const shown = await dock.textContent();
    assert.equal(shown.split(GERMAN).length - 1, 250, "the arguments of an approval are complete");
    for (const name of [/^Approve( A)?$/, /^Deny/]) {
      const box = await button(page, name).first().boundingBox();
      assert.ok(box.y + box.height <= 800 && box.x + box.width <= width, `${name} is on the screen at ${width} px`);
    }
    await noSideways(page, `${width} px`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page does not scroll sideways");
    await noViolations(page, world, `long words at ${width} px`);
    await world.picture(page, `long-${width}`);
    await button(page, /^Deny/).click();
    await says(page, "All of it.");
    await page.getByText(/50 tools/).first().waitFor();
    await page.context().close();
  }
});

test("a failure, an approval and a lost line at once: one thing is loud, answers wait with the reason, open cards stay open", async (world) => {
  const page = await audited(world, { width: 1440, height: 900, scheme: "dark" });
  await ask(page, script({ calls: [call("structured"), call("fail", { message: "no luck" }), call("add", { a: 1, b: 2 })] }, { text: "After all." }));
  await cardSays(page, "props/fail", "failed");
  await cardSays(page, "props/add", "needs approval");
  await card(page, "props/structured").locator("summary").click();
  const isOpen = () => card(page, "props/structured").evaluate((one) => one.open);
  assert.equal(await isOpen(), true);
  world.line.cut();
  await page.getByText("Connection lost.").first().waitFor();
  const approve = button(page, /^Approve A/);
  await until("answers wait", () => approve.isDisabled());
  await page.getByRole("region", { name: "Waits for you" }).getByText(/connection/i).first().waitFor();
  await noViolations(page, world, "everything at once");
  await world.picture(page, "all-at-once-1440-dark");
  world.line.mend();
  await until("answers are possible", () => approve.isEnabled());
  assert.equal(await isOpen(), true, "what the person opened is still open");
  await approve.click();
  await says(page, "After all.");
});
