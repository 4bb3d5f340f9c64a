/**
 * Removes terminal control sequences from a text: colours, cursor moves, window titles, bells.
 *
 * A model or a tool can write them as easily as any other text, and tokens often end up in a
 * terminal. The events have the original text. No sequence extends past its line.
 */

const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

type State = "text" | "escape" | "csi" | "string";

/** Cleans one text that arrives in pieces; a sequence may be split over two of them. */
export class Cleaner {
  #state: State = "text";

  /** Cleans the next piece. */
  clean(text: string): string {
    if (this.#state === "text" && !CONTROL.test(text)) return text;
    let kept = "";
    for (const character of text) {
      if (character === "\n") this.#state = "text";
      if (this.#state === "text" && !CONTROL.test(character)) kept += character;
      else this.#state = next(this.#state, character);
    }
    return kept;
  }

  /** Starts a new text. */
  reset(): void {
    this.#state = "text";
  }
}

/** The state after a character that is not shown. */
function next(state: State, character: string): State {
  if (character === "\u001b") return "escape";
  switch (state) {
    case "text":
      return "text";
    case "escape":
      if (character === "[") return "csi";
      if ("]PX^_".includes(character)) return "string";
      return character >= " " && character <= "/" ? "escape" : "text";
    case "csi":
      return character >= "@" && character <= "~" ? "text" : "csi";
    case "string":
      return character === "\u0007" ? "text" : "string";
  }
}

/** Cleans a whole text. */
export function clean(text: string): string {
  return new Cleaner().clean(text);
}
