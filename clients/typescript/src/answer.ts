/**
 * The answer of a run: the text of the last turn that has any, or the refusal if there is none.
 *
 * Text before tool calls ("let me look that up") is not part of it, and neither is a turn that was
 * withdrawn because its server died.
 */

import { clean } from "./clean.js";
import type { RecordedEvent, RunOutcome, Usage } from "./generated/api.js";

/** Gathers the answer from the events of one run. */
export class Answer {
  /** ID of the conversation of the run. */
  conversationId: string | undefined;
  /** How the run ended; `undefined` while it is in progress. */
  outcome: RunOutcome | undefined;
  /** Tokens used; `undefined` while the run is in progress. */
  usage: Usage | undefined;

  #settled = { text: "", refusal: "" };
  #open = { text: "", refusal: "" };

  /** The text to show. */
  get text(): string {
    const { text, refusal } = this.#open.text || this.#open.refusal ? this.#open : this.#settled;
    return text || refusal;
  }

  /** Applies one event. All events have to be applied, in order. */
  apply({ event }: RecordedEvent): void {
    switch (event.type) {
      case "run_queued":
        this.conversationId = (event.request["conversation_id"] as string | undefined) ?? undefined;
        break;
      case "turn_started":
        if (this.#open.text || this.#open.refusal) this.#settled = this.#open;
        this.#open = { text: "", refusal: "" };
        break;
      case "turn_abandoned":
        this.#open = { text: "", refusal: "" };
        break;
      case "message_finished":
        if (event.completeness === "superseded") break;
        this.#open.text += clean(event.text);
        this.#open.refusal += clean(event.refusal ?? "");
        break;
      case "run_finished":
        this.outcome = event.outcome;
        this.usage = event.usage;
        break;
    }
  }
}
