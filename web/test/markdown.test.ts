/** Markdown that grows gives the same blocks as the whole text at once. */

import { marked } from "marked";
import { expect, test } from "vitest";
import { lexMore } from "../src/ui/markdown";

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

function blocks(tokens: { type: string; raw: string }[]): string[][] {
  return tokens.filter(({ type }) => type !== "space").map(({ type, raw }) => [type, raw.trim()]);
}
