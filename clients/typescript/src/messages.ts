/**
 * A list of messages that keeps itself up to date, with callbacks for what changes.
 *
 * Each turn of the model is one assistant message. Each call is one block with four stages that
 * never go back: `start` once, `streaming` per piece of its arguments, `running` while the tool
 * works or waits for a person, `end` once. Whatever a cancel or a crash leaves open is ended too.
 */

import { PartialArguments } from "./arguments.js";
import { isRunByClient } from "./calls.js";
import { Cleaner } from "./clean.js";
import type {
  Completeness,
  Finish,
  RecordedEvent,
  RunEvent,
  RunOutcome,
  ToolOutcome,
  ToolRef,
} from "./generated/api.js";
import { problemOf, resultSummary, shortened } from "./summary.js";
import { Throttle } from "./throttle.js";

/** The state of a call. */
export interface AgentToolBlockUpdateParams {
  /** ID of the call. */
  id: string;
  /** Name of the tool. */
  name: string;
  /** The arguments so far, as JSON text; partial while the model writes them. */
  parameters: string;
  /** The new part of the arguments, in the stage `streaming`. */
  parametersChunk?: string;
  /** The arguments so far, in short form. */
  compactParams?: string;
  /** The result. */
  result?: string;
  /** Whether the tool succeeded. */
  success?: boolean;
  /** Why the tool did not succeed. */
  error?: string;
  /** Stage of the call. */
  stage: "start" | "streaming" | "running" | "end";
  /** The result, in short form. */
  shortResult?: string;
  /** Images that the tool returned, as `data:` URLs. */
  images?: string[];
}

/** A call in a message. */
export interface ToolBlock extends Omit<AgentToolBlockUpdateParams, "parametersChunk"> {
  /** Output that the tool sent while it was working. */
  output: string;
}

/** A message of the list. It is never changed: another object replaces it. */
export interface Message {
  /** Stable ID of the message. */
  readonly id: string;
  /** Who wrote it. */
  readonly role: string;
  /** The text so far. */
  readonly content: string;
  /** The reasoning so far. */
  readonly reasoning: string;
  /** The calls of this message, in the order of the model. */
  readonly toolBlocks: readonly ToolBlock[];
  /** `superseded` if the server died and another message replaces this one. */
  readonly state: "streaming" | "complete" | "cut" | "superseded";
}

/** Callbacks about messages. All of them are optional. */
export interface MessageManagerCallbacks {
  /** The model starts a new message. */
  onAssistantMessageAdded?: () => void;
  /** A message has grown: the new text, and all of it so far. */
  onAssistantContentUpdated?: (chunk: string, accumulated: string) => void;
  /** A call has changed. */
  onToolBlockUpdated?: (params: AgentToolBlockUpdateParams) => void;
  /** The list has changed. Called at most 30 times a second while a text grows. */
  onMessagesChange?: (messages: Message[]) => void;
  /** A message has grown: all of its text so far. */
  onContentUpdate?: (content: string) => void;
  /** The model writes a call: its arguments so far. */
  onToolUpdate?: (toolCall: { id: string; name: string; parameters: string }) => void;
}

/** A block, and what is needed to keep it up to date. */
interface OpenBlock {
  message: number;
  block: number;
  tool: ToolRef;
  partial: PartialArguments;
  output: Cleaner;
}

/** Keeps the list for the events of one run. */
export class MessagesProjection {
  readonly #callbacks: MessageManagerCallbacks;
  readonly #changes: Throttle;
  readonly #blocks = new Map<string, OpenBlock>();
  #messages: Message[] = [];
  /** Index of the message of this turn. */
  #current: number | undefined;
  #telling = new Map<string, string[]>();
  readonly #content = new Cleaner();
  readonly #reasoning = new Cleaner();

  constructor(callbacks: MessageManagerCallbacks) {
    this.#callbacks = callbacks;
    this.#changes = new Throttle(1000 / 30, () => callbacks.onMessagesChange?.(this.messages));
  }

