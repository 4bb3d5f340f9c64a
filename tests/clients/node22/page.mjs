// A page with `useChat` of the AI SDK 5, 6 or 7, rendered by React into a DOM. Tests see what it
// shows and press its buttons.

import * as react7 from "@ai-sdk/react";
import { WorkflowChatTransport } from "@ai-sdk/workflow/client";
import * as ai7 from "ai";
import * as ai5 from "ai-5";
import * as react5 from "ai-5-react";
import * as ai6 from "ai-6";
import * as react6 from "ai-6-react";
import { Window } from "happy-dom";
import { createElement as h, useLayoutEffect } from "react";

import { assert, BASE_URL, within } from "./harness.mjs";

const window = new Window({ url: BASE_URL });
Object.assign(globalThis, { window, document: window.document });
const { createRoot } = await import("react-dom/client");

export const API = `${BASE_URL}/ai-sdk/chat`;
const V5 = { sdk: 5, ai: ai5, useChat: react5.useChat };
const V6 = { sdk: 6, ai: ai6, useChat: react6.useChat };
const V7 = { sdk: 7, ai: ai7, useChat: react7.useChat };
/** Versions of the SDK and their transports. Each may be made to break after so many deltas of text, and to add to its body. */
export const SDKS = [
  { name: "ai 5", ...V5, transport: (options) => overHttp(V5, options) },
  { name: "ai 6", ...V6, transport: (options) => overHttp(V6, options) },
  { name: "ai 7", ...V7, transport: (options) => overHttp(V7, options) },
  { name: "WebSocketChatTransport", ...V7, transport: overSocket, stopsForReal: true },
  { name: "WorkflowChatTransport", ...V7, transport: asWorkflow, resumesItself: true },
];

const deltasIn = (text) => text.split('"text-delta"').length - 1;

/** A `fetch` whose first answer breaks after `n` deltas. */
function breaking(n) {
  if (!n) return fetch;
  let left = n;
  return async (...request) => {
    const response = await fetch(...request);
    if (left <= 0) return response;
    const cut = new TransformStream({
      transform(bytes, controller) {
        left -= deltasIn(new TextDecoder().decode(bytes));
        controller.enqueue(bytes);
        if (left <= 0) controller.error(new TypeError("network error"));
      },
    });
    return new Response(response.body.pipeThrough(cut), response);
  };
}

