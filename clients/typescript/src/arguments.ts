/**
 * Reads the arguments of a call while the model is still writing them, for display.
 *
 * It continues where it stopped, so that a piece costs its own length, however much came before.
 * Of the JSON object it keeps the top-level strings, numbers and booleans; of nested values only
 * where they end. It is lenient, and when it cannot continue it keeps what it has.
 */

import { firstChars, shortened } from "./summary.js";

/** Arguments that usually describe a call, most telling first. */
const TELLING = ["query", "path", "file_path", "command", "url", "name", "id"];
const LABEL_CHARS = 60;
/** Characters of one argument that are kept: more than are shown, because spaces are collapsed. */
const KEPT_CHARS = 4 * LABEL_CHARS;
const TAIL_CHARS = 30;
const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

type State =
  | "before"
  | "key"
  | "keyText"
  | "colon"
  | "value"
  | "text"
  | "word"
  | "nested"
  | "nestedText"
  | "afterValue"
  | "done"
  | "stopped";

/** The arguments of one call so far. */
export class PartialArguments {
  readonly #telling: readonly string[];
  readonly #entries = new Map<string, string>();
  #state: State = "before";
  #key = "";
  /** The string, number or literal being read. */
  #text = "";
  /** An escape sequence of which the end has not arrived: `\`, `\u12`. */
  #escape = "";
  #depth = 0;
  #tail = "";

  /** `telling` are the arguments that describe a call of this tool best. */
  constructor(telling: readonly string[] = []) {
    this.#telling = [...telling, ...TELLING];
  }

  /** Reads the next piece. */
  push(piece: string): void {
    this.#tail = (this.#tail + piece.slice(-2 * TAIL_CHARS)).slice(-2 * TAIL_CHARS);
    for (const character of piece) this.#step(character);
  }

  /**
   * The arguments in short form: the most telling one, or all that are not nested as `a=5 b=4`, or
   * the end of the raw text.
   */
  label(): string {
    const entries = this.#soFar();
    for (const key of this.#telling) {
      const value = shortened(entries.get(key) ?? "", LABEL_CHARS);
      if (value) return value;
    }
    const pairs = [...entries].filter(([, value]) => value !== "").map(([key, value]) => `${key}=${value}`);
    if (pairs.length > 0) return shortened(pairs.join(" "), LABEL_CHARS);
    if (this.#state === "done") return "";
    return shortened([...this.#tail].slice(-TAIL_CHARS).join("").replaceAll("\n", "\\n"), LABEL_CHARS);
  }

  /** The entries, with what is certain of the one that is being read. */
  #soFar(): Map<string, string> {
    // The second half of a character may still be missing.
    const whole = this.#text.replace(/[\ud800-\udbff]$/, "");
    if (this.#state === "text") return new Map(this.#entries).set(this.#key, whole);
    if (this.#state === "word" && scalar(this.#text)) return new Map(this.#entries).set(this.#key, this.#text);
    return this.#entries;
  }

  #step(character: string): void {
    switch (this.#state) {
      case "keyText":
      case "text":
      case "nestedText":
        this.#readText(character);
        break;
      case "word":
        if (/[\w+.-]/.test(character)) {
          this.#text += character;
          break;
        }
        if (scalar(this.#text)) this.#entries.set(this.#key, this.#text);
        this.#state = "afterValue";
        this.#readMark(character);
        break;
      default:
        this.#readMark(character);
    }
  }

  /** Reads a character outside of strings, numbers and literals. */
  #readMark(mark: string): void {
    if (/\s/.test(mark)) return;
    switch (this.#state) {
      case "before":
        if (mark === "{") this.#state = "key";
        break;
      case "key":
        if (mark === '"') this.#beginText("keyText");
        else if (mark === "}") this.#state = "done";
        break;
      case "colon":
        this.#state = mark === ":" ? "value" : "stopped";
        break;
      case "value":
        if (mark === '"') this.#beginText("text");
        else if (mark === "{" || mark === "[") {
          this.#depth = 1;
          this.#entries.delete(this.#key);
          this.#state = "nested";
        } else {
          this.#text = mark;
          this.#state = /[\w+.-]/.test(mark) ? "word" : "stopped";
        }
        break;
      case "nested":
        if (mark === '"') this.#beginText("nestedText");
        else if ("{[".includes(mark)) this.#depth += 1;
        else if ("}]".includes(mark)) this.#depth -= 1;
        if (this.#depth === 0) this.#state = "afterValue";
        break;
      case "afterValue":
        this.#state = mark === "," ? "key" : mark === "}" ? "done" : "stopped";
        break;
    }
  }

  #beginText(state: State): void {
    this.#text = "";
    this.#state = state;
  }

  #readText(character: string): void {
    if (this.#escape !== "") {
      this.#escape += character;
      this.#endEscape();
    } else if (character === "\\") {
      this.#escape = character;
    } else if (character === '"') {
      this.#endText();
    } else {
      this.#append(character);
    }
  }

  #append(text: string): void {
    if (this.#text.length < KEPT_CHARS) this.#text += text;
  }

  #endEscape(): void {
    const [, letter = "", ...digits] = this.#escape;
    if (letter === "u" && digits.length < 4) return;
    const code = Number.parseInt(digits.join(""), 16);
    this.#append(
      letter === "u" ? String.fromCharCode(Number.isNaN(code) ? 0xfffd : code) : (ESCAPES[letter] ?? letter),
    );
    this.#escape = "";
  }

  #endText(): void {
    if (this.#state === "keyText") {
      this.#key = firstChars(this.#text, LABEL_CHARS);
      this.#state = "colon";
    } else if (this.#state === "text") {
      this.#entries.set(this.#key, this.#text);
      this.#state = "afterValue";
    } else {
      this.#state = "nested";
    }
  }
}

/** Whether a word is a number or a boolean; null says nothing. */
function scalar(word: string): boolean {
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(word) || word === "true" || word === "false";
}
