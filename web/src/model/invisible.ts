/**
 * Shows invisible characters as what they are: U+202E is shown as `\u{202e}`.
 *
 * A text that a person decides on, and every name, is shown exactly. Prose keeps them, because
 * people write with them: Persian needs joiners, families of emoji too. Of prose beside a name on
 * one line only what reorders the line is shown. The same rules as `visible.rs` of the terminal.
 */

import { clean } from "turnwire/clean";

/** Those that set the direction of others for more than themselves, or begin a line. */
const REORDERS = /[\u2028-\u202e\u2066-\u2069]/gu;

/** Those that Unicode lets a program ignore, and those that begin a line. */
const INVISIBLE =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/** A text with every invisible character shown as what it is. */
export function exact(text: string): string {
  return clean(text).replace(INVISIBLE, codeOf);
}

/** A text with every character shown as what it is that changes the order of others. */
export function inOrder(text: string): string {
  return clean(text).replace(REORDERS, codeOf);
}

/** A JSON text with its invisible characters as escape sequences of JSON. It has the same value. */
export function exactJson(json: string): string {
  return json.replace(INVISIBLE, (character) => {
    const units = Array.from({ length: character.length }, (_, place) => character.charCodeAt(place));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}

export function hasInvisible(text: string): boolean {
  return text.search(INVISIBLE) >= 0;
}

function codeOf(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