function overHttp({ ai, sdk }, { breakAfter, body }) {
  return new ai.DefaultChatTransport({
    api: `${API}?sdk=${sdk}`,
    body,
    fetch: breaking(breakAfter),
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${API}/${encodeURIComponent(id)}/stream?sdk=${sdk}` }),
  });
}

function overSocket({ breakAfter, body }) {
  let left = breakAfter;
  class Socket extends WebSocket {
    constructor(...address) {
      super(...address);
      if (left > 0) this.addEventListener("message", ({ data }) => (left -= deltasIn(data)) <= 0 && this.close());
    }
  }
  return new ai7.WebSocketChatTransport({ url: API.replace("http", "ws"), webSocket: Socket, body });
}

/** Without more settings it does not send the ID of the chat. */
function asWorkflow({ breakAfter, body }) {
  return new WorkflowChatTransport({
    api: API,
    fetch: breaking(breakAfter),
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({ body: { ...body, id, messages, trigger, messageId } }),
  });
}

const json = (body) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** An approval as version 5 has it: the page answers on a route of ours. */
function answer({ run_id, call_id }, approved) {
  return fetch(`${BASE_URL}/v1/runs/${run_id}/calls/${call_id}/approve`, json({ decision: approved ? "approve" : "deny" }));
}

const question = (key, answerWith) =>
  h("p", { key, className: "question" },
    h("button", { onClick: () => answerWith(true) }, "Allow"),
    h("button", { onClick: () => answerWith(false) }, "Deny"));

function Part({ part, chat, sdk }) {
  const { type, data, state } = part;
  if (type === "text") return h("p", { className: "text" }, part.text);
  if (type === "data-tool-progress") return h("p", { className: "progress" }, data.message);
  if (type === "data-approval" && sdk === 5 && data.state === "requested") return question("ask", (yes) => answer(data, yes));
  if (type !== "dynamic-tool") return null;
  const asks = state === "approval-requested";
  const answerWith = (approved) => chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "mine" });
  const end = part.errorText ?? JSON.stringify(part.output) ?? "";
  return [h("p", { key: "tool", className: "tool" }, `${part.toolName} ${state} ${end}`.trim()), asks && question("ask", answerWith)];
}

function Chat({ page, sdk, id, options }) {
  const chat = sdk.useChat({ id, ...options });
  page.chat = chat;
  useLayoutEffect(() => page.rendered());
  const { messages, status, error } = chat;
  return h("main", { className: status },
    messages.map(({ id, role, parts, metadata }) =>
      h("section", { key: id, className: role, id },
        parts.map((part, n) => h(Part, { key: n, part, chat, sdk: sdk.sdk })),
        metadata?.outcome && h("footer", {}, metadata.outcome.status))),
    error && h("p", { className: "error" }, error.message),
    h("button", { onClick: () => chat.sendMessage({ text: page.text }) }, "Send"),
    h("button", { onClick: () => fetch(`${API}/${id}/stop`, { method: "POST" }) }, "Stop"),
    h("button", { onClick: () => page.resume() }, "Resume"));
}

export class Page {
  #root;
  #sdk;
  #options;
  #n_hooks = 0;
  #container = document.body.appendChild(document.createElement("div"));
  #watchers = new Set();

  /** Opens a page; all options of the hook may be given, after how many deltas it breaks, and more for the body. */
  constructor(sdk, { id = crypto.randomUUID(), breakAfter, body, transport = sdk.transport({ breakAfter, body }), ...options } = {}) {
    this.id = id;
    const sendAutomaticallyWhen = sdk.ai.lastAssistantMessageIsCompleteWithApprovalResponses;
    this.#sdk = sdk;
    this.#options = { transport, sendAutomaticallyWhen, ...options };
    this.#root = createRoot(this.#container);
    this.#render();
  }

  #render() {
    const { id } = this;
    this.#root.render(h(Chat, { key: this.#n_hooks, page: this, sdk: this.#sdk, id, options: this.#options }));
  }

  /** What the button does: goes on after the connection broke. */
  resume() {
    if (this.#sdk.sdk > 6) return this.chat.resumeStream();
    // These append what they read again to what they have. So the hook begins anew, without the
    // answer that was cut.
    this.#options = { ...this.#options, messages: this.chat.messages.slice(0, -1), resume: true };
    this.#n_hooks += 1;
    this.#render();
  }

  /** Called by React after each change of what is shown. */
  rendered() {
    for (const watcher of this.#watchers) watcher();
  }

  /** Calls `watcher` after each change, as long as the page is open. */
  onRendered(watcher) {
    this.#watchers.add(watcher);
  }

  /** Waits until what is shown is as `isSo` wants it. */
  until(what, isSo) {
    const shown = new Promise((resolve, reject) => {
      const look = () => {
        try {
          if (!isSo(this)) return;
          resolve(this);
        } catch (error) {
          reject(error);
        }
        this.#watchers.delete(look);
      };
      this.#watchers.add(look);
      look();
    });
    return within(30_000, shown).catch((error) => {
      throw new Error(`${what}: ${error.message}; the page is ${this.#container.innerHTML.slice(-2000)}`);
    });
  }

  /** All texts of a kind, in all messages of the model. */
  all(kind) {
    return [...this.#container.querySelectorAll(`.assistant .${kind}`)].map((element) => element.textContent);
  }

  get said() {
    return this.all("text").join("");
  }

  get status() {
    return this.#container.querySelector("main")?.className;
  }

  /** How the run ended, if it did. */
  get outcome() {
    return this.#container.querySelector(".assistant:last-of-type footer")?.textContent;
  }

  get error() {
    return this.#container.querySelector(".error")?.textContent;
  }

  async press(label) {
    const find = () => [...this.#container.querySelectorAll("button")].find((button) => button.textContent === label);
    await this.until(`there is a button ${label}`, find);
    find().click();
  }

  async send(text) {
    this.text = text;
    await this.press("Send");
  }

  /** Sends a message and waits for the end of its answer. */
  async ask(text) {
    await this.send(text);
    await this.end();
  }

  async end() {
    await this.until("the run ends", ({ status, outcome }) => status === "ready" && outcome);
    assert(!this.error, this.error);
  }

  /** Closes the page like a tab. A component that only goes away aborts, which cancels over a socket. */
  close() {
    this.#options.transport.close?.();
    this.#root.unmount();
    this.#container.remove();
  }
}