  /** The list so far, in an array of its own. */
  get messages(): Message[] {
    return [...this.#messages];
  }

  /** Forgets a change that was not reported yet. */
  close(): void {
    this.#changes.close();
  }

  /** Applies one event. All events have to be applied, in order. */
  apply({ event }: RecordedEvent): void {
    switch (event.type) {
      case "run_queued":
        return this.#addInput(event.request);
      case "turn_started":
        this.#current = undefined;
        return;
      case "turn_abandoned":
        return this.#abandonTurn();
      case "turn_finished":
        return this.#closeMessage(stateAfter(event.finish));
      case "message_started":
        this.#openMessage(event.item_id);
        return this.#content.reset();
      case "text_added":
      case "refusal_added":
        return this.#addContent(event.item_id, event.text);
      case "reasoning_added":
        return this.#addReasoning(event.item_id, event.text);
      case "message_finished":
      case "reasoning_finished":
        return this.#noteCompleteness(event.completeness);
      case "run_finished":
        return this.#finish(event.outcome);
      default:
        return this.#applyToCall(event);
    }
  }

  #applyToCall(event: RunEvent): void {
    switch (event.type) {
      case "call_announced":
        return this.#addBlock(event.call_id, event.item_id, event.tool);
      case "arguments_added":
        return this.#addParameters(event.call_id, event.text);
      case "arguments_finished":
        this.#setParameters(event.call_id, event.arguments);
        return this.#noteCompleteness(event.completeness);
      case "approval_resolved":
        if (event.arguments != null) this.#replaceParameters(event.call_id, event.arguments);
        return;
      case "tool_started":
        return this.#run(event.call_id, event.label ? { compactParams: shortened(event.label, 60) } : {});
      case "tool_output_added":
        return this.#addOutput(event.call_id, event.text);
      case "approval_requested":
      case "tool_phase":
      case "tool_progressed":
      case "input_requested":
      case "input_resolved":
      case "tool_stayed_silent":
      case "tool_retried":
        return this.#run(event.call_id, {});
      case "tool_finished":
        return this.#endBlock(event.call_id, event.outcome);
    }
  }

  #addInput(request: Record<string, unknown>): void {
    const { input = [], tools = [] } = request as { input?: InputItem[]; tools?: InputTool[] };
    this.#telling = new Map(tools.map((tool) => [tool.name, tool.telling_arguments ?? []]));
    for (const item of input) {
      if (item.type !== "message") continue;
      const content = (item.content ?? []).map(textOfPart).join("");
      const id = `input_${this.#messages.length + 1}`;
      this.#messages.push({ id, role: item.role ?? "user", content, reasoning: "", toolBlocks: [], state: "complete" });
    }
    if (this.#messages.length > 0) this.#changes.now();
  }

