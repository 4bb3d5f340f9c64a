// Checked by `tsc`: a wrong callback does not compile (S0-8, S4-14). Each `@ts-expect-error` is an
// error by itself if the line below it compiles; unused parameters are none here.

import { Turnwire } from "../src/index.js";
import type { AgentToolBlockUpdateParams, Message, MessageManagerCallbacks, RecordedEvent, RunEvent, StreamChatOptions } from "../src/index.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<_ extends true>(): void {}

// S0-6, S0-7: the exact types of specification 000, all of them optional.
same<Equal<StreamChatOptions["onToken"], ((token: string) => void) | undefined>>();
same<Equal<StreamChatOptions["onToolStart"], ((toolName: string) => void) | undefined>>();
same<Equal<StreamChatOptions["onToolEnd"], ((toolName: string, result: string) => void) | undefined>>();

// S4-1, S4-6, S4-13, S4-15: the exact types of specification 004.
same<Equal<MessageManagerCallbacks["onAssistantMessageAdded"], (() => void) | undefined>>();
same<Equal<MessageManagerCallbacks["onAssistantContentUpdated"], ((chunk: string, accumulated: string) => void) | undefined>>();
same<Equal<MessageManagerCallbacks["onToolBlockUpdated"], ((params: AgentToolBlockUpdateParams) => void) | undefined>>();
same<Equal<MessageManagerCallbacks["onMessagesChange"], ((messages: Message[]) => void) | undefined>>();
same<Equal<MessageManagerCallbacks["onContentUpdate"], ((content: string) => void) | undefined>>();
same<Equal<MessageManagerCallbacks["onToolUpdate"], ((toolCall: { id: string; name: string; parameters: string }) => void) | undefined>>();
same<
  Equal<
    AgentToolBlockUpdateParams,
    {
      id: string;
      name: string;
      parameters: string;
      parametersChunk?: string;
      compactParams?: string;
      result?: string;
      success?: boolean;
      error?: string;
      stage: "start" | "streaming" | "running" | "end";
      shortResult?: string;
      images?: string[];
    }
  >
>();

const turnwire = new Turnwire({ baseUrl: "http://127.0.0.1:7878" });
const message = "multiply 5 and 4";

// What compiles.
void turnwire.streamChat({ message });
void turnwire.streamChat({ message, onToken: (token) => token.length, onToolEnd: (name, result) => name + result });
void turnwire.streamChat({ message, onToolStart: () => {}, onToolEnd: (name: string) => name });
void turnwire.streamChat({ message, onAssistantMessageAdded: () => {}, onToolBlockUpdated: ({ stage }) => stage === "end" });

// S0-8: what does not.
// @ts-expect-error too many parameters
void turnwire.streamChat({ message, onToolStart: (name: string, result: string) => {} });
// @ts-expect-error a parameter of another type
void turnwire.streamChat({ message, onToolStart: (name: number) => {} });
// @ts-expect-error too many parameters
void turnwire.streamChat({ message, onToolEnd: (name: string, result: string, more: string) => {} });
// @ts-expect-error a parameter of another type
void turnwire.streamChat({ message, onToolEnd: (name: string, result: object) => {} });
// @ts-expect-error a parameter of another type
void turnwire.streamChat({ message, onToolEnd: (name: { id: string }, result: string) => {} });
// @ts-expect-error a parameter of another type
void turnwire.streamChat({ message, onToken: (token: Uint8Array) => {} });
// @ts-expect-error not a function
void turnwire.streamChat({ message, onToolStart: "multiply" });
// @ts-expect-error no message
void turnwire.streamChat({ onToken: () => {} });
// @ts-expect-error no such callback
void turnwire.streamChat({ message, onToolStarted: () => {} });

// S4-14: the arguments that are gone.
// @ts-expect-error the content is not given here
void turnwire.streamChat({ message, onAssistantMessageAdded: (content: string) => {} });
// @ts-expect-error neither are the calls
void turnwire.streamChat({ message, onAssistantMessageAdded: (content: string, calls: object[]) => {} });
// @ts-expect-error the accumulated text comes second
void turnwire.streamChat({ message, onAssistantContentUpdated: (chunk: string, accumulated: number) => {} });
// @ts-expect-error one object
void turnwire.streamChat({ message, onToolBlockUpdated: (id: string) => {} });
// @ts-expect-error no such stage
void turnwire.streamChat({ message, onToolBlockUpdated: ({ stage }) => stage === "done" });
// @ts-expect-error the text, not a chunk of bytes
void turnwire.streamChat({ message, onContentUpdate: (content: ArrayBuffer) => {} });
// @ts-expect-error without the result
void turnwire.streamChat({ message, onToolUpdate: ({ result }) => {} });

// Events are told apart by their type, and so are outcomes.
export function textOf({ event }: RecordedEvent): string {
  switch (event.type) {
    case "text_added":
      return event.text;
    case "tool_finished":
      return event.outcome.status === "succeeded" ? event.outcome.output.text : event.outcome.status;
    default:
      return event.type;
  }
}
// @ts-expect-error no such event
export const unknown: RunEvent["type"] = "tool_vanished";
// @ts-expect-error a decision is a word
void turnwire.approve("run_1", "call_1", { decision: true });
// @ts-expect-error no such action
void turnwire.reply("run_1", "call_1", { action: "maybe" });
