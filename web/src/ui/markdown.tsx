/**
 * Markdown as elements, never as markup.
 *
 * The text is read into tokens, and each token becomes an element of the page. There is no step in
 * which a text of a model is parsed as HTML: tags in it are shown as they were written. Links go
 * only to web pages and mail, images are links, and the page loads nothing from elsewhere.
 *
 * While a text grows, the blocks before the last one stay the same elements.
 */

import type { Token, Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { memo } from "preact/compat";
import { useMemo, useRef, useState } from "preact/hooks";
import { exact } from "../model/invisible";
import { type Plain, cut, lex, lexMore } from "../model/markdown_tokens";
import { bytes } from "../model/words";
import { CopyButton } from "./controls";

/** A text of the model; `isGrowing` while more of it comes. */
export const Markdown = memo(function Markdown({ text, isGrowing }: { text: string; isGrowing: boolean }): JSX.Element {
  const before = useRef<Token[]>([]);
  const [head, rest] = useMemo(() => cut(text), [text]);
  // The whole is read once more at the end: definitions of links change what stands before them.
  const isWhole = !isGrowing && (head.length < LONG || head.includes("]:"));
  before.current = isWhole ? lex(head) : lexMore(before.current, head, isGrowing);
  const tokens = before.current;
  const parts = Array.from({ length: Math.ceil(tokens.length / PART) }, (_, n) => tokens.slice(n * PART, (n + 1) * PART));
  return (
    <div class="prose">
      {parts.map((part, n) => (
        <Part key={n} tokens={part} />
      ))}
      {rest ? <Rest text={rest} /> : null}
    </div>
  );
});

/** What follows more Markdown than the page reads: as it was written, a piece at a time. */
function Rest({ text }: { text: string }): JSX.Element {
  const [shown, setShown] = useState(0);
  return (
    <>
      {shown > 0 ? <pre class="as-written">{text.slice(0, shown)}</pre> : null}
      {shown < text.length ? (
        <button type="button" class="btn quiet sm" onClick={() => setShown(shown + REST_PIECE)}>
          {`Show more as it was written, ${bytes(text.length - shown)} are left`}
        </button>
      ) : null}
    </>
  );
}

const REST_PIECE = 100_000;

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

const SAMPLE = "# A\n\nSome *words* and `code`, a [link](https://a.example).\n\n- one\n- two\n\n> three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\n1\n```\n\n";

/** Reads a little of everything while nobody waits for it, because the first time takes long. */
export function warmUp(): void {
  lex(SAMPLE);
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
    case "plain":
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

/** Rows of a table that are drawn at once. */
const ROWS = 200;

function Table({ token }: { token: Tokens.Table }): JSX.Element {
  const [shown, setShown] = useState(ROWS);
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
          {token.rows.slice(0, shown).map((row) => (
            <tr>
              {row.map((cell, place) => (
                <td class={`to-${side(place)}`}>{spans(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {token.rows.length > shown ? (
        <button type="button" class="btn quiet sm" onClick={() => setShown(shown + ROWS)}>
          {`Show ${Math.min(ROWS, token.rows.length - shown)} more of ${token.rows.length - shown} rows`}
        </button>
      ) : null}
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
    case "plain":
      return <span class="as-written">{(token as Plain).text}</span>;
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
    <a href={href} target="_blank" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer" title={exact(href)}>
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
