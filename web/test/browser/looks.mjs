// What the eye sees: blurred, and without colour.

import assert from "node:assert/strict";
import { ANSWER, THREE, ask, button, cardSays, says, test } from "./acts.mjs";
import { call, script } from "./world.mjs";

/**
 * Blurs a picture of the page until no word can be read, and returns how much each part differs from
 * the ground of the page: the average of its colour distance, as the eye weighs it.
 */
async function weights(page, parts) {
  const boxes = {};
  for (const [name, part] of Object.entries(parts)) boxes[name] = await part.boundingBox();
  const picture = (await page.screenshot()).toString("base64");
  const judge = await page.context().newPage();
  const found = await judge.evaluate(
    async ([data, boxes]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${data}`;
      await image.decode();
      const scale = 4;
      const [width, height] = [image.width / scale, image.height / scale].map(Math.floor);
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [width, height];
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.filter = "blur(3.5px)";
      context.drawImage(image, 0, 0, width, height);
      const { data: pixels } = context.getImageData(0, 0, width, height);
      const counts = new Map();
      for (let n = 0; n < pixels.length; n += 4) {
        const key = ((pixels[n] >> 2) << 12) | ((pixels[n + 1] >> 2) << 6) | (pixels[n + 2] >> 2);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      const [[ground]] = [...counts].sort((one, other) => other[1] - one[1]);
      const [red, green, blue] = [ground >> 12, (ground >> 6) & 63, ground & 63].map((value) => value * 4 + 2);
      // Colour draws the eye more than grey does.
      const weight = (n) => {
        const [r, g, b] = [pixels[n] - red, pixels[n + 1] - green, pixels[n + 2] - blue];
        const grey = 0.3 * r + 0.59 * g + 0.11 * b;
        return Math.abs(grey) + 2 * (Math.abs(r - grey) + Math.abs(g - grey) + Math.abs(b - grey));
      };
      const average = ({ x, y, width: w, height: h }) => {
        let [sum, n] = [0, 0];
        const [right, bottom] = [Math.min((x + w) / scale, width), Math.min((y + h) / scale, height)];
        for (let row = Math.ceil(y / scale); row < bottom; row += 1) {
          for (let column = Math.ceil(x / scale); column < right; column += 1) {
            sum += weight((row * width + column) * 4);
            n += 1;
          }
        }
        return sum / Math.max(1, n);
      };
      return Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, average(box)]));
    },
    [picture, boxes],
  );
  await judge.close();
  return found;
}

/** The name of the heaviest part. */
const heaviest = (found) => Object.entries(found).sort((a, b) => b[1] - a[1])[0][0];

test("blurred, what needs the person is seen first, in both themes", async (world) => {
  const figures = [];
  for (const scheme of ["light", "dark"]) {
    const page = await world.page({ width: 1440, height: 900, scheme });
    await ask(page, THREE);
    await cardSays(page, "props/add", "needs approval");
    const parts = {
      dock: page.getByRole("region", { name: "Waits for you" }),
      rail: page.getByRole("navigation", { name: "Turnwire" }),
      composer: page.locator("form", { has: page.locator("#composer") }),
      done: page.locator("details.tool").first(),
      failed: page.locator("details.tool", { hasText: "unit tests" }).first(),
      question: page.locator(".you").last(),
    };
    const found = await weights(page, parts);
    assert.equal(heaviest(found), "dock", `${scheme}: ${JSON.stringify(found)}`);
    const second = Math.max(...Object.entries(found).filter(([name]) => name !== "dock").map(([, weight]) => weight));
    figures.push(`${scheme} ${(found.dock / second).toFixed(1)} times the next`);
    await button(page, /^Approve A/).click();
    await says(page, ANSWER);
    await page.context().close();
  }
  return figures.join(", ");
});

test("blurred, the answer is seen before the tools that are done", async (world) => {
  const page = await world.page({ width: 1440, height: 900 });
  const prose = Array.from({ length: 12 }, (_, n) => `Sentence ${n} of an answer that a person wants to read, line by line. `);
  await ask(page, script({ calls: [call("structured"), call("structured")] }, { text: [...prose, "The end."] }));
  await says(page, "The end.");
  const found = await weights(page, {
    answer: page.locator(".log .said").last(),
    tools: page.locator("details.tool").first(),
    rail: page.getByRole("navigation", { name: "Turnwire" }),
    composer: page.locator("form", { has: page.locator("#composer") }),
  });
  assert.equal(heaviest(found), "answer", JSON.stringify(found));
});

test("without colour every state is told apart by its mark and its word", async (world) => {
  const page = await world.page();
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setEmulatedVisionDeficiency", { type: "achromatopsia" });
  await page.locator("main").focus();
  await page.keyboard.press("?");
  const marks = page.getByRole("list", { name: "States of a call" });
  await world.picture(page, "states-1280-grey");
  const words = await marks.locator(".st").allTextContents();
  assert.equal(new Set(words).size, 10, words);
  const places = await marks.locator("svg").evaluateAll((icons) => icons.map((icon) => icon.getBoundingClientRect()).map(({ x, y, width, height }) => ({ x, y, width, height })));
  const picture = (await page.screenshot()).toString("base64");
  const judge = await page.context().newPage();
  // The shape alone, so that it does not count that one is a little lighter than another.
  const alike = await judge.evaluate(
    async ([picture, places, words]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${picture}`;
      await image.decode();
      const read = ({ x, y, width, height }) => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [16, 16];
        const context = canvas.getContext("2d");
        context.drawImage(image, x, y, width, height, 0, 0, 16, 16);
        const pixels = context.getImageData(0, 0, 16, 16).data;
        const greys = Array.from({ length: 256 }, (_, n) => pixels[n * 4]);
        const [low, high] = [Math.min(...greys), Math.max(...greys)];
        return { greys: greys.map((grey) => (high === low ? 0 : (grey - low) / (high - low))), isGrey: pixels.every((value, n) => n % 4 === 3 || Math.abs(value - pixels[n - (n % 4)]) < 3) };
      };
      const all = places.map(read);
      const pairs = [];
      all.forEach((one, a) => all.slice(a + 1).forEach((other, b) => {
        const share = one.greys.reduce((sum, grey, n) => sum + Math.abs(grey - other.greys[n]), 0) / 256;
        pairs.push([`${words[a]} and ${words[a + 1 + b]}`, share]);
      }));
      return { isGrey: all.every((one) => one.isGrey), pairs: pairs.sort((one, other) => one[1] - other[1]) };
    },
    [picture, places, words],
  );
  assert.ok(alike.isGrey, "there is no colour in the picture");
  const [pair, share] = alike.pairs[0];
  assert.ok(share > 0.02, `${pair}: ${share}`);
  return `the closest marks, ${pair}, differ in ${Math.round(share * 100)} % of their area`;
});
