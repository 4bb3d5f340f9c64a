/**
 * The facts of each call, by its ID.
 *
 * Events about a call name what is new; which tool it is about was said once. The book also keeps
 * the rule that every end has a start: a call that ends without having been started (an unknown
 * tool, a denied approval) starts right before it ends.
 */

import type { RecordedEvent, ToolRef } from "./generated/api.js";

/** What an event means for the start and the end of a call. */
export type CallChange = "none" | "began" | "ended" | "beganAndEnded";

/** A call so far. */
export interface Call {
  tool: ToolRef;
  hasStarted: boolean;
  isOver: boolean;
}

/** All calls of a run. */
export class CallBook {
  readonly #calls = new Map<string, Call>();
  #openCalls = 0;

  /** The facts of a call; `undefined` if it was never announced. */
  get(callId: string): Call | undefined {
    return this.#calls.get(callId);
  }

  /** Number of calls in this turn that the server has not ended. */
  get openCalls(): number {
    return this.#openCalls;
  }

  /** Applies one event. All events have to be applied, in order. */
  note({ event }: RecordedEvent): CallChange {
    switch (event.type) {
      case "turn_started":
        this.#openCalls = 0;
        return "none";
      case "call_announced":
        this.#calls.set(event.call_id, { tool: event.tool, hasStarted: false, isOver: false });
        if (!isRunByClient(event.tool)) this.#openCalls += 1;
        return "none";
      case "tool_started": {
        const call = this.#calls.get(event.call_id);
        if (!call || call.isOver || call.hasStarted) return "none";
        call.hasStarted = true;
        return "began";
      }
      case "tool_finished": {
        const call = this.#calls.get(event.call_id);
        if (!call || call.isOver) return "none";
        call.isOver = true;
        if (!isRunByClient(call.tool)) this.#openCalls = Math.max(0, this.#openCalls - 1);
        return call.hasStarted ? "ended" : "beganAndEnded";
      }
      default:
        return "none";
    }
  }
}

/** Whether the client runs the tool itself, after the run. */
export function isRunByClient(tool: ToolRef): boolean {
  return tool.kind === "client" || tool.kind === "custom";
}
