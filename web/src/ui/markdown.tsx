/**
 * Markdown as elements, never as markup.
 *
 * The text is read into tokens, and each token becomes an element of the page. There is no step in
 * which a text of a model is parsed as HTML: tags in it are shown as they were written. Links go
 * only to web pages and mail, images are links, and the page loads nothing from elsewhere.
 *
 * While a text grows, the blocks before the last one stay the same elements.
 */

import { type Token, type Tokens, marked } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { memo } from "preact/compat";
import { useRef } from "preact/hooks";
import { CopyButton } from "./controls";

/** A text of the model; `isGrowing` while more of it comes. */
export const Markdown = memo(function Markdown({ text, isGrowing }: { text: string; isGrowing: boolean }): JSX.Element {
  const before = useRef<Token[]>([]);
  // The whole is read once more at the end: definitions of links change what stands before them.
  const isWhole = !isGrowing && (text.length < LONG || text.includes("]:"));
  before.current = isWhole ? marked.lexer(text, { gfm: true }) : lexMore(before.current, text);
  const tokens = before.current;
  const parts = Array.from({ length: Math.ceil(tokens.length / PART) }, (_, n) => tokens.slice(n * PART, (n + 1) * PART));
  return (
    <div class="prose">
      {parts.map((part, n) => (
        <Part key={n} tokens={part} />
      ))}
    </div>
  );
});

/** Texts of more characters are read again only if they have to be. */
const LONG = 20_000;

/** Blocks are compared in parts, so that a long answer costs little while its end grows. */
const PART = 32;

const Part = memo(
  function Part({ tokens }: { tokens: Token[] }): JSX.Element {
    return (
      <>
        {tokens.map((token, place) => (
          <Block key={`${place}-${token.type}`} raw={token.raw} token={token} />
        ))}
      </>
    );
  },
  (before, after) => before.tokens.length === after.tokens.length && before.tokens.every((token, place) => token === after.tokens[place]),
);

/** Blocks at the end that more text may still change: one block, and the space behind it. */
const UNSETTLED = 3;

/**
 * The tokens of a text of which `known` is the beginning. Only the last blocks are read again, so a
 * piece costs the same however long the text is.
 */
export function lexMore(known: readonly Token[], text: string): Token[] {
  const settled = known.slice(0, -UNSETTLED);
  const raw = settled.map((token) => token.raw).join("");
  if (!text.startsWith(raw)) return marked.lexer(text, { gfm: true });
  return [...settled, ...marked.lexer(text.slice(raw.length), { gfm: true })];
}

const SAMPLE = "# A\n\nSome *words* and `code`, a [link](https://a.example).\n\n- one\n- two\n\n> three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\n1\n```\n\n";

/** Reads a little of everything while nobody waits for it, because the first time takes long. */
export function warmUp(): void {
  marked.lexer(SAMPLE, { gfm: true });
}

/** Drawn again only if its text changed. */
const Block = memo(
  function Block({ token }: { raw: string; token: Token }): JSX.Element | null {
    return block(token);
  },
  (before, after) => before.raw === after.raw,
);

function block(token: Token): JSX.Element | null {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return <Heading token={token as Tokens.Heading} />;
    case "code":
      return <Code token={token as Tokens.Code} />;
    case "blockquote":
      return <blockquote>{(token as Tokens.Blockquote).tokens.map(block)}</blockquote>;
    case "list":
      return <List token={token as Tokens.List} />;
    case "table":
      return <Table token={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "paragraph":
      return <p>{inlines(token)}</p>;
    case "html":
      return <p class="as-written">{token.raw}</p>;
    default:
      return <p>{inlines(token)}</p>;
  }
}

/** Headings of an answer lie below those of the page. */
function Heading({ token }: { token: Tokens.Heading }): JSX.Element {
  return (
    <div role="heading" aria-level={Math.min(6, token.depth + 2)} class={`h h${token.depth}`}>
      {inlines(token)}
    </div>
  );
}

function Code({ token }: { token: Tokens.Code }): JSX.Element {
  const language = token.lang?.trim() || "text";
  return (
    <figure class="code">
      <figcaption>
        <span class="cut">{language}</span>
        <CopyButton text={token.text} what="code" />
      </figcaption>
      <pre tabIndex={0} role="group" aria-label={`Code, ${language}`}>
        <code>{token.text}</code>
      </pre>
    </figure>
  );
}

function List({ token }: { token: Tokens.List }): JSX.Element {
  const items = token.items.map((item) => (
    <li class={item.task ? "task" : ""}>
      {item.task ? <span class="box-mark">{item.checked ? "☑" : "☐"}</span> : null}
      {item.tokens.filter((inner) => (inner.type as string) !== "checkbox").map((inner) => (inner.type === "text" ? <span>{inlines(inner)}</span> : block(inner)))}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ token }: { token: Tokens.Table }): JSX.Element {
  const side = (place: number) => token.align[place] ?? "left";
  return (
    <div class="tablebox" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, place) => (
              <th class={`to-${side(place)}`} scope="col">
                {spans(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row) => (
            <tr>
              {row.map((cell, place) => (
                <td class={`to-${side(place)}`}>{spans(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inlines(token: Token): ComponentChildren {
  const inner = (token as { tokens?: Token[] }).tokens;
  return inner ? spans(inner) : unescaped((token as { text?: string }).text ?? token.raw);
}

function spans(tokens: Token[] | undefined): ComponentChildren[] {
  return (tokens ?? []).map(span);
}

function span(token: Token): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inlines(token)}</strong>;
    case "em":
      return <em>{inlines(token)}</em>;
    case "del":
      return <del>{inlines(token)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link href={(token as Tokens.Link).href}>{inlines(token)}</Link>;
    case "image": {
      const { href, text } = token as Tokens.Image;
      return <Link href={href}>{`Image: ${text || href}`}</Link>;
    }
    case "html":
      return token.raw;
    case "escape":
      return (token as Tokens.Escape).text;
    default:
      return inlines(token);
  }
}

/** A link, if it leads to a page or an address; otherwise only its text. */
export function Link({ href, children }: { href: string; children: ComponentChildren }): JSX.Element {
  if (!isSafe(href)) return <span>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer" title={href}>
      {children}
    </a>
  );
}

/** Whether an address is that of a web page or of a mailbox. */
export function isSafe(href: string): boolean {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(href).protocol);
  } catch {
    return false;
  }
}

/** Entities that the lexer leaves in plain texts. */
function unescaped(text: string): string {
  const NAMES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => NAMES[name] ?? "");
}
