// Pictures of the page, for README: the same moments in light and dark, and one on a phone.
// `node pictures.mjs FOLDER`; see scripts/pictures for the variables.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Gateway, openBrowser, stopEverything } from "../test/browser/world.mjs";

const [folder] = process.argv.slice(2);
const { QUESTION } = process.env;
const PATIENCE = 60_000;
const QUALITY = 0.82;

/** WebP, which the browser makes itself: a fifth of the size of PNG. */
async function save(page, name) {
  const png = await page.screenshot({ animations: "disabled", caret: "hide" });
  const blank = await page.context().newPage();
  const data = await blank.evaluate(
    async ([base64, quality]) => {
      const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
      const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
      canvas.getContext("2d").drawImage(image, 0, 0);
      return canvas.toDataURL("image/webp", quality).split(",")[1];
    },
    [png.toString("base64"), QUALITY],
  );
  await blank.close();
  writeFileSync(join(folder, `${name}.webp`), Buffer.from(data, "base64"));
}

async function both(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await save(page, `${name}-${colorScheme}`);
  }
}

/** Asks, and waits for the moment that is worth a picture: something waits for the person. */
async function ask(page, url) {
  page.setDefaultTimeout(PATIENCE);
  await page.goto(url);
  await page.getByLabel("Message").fill(QUESTION);
  await page.keyboard.press("Enter");
  const waits = page.getByRole("region", { name: "Waits for you" });
  await waits.or(page.locator(".foot")).first().waitFor();
  // If other tools work meanwhile, one is done and one is seen at work.
  for (const sight of [page.locator('details.tool[data-st="done"]'), page.getByRole("progressbar")]) {
    await sight.first().waitFor({ timeout: 4000 }).catch(() => undefined);
  }
  return waits;
}

const gateway = await Gateway.start("", { args: ["--demo"] });
const url = `http://127.0.0.1:${gateway.port}`;
const browser = await openBrowser();
try {
  const wide = await (await browser.newContext({ viewport: { width: 1360, height: 880 }, deviceScaleFactor: 1.5, reducedMotion: "reduce" })).newPage();
  const waits = await ask(wide, url);
  await both(wide, "chat");
  if (await waits.count()) await wide.getByRole("button", { name: /^Approve A/ }).click();
  await wide.locator(".foot").waitFor();
  await wide.getByRole("link", { name: "Timeline" }).click();
  await wide.getByRole("group", { name: "Lanes" }).waitFor();
  await both(wide, "timeline");
  const phone = await (await browser.newContext({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, colorScheme: "dark", reducedMotion: "reduce", hasTouch: true, isMobile: true })).newPage();
  await ask(phone, url);
  await save(phone, "phone");
} finally {
  await browser.close();
  await stopEverything();
}
process.exit(0);
