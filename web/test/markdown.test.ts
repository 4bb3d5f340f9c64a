/** Markdown that grows gives the same blocks as the whole text at once, and none costs the page its time. */

import { marked } from "marked";
import { expect, test } from "vitest";
import { cut, lex, lexMore } from "../src/model/markdown_tokens";

const TEXT = [
  "# A title\n\nSome *words* and `code`.\n\n",
  "- one\n- two\n  - inner\n\n  more of two\n\n1. first\n2. second\n\n",
  "```js\nconst a = 1;\n\nconst b = 2;\n```\n\n> quoted\n> twice\n\n",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n\nSetext\n======\n\n---\n\n<b>html</b>\n\nThe end.",
].join("");

test("however a text is cut into pieces, its blocks are those of the whole", () => {
  const whole = blocks(marked.lexer(TEXT, { gfm: true }));
  for (const size of [1, 2, 3, 7, 20, 64]) {
    let tokens: ReturnType<typeof lexMore> = [];
    for (let end = size; end < TEXT.length + size; end += size) tokens = lexMore(tokens, TEXT.slice(0, end));
    expect(blocks(tokens)).toEqual(whole);
  }
});

const N = 100_000;
const HOSTILE = {
  underscores: "_".repeat(N),
  "words with marks": "_a".repeat(N / 2),
  "bold in words": "a**b".repeat(N / 4),
  "an endless word": `${"a".repeat(N)}@`,
  brackets: "[".repeat(N),
  backticks: "`a".repeat(N / 2),
  quotes: "> ".repeat(N / 2),
  "quotes and lists": "> - ".repeat(N / 4),
  "a table of few cells in wide rows": `|${" a |".repeat(1000)}\n|${"---|".repeat(1000)}\n${"|1|\n".repeat(N / 4)}`,
  "a long table": `|a|b|\n|---|---|\n${"|1|2|\n".repeat(N / 6)}`,
  "a file of values": 'a,b,"c d",1.5\n'.repeat(N / 14),
  "a long list": "- a\n".repeat(N / 4),
  "markup that is never closed": "<a ".repeat(N / 3),
  "links that are never closed": "[a](b".repeat(N / 5),
};

test.each(Object.entries(HOSTILE))("A22: %s is read in a moment, and nothing of it is lost", (_, text) => {
  const begin = performance.now();
  const tokens = lex(text);
  // Ten seconds to three quarters of a minute without a bound, and some overflow the stack.
  expect(performance.now() - begin).toBeLessThan(5_000);
  expect(tokens.map(({ raw }) => raw).join("")).toBe(text);
});

test("A22: a text is cut at a line, and the rest is there", () => {
  const text = "a line of text\n".repeat(20_000);
  const [head, rest] = cut(text);
  expect(head.length).toBeLessThanOrEqual(200_000);
  expect(rest.startsWith("\n")).toBe(true);
  expect(head + rest).toBe(text);
  expect(cut(TEXT)).toEqual([TEXT, ""]);
});

function blocks(tokens: { type: string; raw: string }[]): string[][] {
  return tokens.filter(({ type }) => type !== "space").map(({ type, raw }) => [type, raw.trim()]);
}
