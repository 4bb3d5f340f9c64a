/**
 * The blocks of a Markdown text, at a bounded cost.
 *
 * Some short texts take the lexer seconds: thousands of underscores in a row, a table with few
 * cells in many wide rows, quotes in quotes. A model that was misled writes them as easily as any
 * others, and the page must not stand still. Such a part is a token of the type `plain`, which is
 * shown as it was written.
 */

import { Lexer, type Token, Tokenizer, type Tokens, type TokensList, marked } from "marked";

/** Characters of a paragraph that is read for its marks. */
const MAX_SPANS = 20_000;
/** Marks in a paragraph: the lexer compares each with each. */
const MAX_MARKS = 1_000;
/** Characters of a word: the lexer looks for an address in it from each of them. */
const MAX_WORD = 1_000;
/** Cells of a table, with those that its rows leave out. */
const MAX_CELLS = 50_000;
/** Blocks in blocks, and spans in spans. */
const MAX_DEPTH = 24;

const MARK = /[*_~`[\]<!]/g;
const LONG_WORD = new RegExp(`\\S{${MAX_WORD}}`);

/** A part of a text that is shown as it was written. */
export interface Plain {
  type: "plain";
  raw: string;
  text: string;
}

function plain(text: string): Plain {
  return { type: "plain", raw: text, text };
}

class BoundedTokenizer extends Tokenizer {
  /** A table with too many cells is a paragraph. */
  override table(src: string): Tokens.Table | undefined {
    const end = src.search(/\n[ \t]*(\n|$)/);
    const text = end < 0 ? src : src.slice(0, end);
    const [header = ""] = text.split("\n", 1);
    const columns = header.split("|").length;
    return columns * text.split("\n").length > MAX_CELLS ? undefined : super.table(src);
  }
}

class BoundedLexer extends Lexer {
  #blocks = 0;
  #spans = 0;

  constructor() {
    super({ ...marked.defaults, gfm: true, tokenizer: new BoundedTokenizer() });
  }

  override blockTokens(src: string, tokens: Token[] = [], isClipped?: boolean): TokensList {
    if (this.#blocks >= MAX_DEPTH) {
      tokens.push(plain(src));
      return tokens as TokensList;
    }
    this.#blocks += 1;
    try {
      return super.blockTokens(src, tokens, isClipped) as TokensList;
    } finally {
      this.#blocks -= 1;
    }
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (this.#spans >= MAX_DEPTH || isCostly(src)) {
      tokens.push(plain(src));
      return tokens;
    }
    this.#spans += 1;
    try {
      return super.inlineTokens(src, tokens);
    } finally {
      this.#spans -= 1;
    }
  }
}

function isCostly(text: string): boolean {
  if (text.length > MAX_SPANS) return true;
  if (text.length < Math.min(MAX_MARKS, MAX_WORD)) return false;
  return (text.match(MARK)?.length ?? 0) > MAX_MARKS || LONG_WORD.test(text);
}

/** The tokens of a whole text. */
export function lex(text: string): Token[] {
  return new BoundedLexer().lex(text);
}

/** Characters of a text that are read as Markdown. */
const MAX_TEXT = 200_000;
/** Characters of a block that is read again with each piece that it grows by. */
const MAX_GROWING = 50_000;

/** The beginning of a text, which is read as Markdown, and the rest, which is shown as it was written. */
export function cut(text: string): [string, string] {
  if (text.length <= MAX_TEXT) return [text, ""];
  const end = text.lastIndexOf("\n", MAX_TEXT);
  const at = end > 0 ? end : MAX_TEXT;
  return [text.slice(0, at), text.slice(at)];
}

/** Blocks at the end that more text may still change: one block, and the space behind it. */
const UNSETTLED = 3;

/**
 * The tokens of a text of which `known` is the beginning. Only the last blocks are read again, so a
 * piece costs the same however long the text is.
 */
export function lexMore(known: readonly Token[], text: string, isGrowing = true): Token[] {
  const settled = known.slice(0, -UNSETTLED);
  const raw = settled.map((token) => token.raw).join("");
  if (!text.startsWith(raw)) return lex(text);
  const rest = text.slice(raw.length);
  return [...settled, ...(isGrowing && rest.length > MAX_GROWING ? [plain(rest)] : lex(rest))];
}
