/** The client: one object per server. */

import { Answer } from "./answer.js";
import { type ChatCallbacks, CallbackProjection } from "./callbacks.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { ConnectionLostError, RunFailedError } from "./errors.js";
import { type FollowOptions, followRun } from "./follow.js";
import type {
  ChatMessage,
  CommandResult,
  InputAction,
  RecordedEvent,
  RunOutcome,
  RunSnapshot,
  Usage,
} from "./generated/api.js";
import { guarded } from "./guard.js";
import { type MessageManagerCallbacks, MessagesProjection } from "./messages.js";

/** Options of {@link Turnwire.streamChat}. */
export interface StreamChatOptions extends ChatCallbacks, MessageManagerCallbacks {
  /** The message of the user. May be empty if there are attachments. */
  message: string;
  /** The conversation to continue: `sessionId` of an earlier answer. */
  sessionId?: string;
  /**
   * ID of the item of the conversation that the message replaces, with everything after it. It stays
   * with the runs that it came from.
   */
  replaces?: string;
  /** Path of the file that the user is looking at, as a hint for the model. */
  activeFile?: string;
  /** Name of the model. Default: that of the server. */
  model?: string;
  /**
   * Tools that the model may call, as in `/v1/responses`, such as
   * `{ type: "mcp", server_label: "docs" }`. Default: all tools of the settings.
   */
  tools?: readonly Record<string, unknown>[];
  /**
   * Images and files of the message, as in `/v1/responses`, such as
   * `{ type: "input_image", image_url: "data:…" }`.
   */
  attachments?: readonly Record<string, unknown>[];
  /**
   * Ask before calls that need an approval: `onEvent` gets `approval_requested`, and
   * {@link Turnwire.approve} answers it. Default: false, which denies such calls.
   */
  approvals?: boolean;
  /**
   * Let tools ask the user: `onEvent` gets `input_requested`, and {@link Turnwire.reply} answers
   * it. Default: false, which tells tools that nobody can answer.
   */
  inputs?: boolean;
  /** Every event of the run, as recorded. The first one has the ID of the run. */
  onEvent?: (recorded: RecordedEvent) => void;
  /** Stops watching and rejects. The run continues; {@link Turnwire.cancel} ends it. */
  signal?: AbortSignal;
}

/** The answer to a message. */
export interface ChatResult {
  /** ID of the run. */
  runId: string;
  /** ID of the conversation, for the next message. */
  sessionId: string | undefined;
  /** The answer of the model. */
  text: string;
  /** How the run ended: completed, incomplete or cancelled. */
  outcome: RunOutcome;
  /** Tokens used. */
  usage: Usage;
}

/** An answer to an approval request. */
export interface Approval {
  /** Whether the call may be executed. */
  decision: "approve" | "deny";
  /** Why it may not. The model is told. */
  reason?: string;
  /** Arguments to use instead of the model's. */
  arguments?: Record<string, unknown>;
  /** Also approve later calls of this tool in this conversation. */
  remember?: boolean;
}

/** An answer to a question of a tool. */
export interface InputReply {
  /** Whether the user answers, declines, or dismisses the question. */
  action: InputAction;
  /** With `accept`: the answer, as the schema of the question asks for. */
  content?: Record<string, unknown>;
  /** ID of the question. Default: the latest one of the call. */
  inputId?: string;
}

/** Options of a command. */
export interface CommandOptions {
  /** Gives up the request. */
  signal?: AbortSignal;
}

/** A client of one Turnwire server. */
export class Turnwire {
  readonly #connection: Connection;

  constructor(options: ConnectionOptions) {
    this.#connection = new Connection(options);
  }

