/** Short forms of results, the same as on every surface of the server. */

import { clean } from "./clean.js";
import type { ToolOutcome } from "./generated/api.js";

const SUMMARY_CHARS = 100;

/**
 * The result of a call on one line, never empty: the first 100 characters, then `...` if there are
 * more. A failure starts with `Error: `.
 */
export function resultSummary(outcome: ToolOutcome): string {
  const { text, hasMore } = resultText(outcome);
  const [line, cut] = squeeze(text, SUMMARY_CHARS);
  if (line === "") return imagesOnly(outcome) || "(no output)";
  return line + (cut || hasMore ? "..." : "");
}

/** The same with its line breaks, for the bracketed text among the tokens. */
export function bracketedResult(outcome: ToolOutcome): string {
  const { text, hasMore } = resultText(outcome);
  if (text === "") return imagesOnly(outcome);
  const beginning = firstChars(text, SUMMARY_CHARS);
  return beginning + (beginning.length < text.length || hasMore ? "..." : "");
}

/** Why a call did not succeed; `undefined` if it did. */
export function problemOf(outcome: ToolOutcome): string | undefined {
  switch (outcome.status) {
    case "succeeded":
      return undefined;
    case "failed":
      return outcome.failure.message;
    case "timed_out":
      return `timed out after ${Math.floor(outcome.after_ms / 100) / 10} s`;
    case "cancelled":
      return "cancelled";
    case "denied":
      return outcome.reason ? `denied by the user: ${outcome.reason}` : "denied by the user";
    case "invalid_arguments":
      return `invalid arguments: ${outcome.message}`;
    case "skipped":
      return `not carried out: ${outcome.reason}`;
    default:
      return outcome.message;
  }
}

/** The text on one line, with at most `max` characters, the last one `…` if there are more. */
export function shortened(text: string, max: number): string {
  const [line, cut] = squeeze(clean(text), max);
  return cut ? `${firstChars(line, max - 1)}…` : line;
}

/** The first `max` characters, which are never halves of one. */
export function firstChars(text: string, max: number): string {
  if (text.length <= max) return text;
  let end = 0;
  for (let n = 0; n < max && end < text.length; n += 1) end += text.codePointAt(end)! > 0xffff ? 2 : 1;
  return text.slice(0, end);
}

function resultText(outcome: ToolOutcome): { text: string; hasMore: boolean } {
  return outcome.status === "succeeded"
    ? { text: clean(outcome.output.text), hasMore: outcome.output.rest != null }
    : { text: clean(`Error: ${problemOf(outcome)}`), hasMore: false };
}

function imagesOnly(outcome: ToolOutcome): string {
  const n = outcome.status === "succeeded" ? (outcome.output.images?.length ?? 0) : 0;
  return n === 0 ? "" : `(${n} image${n === 1 ? "" : "s"})`;
}

/** The first `max` characters with white space collapsed, and whether there are more. */
function squeeze(text: string, max: number): [string, boolean] {
  let line = "";
  const word = /[^\s\u0085]+/g;
  for (let found = word.exec(text); found; found = word.exec(text)) {
    const joined = line === "" ? found[0] : `${line} ${found[0]}`;
    line = firstChars(joined, max);
    if (line.length < joined.length) return [line, true];
  }
  return [line, false];
}