  /** The message of this turn; a new one if there is none. */
  #openMessage(itemId: string): number {
    if (this.#current === undefined) {
      this.#current = this.#messages.length;
      this.#messages.push({
        id: itemId,
        role: "assistant",
        content: "",
        reasoning: "",
        toolBlocks: [],
        state: "streaming",
      });
      this.#content.reset();
      this.#reasoning.reset();
      this.#callbacks.onAssistantMessageAdded?.();
      this.#changes.now();
    }
    return this.#current;
  }

  #addContent(itemId: string, text: string): void {
    const index = this.#openMessage(itemId);
    const chunk = this.#content.clean(text);
    if (chunk === "") return;
    const { content } = this.#update(index, ({ content }) => ({ content: content + chunk }));
    this.#callbacks.onAssistantContentUpdated?.(chunk, content);
    this.#callbacks.onContentUpdate?.(content);
    this.#changes.soon();
  }

  #addReasoning(itemId: string, text: string): void {
    const chunk = this.#reasoning.clean(text);
    this.#update(this.#openMessage(itemId), ({ reasoning }) => ({ reasoning: reasoning + chunk }));
    this.#changes.soon();
  }

  /** Sets the final state of the message of this turn, unless it has one. */
  #closeMessage(state: Message["state"]): void {
    if (this.#current === undefined || this.#messages[this.#current]?.state !== "streaming") return;
    this.#update(this.#current, () => ({ state }));
    this.#changes.now();
  }

  #noteCompleteness(completeness: Completeness): void {
    if (completeness !== "complete") this.#closeMessage(completeness);
  }

  #abandonTurn(): void {
    if (this.#current === undefined) return;
    this.#endOpenBlocks("the answer was withdrawn", this.#current);
    this.#update(this.#current, () => ({ state: "superseded" }));
    this.#current = undefined;
    this.#changes.now();
  }

  #finish({ status }: RunOutcome): void {
    this.#endOpenBlocks(REASONS[status]);
    this.#closeMessage(status === "completed" ? "complete" : "cut");
    this.#changes.now();
  }

  #addBlock(callId: string, itemId: string, tool: ToolRef): void {
    const message = this.#openMessage(itemId);
    const block = this.#messages[message]?.toolBlocks.length ?? 0;
    const partial = new PartialArguments(this.#telling.get(tool.name));
    this.#blocks.set(callId, { message, block, tool, partial, output: new Cleaner() });
    const added: ToolBlock = { id: callId, name: tool.name, parameters: "", stage: "start", output: "" };
    this.#update(message, ({ toolBlocks }) => ({ toolBlocks: [...toolBlocks, added] }));
    this.#report(added);
    this.#changes.now();
  }

  #addParameters(callId: string, text: string): void {
    const place = this.#blocks.get(callId);
    const block = this.#blockAt(place);
    if (!place || !block || block.stage === "running") return;
    place.partial.push(text);
    const compactParams = place.partial.label();
    const changed = this.#updateBlock(place, {
      stage: "streaming",
      parameters: block.parameters + text,
      compactParams,
    });
    this.#report(changed, text);
    const { id, name, parameters } = changed;
    this.#callbacks.onToolUpdate?.({ id, name, parameters });
    this.#changes.soon();
  }

  /** The complete arguments. From a provider that does not stream them this is the only piece. */
  #setParameters(callId: string, parameters: string): void {
    const place = this.#blocks.get(callId);
    const block = this.#blockAt(place);
    if (!place || !block || block.parameters === parameters) return;
    if (block.parameters === "") return this.#addParameters(callId, parameters);
    this.#updateBlock(place, { parameters, compactParams: place.partial.label() });
    this.#changes.soon();
  }

  /** A person has changed the arguments. */
  #replaceParameters(callId: string, parameters: string): void {
    const place = this.#blocks.get(callId);
    if (!place) return;
    place.partial = new PartialArguments(this.#telling.get(place.tool.name));
    place.partial.push(parameters);
    this.#setParameters(callId, parameters);
  }

  #addOutput(callId: string, text: string): void {
    const place = this.#blocks.get(callId);
    const output = (this.#blockAt(place)?.output ?? "") + (place?.output.clean(text) ?? "");
    this.#run(callId, { output });
  }

  #run(callId: string, change: Partial<ToolBlock>): void {
    const place = this.#blocks.get(callId);
    if (!place || !this.#blockAt(place)) return;
    this.#report(this.#updateBlock(place, { ...change, stage: "running" }));
    this.#changes.soon();
  }

  #endBlock(callId: string, outcome: ToolOutcome): void {
    const place = this.#blocks.get(callId);
    if (!place || !this.#blockAt(place)) return;
    this.#report(this.#updateBlock(place, endOf(outcome)));
    this.#changes.now();
  }

  #endOpenBlocks(reason: string, message?: number): void {
    for (const [callId, place] of this.#blocks) {
      if (isRunByClient(place.tool) || (message !== undefined && place.message !== message)) continue;
      this.#endBlock(callId, { status: "skipped", reason });
    }
  }

  /** The block of a call that has not ended. */
  #blockAt(place: OpenBlock | undefined): ToolBlock | undefined {
    const block = place && this.#messages[place.message]?.toolBlocks[place.block];
    return block?.stage === "end" ? undefined : block;
  }

  #updateBlock(place: OpenBlock, change: Partial<ToolBlock>): ToolBlock {
    const { toolBlocks } = this.#update(place.message, ({ toolBlocks }) => ({
      toolBlocks: toolBlocks.map((block, index) => (index === place.block ? { ...block, ...change } : block)),
    }));
    return toolBlocks[place.block] as ToolBlock;
  }

  #update(index: number, change: (message: Message) => Partial<Message>): Message {
    const message = this.#messages[index] as Message;
    const changed = { ...message, ...change(message) };
    this.#messages[index] = changed;
    return changed;
  }

  #report({ output: _, compactParams, ...block }: ToolBlock, parametersChunk?: string): void {
    this.#callbacks.onToolBlockUpdated?.({
      ...block,
      ...(compactParams ? { compactParams } : {}),
      ...(parametersChunk === undefined ? {} : { parametersChunk }),
    });
  }
}

/** What the projection reads of the request that created a run. */
interface InputItem {
  type: string;
  role?: string;
  content?: Array<{ type: string; text?: string }>;
}
interface InputTool {
  name: string;
  telling_arguments?: string[];
}

const REASONS: Record<RunOutcome["status"], string> = {
  completed: "the run was over",
  incomplete: "the run reached a limit",
  failed: "the run failed",
  cancelled: "the run was cancelled",
};

function stateAfter(finish: Finish): Message["state"] {
  return finish === "answered" || finish === "called_tools" ? "complete" : "cut";
}

function textOfPart(part: { type: string; text?: string }): string {
  return part.text ?? `[${part.type}]`;
}

/** What the end of a call changes in its block. */
function endOf(outcome: ToolOutcome): Partial<ToolBlock> {
  if (outcome.status !== "succeeded") {
    return { stage: "end", success: false, error: problemOf(outcome) ?? "", shortResult: resultSummary(outcome) };
  }
  const { text, short, images } = outcome.output;
  return {
    stage: "end",
    success: true,
    result: text,
    shortResult: short ? shortened(short, 100) : resultSummary(outcome),
    ...(images?.length ? { images: images.map(imageUrl) } : {}),
  };
}

/** A `data:` URL, or the address of an image that the server stores. */
function imageUrl({ media_type, base64 }: { media_type: string; base64: string }): string {
  return base64.startsWith("turnwire-file:") ? base64 : `data:${media_type};base64,${base64}`;
}
