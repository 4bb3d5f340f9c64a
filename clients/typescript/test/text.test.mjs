// What is shown of text that is not plain, and of arguments that are not complete.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PartialArguments } from "../dist/arguments.js";
import { Cleaner, clean } from "../dist/clean.js";
import { resultSummary } from "../dist/summary.js";

const ESC = "\u001b";

test("S4-5 control sequences are removed, also if they are split", () => {
  const text = `a${ESC}[31mred${ESC}[0m ${ESC}]0;title\u0007b\u0000c\u009bd\te`;
  assert.equal(clean(text), "ared bcd\te");
  for (let at = 0; at <= text.length; at += 1) {
    const cleaner = new Cleaner();
    assert.equal(cleaner.clean(text.slice(0, at)) + cleaner.clean(text.slice(at)), "ared bcd\te", `cut at ${at}`);
  }
});

test("S4-5 a sequence that is never closed ends with its line", () => {
  assert.equal(clean(`a${ESC}]0;title\nb`), "a\nb");
});

/** The label after each piece. */
function labels(...pieces) {
  const partial = new PartialArguments();
  return pieces.map((piece) => {
    partial.push(piece);
    return partial.label();
  });
}

test("S4-11 arguments are shown in short form while they are written", () => {
  assert.deepEqual(labels('{"query": "ru', "st", '"}'), ["ru", "rust", "rust"]);
  assert.deepEqual(labels('{"a": 5', ', "b": tr', "ue}"), ["a=5", "a=5", "a=5 b=true"]);
  assert.deepEqual(labels('{"a": {"query": "no"}, ', '"path": "x\\"y\\n', "\\u00e9\\ud83e", '\\udd80"}'), [
    '{"a": {"query": "no"},',
    'x"y',
    'x"y é',
    'x"y é🦀',
  ]);
  assert.deepEqual(labels("{}"), [""]);
  assert.deepEqual(labels("not JSON"), ["not JSON"]);
});

test("S4-11 the label does not depend on how the arguments arrive", () => {
  const text = '{"list": [1, "]", {"x": "}"}], "n": -1.5e3, "none": null, "long": "' + "word ".repeat(50) + '"}';
  const [whole] = labels(text);
  assert.equal([...whole].length, 60);
  assert.ok(whole.startsWith("n=-1.5e3 long=word word"), whole);
  assert.equal(labels(...text).at(-1), whole);
});

test("a megabyte of arguments in small pieces takes time in proportion to its size", () => {
  const begin = performance.now();
  const partial = new PartialArguments();
  partial.push('{"path": "x", "text": "');
  for (let n = 0; n < 250_000; n += 1) {
    partial.push("word");
    if (n % 100 === 0) partial.label();
  }
  assert.ok(performance.now() - begin < 2000, `${performance.now() - begin} ms`);
});

test("R16 a summary is the first 100 characters, which are never halves of one", () => {
  const summary = (text) => resultSummary({ status: "succeeded", output: { text } });
  assert.equal(summary("🦀".repeat(100)), "🦀".repeat(100));
  assert.equal(summary("🦀".repeat(101)), `${"🦀".repeat(100)}...`);
  assert.equal(summary(" a\n\tb "), "a b");
  assert.equal(summary(" \n "), "(no output)");
});