  /**
   * Sends a message and calls back as the answer is made, through any number of disconnects.
   *
   * A callback that throws is reported on the console and disturbs nothing.
   */
  async streamChat(options: StreamChatOptions): Promise<ChatResult> {
    const { signal } = options;
    const callbacks = guarded(options);
    const runId = await this.#startChat(options);
    const [answer, tokens, messages] = [
      new Answer(),
      new CallbackProjection(callbacks),
      new MessagesProjection(callbacks),
    ];
    try {
      for await (const recorded of this.followRun(runId, signal ? { signal } : {})) {
        callbacks.onEvent?.(recorded);
        for (const projection of [answer, tokens, messages]) projection.apply(recorded);
      }
    } finally {
      messages.close();
    }
    const { outcome, usage, conversationId, text } = answer;
    if (!outcome || !usage) throw new ConnectionLostError(1, new Error("the run has no end"));
    if (outcome.status === "failed") throw new RunFailedError(runId, outcome.failure);
    return { runId, sessionId: conversationId, text, outcome, usage };
  }

  /**
   * Yields the events of a run after `after`, live or stored, until the run ends.
   *
   * Reconnects by itself: no event is lost, and none comes twice. Leaving the loop closes the
   * connection.
   */
  followRun(runId: string, options: FollowOptions = {}): AsyncGenerator<RecordedEvent, void, undefined> {
    return followRun(this.#connection, runId, options);
  }

  /** The current state of a run. */
  getRun(runId: string, options: CommandOptions = {}): Promise<RunSnapshot> {
    return this.#connection.json({ path: pathOf(runId), ...options });
  }

  /** Cancels a run. `done` is false if it had already ended. */
  cancel(runId: string, options: CommandOptions = {}): Promise<CommandResult> {
    return this.#command(`${pathOf(runId)}/cancel`, {}, options);
  }

  /** Cancels one call; the run continues. `done` is false if the call was not in progress. */
  cancelCall(runId: string, callId: string, options: CommandOptions = {}): Promise<CommandResult> {
    return this.#command(`${pathOf(runId, callId)}/cancel`, {}, options);
  }

  /** Approves or denies a call that waits for it. */
  approve(runId: string, callId: string, approval: Approval, options: CommandOptions = {}): Promise<CommandResult> {
    return this.#command(`${pathOf(runId, callId)}/approve`, approval, options);
  }

  /** Answers a question that a tool asked. */
  reply(runId: string, callId: string, reply: InputReply, options: CommandOptions = {}): Promise<CommandResult> {
    const { action, content, inputId } = reply;
    return this.#command(`${pathOf(runId, callId)}/input`, { action, content, input_id: inputId }, options);
  }

  #command(path: string, body: object, options: CommandOptions): Promise<CommandResult> {
    return this.#connection.json({ path, body, ...options });
  }

  /**
   * Starts the run and returns its ID. The key makes it safe to send the request again: the server
   * starts one run, however often it arrives.
   */
  #startChat(options: StreamChatOptions): Promise<string> {
    const { message, sessionId, replaces, activeFile, model, tools, attachments, approvals, inputs, signal } = options;
    const body: ChatMessage = {
      message: message || undefined,
      session_id: sessionId,
      replaces,
      active_file: activeFile,
      model,
      tools: tools && [...tools],
      attachments: attachments && [...attachments],
      tokens: true,
      approvals,
      inputs,
    };
    const headers = { "idempotency-key": randomKey() };
    return this.#connection.attempt(signal, async () => {
      const stream = await this.#connection.open({ path: "/chat/stream", body, headers, signal });
      try {
        const runId = stream.header("turnwire-run-id");
        if (runId) return runId;
        // The ID of a frame is the ID of its run and a cursor: `run_…:12.0`.
        for await (const { id } of stream.frames()) return id.slice(0, id.lastIndexOf(":"));
        throw new Error("the stream ended before its first frame");
      } finally {
        stream.close();
      }
    });
  }
}

function pathOf(runId: string, callId?: string): string {
  const call = callId === undefined ? "" : `/calls/${encodeURIComponent(callId)}`;
  return `/v1/runs/${encodeURIComponent(runId)}${call}`;
}

/** A key that nobody else uses. Node 18 has no global `crypto`. */
function randomKey(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, index) => (bytes[index] = Math.random() * 256));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
