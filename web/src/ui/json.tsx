/** JSON for people: coloured text for short values, a tree for long ones. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { exact, inOrder } from "../model/invisible";
import { REDACTED, isPlaceholder } from "../model/redaction";
import { Icon } from "./icons";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MAX_COLOURED = 20_000;

/** The text of arguments or of an event, exactly. What is not JSON is shown as it is. */
export function JsonText({ text: raw, label }: { text: string; label: string }): JSX.Element {
  const text = exact(raw);
  return (
    <pre class="json" tabIndex={0} role="group" aria-label={label}>
      <code>{isPlaceholder(text) ? <Redacted /> : text.length > MAX_COLOURED ? text : coloured(text)}</code>
    </pre>
  );
}

/** Drawn in the place of what the server withholds. */
export function Redacted(): JSX.Element {
  return <span class="redacted">redacted</span>;
}

function coloured(text: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, found.index));
    const kind = found[2] !== undefined ? "key" : found[1] !== undefined ? "str" : found[3] !== undefined ? "kw" : "num";
    const word = found[1] ?? found[0];
    parts.push(word === `"${REDACTED}"` ? <Redacted /> : <span class={`j-${kind}`}>{word}</span>, found[2] ?? "");
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** A JSON text on as few lines as are readable. */
export function pretty(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    const flat = JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");
    return flat.length <= 80 ? flat : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

export function parsed(text: string): unknown {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return undefined;
  try {
    return JSON.parse(trimmed);
  } catch {
    return undefined;
  }
}

const PAGE = 100;

/** A value as a tree that opens level by level. */
export function JsonTree({ value, name = "", depth = 0 }: { value: unknown; name?: string; depth?: number }): JSX.Element {
  const [shown, setShown] = useState(PAGE);
  const label = name === "" ? null : <span class="j-key">{exact(name)}: </span>;
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {label}
        <Scalar value={value} />
      </div>
    );
  }
  const entries = Object.entries(value);
  const word = Array.isArray(value) ? `array, ${entries.length}` : `object, ${entries.length} ${entries.length === 1 ? "key" : "keys"}`;
  return (
    <details class="node" open={depth < 2}>
      <summary>
        <Icon name="right" class="turn" />
        {label}
        <span class="dim">{word}</span>
      </summary>
      <div class="branch">
        {entries.slice(0, shown).map(([key, inner]) => (
          <JsonTree key={key} name={key} value={inner} depth={depth + 1} />
        ))}
        {entries.length > shown ? (
          <button type="button" class="btn quiet sm" onClick={() => setShown(shown + PAGE)}>
            {`Show ${Math.min(PAGE, entries.length - shown)} more of ${entries.length - shown}`}
          </button>
        ) : null}
      </div>
    </details>
  );
}

function Scalar({ value }: { value: unknown }): JSX.Element {
  if (typeof value === "string") return <span class="j-str">{inOrder(JSON.stringify(value))}</span>;
  return <span class={typeof value === "number" ? "j-num" : "j-kw"}>{String(value)}</span>;
}
