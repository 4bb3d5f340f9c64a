/**
 * `onToken`, `onToolStart` and `onToolEnd`.
 *
 * Without the tool callbacks, tools appear among the tokens as bracketed lines. With both of them,
 * tokens are the text of the model alone. With one of them, the other appears as text.
 */

import { CallBook } from "./calls.js";
import { Cleaner } from "./clean.js";
import type { RecordedEvent, ToolOutcome } from "./generated/api.js";
import { bracketedResult, resultSummary } from "./summary.js";

/** Callbacks about the text of the model and its tools. All of them are optional. */
export interface ChatCallbacks {
  /** The model wrote this text; or the status of a tool, in brackets, if it has no callback. */
  onToken?: (token: string) => void;
  /** A tool starts. */
  onToolStart?: (toolName: string) => void;
  /** A tool has ended, with a summary of its result on one line. */
  onToolEnd?: (toolName: string, result: string) => void;
}

/** Calls the callbacks for the events of one run. */
export class CallbackProjection {
  readonly #callbacks: ChatCallbacks;
  readonly #book = new CallBook();
  readonly #cleaner = new Cleaner();
  /** Whether the line break before the tools of this turn was sent, and the one after was not. */
  #amongTools = false;

  constructor(callbacks: ChatCallbacks) {
    this.#callbacks = callbacks;
  }

  /** Applies one event. All events have to be applied, in order. */
  apply(recorded: RecordedEvent): void {
    const change = this.#book.note(recorded);
    const { event } = recorded;
    switch (event.type) {
      case "text_added":
      case "refusal_added":
        this.#token(this.#cleaner.clean(event.text));
        break;
      case "message_started":
        this.#cleaner.reset();
        break;
      case "tool_started":
        if (change === "began") this.#begin(event.call_id);
        break;
      case "tool_finished":
        if (change === "beganAndEnded") this.#begin(event.call_id);
        if (change !== "none") this.#end(event.call_id, event.outcome);
        break;
      case "turn_started":
      case "run_finished":
        this.#leaveTools();
        break;
    }
  }

  #token(text: string): void {
    if (text !== "") this.#callbacks.onToken?.(text);
  }

  #begin(callId: string): void {
    const name = this.#nameOf(callId);
    if (!this.#amongTools) {
      this.#amongTools = true;
      this.#breakLine();
    }
    if (this.#callbacks.onToolStart) this.#callbacks.onToolStart(name);
    else this.#token(`[Executing tool: ${name}]\n`);
  }

  #end(callId: string, outcome: ToolOutcome): void {
    if (this.#callbacks.onToolEnd) this.#callbacks.onToolEnd(this.#nameOf(callId), resultSummary(outcome));
    else this.#token(`[Tool result: ${bracketedResult(outcome)}]\n`);
    if (this.#book.openCalls === 0) this.#leaveTools();
  }

  #leaveTools(): void {
    if (!this.#amongTools) return;
    this.#amongTools = false;
    this.#breakLine();
  }

  #breakLine(): void {
    if (!this.#callbacks.onToolStart || !this.#callbacks.onToolEnd) this.#token("\n");
  }

  #nameOf(callId: string): string {
    return this.#book.get(callId)?.tool.name ?? "";
  }
}
