/** What a person can do with a run. */

import type { Approval, CommandResult, InputReply } from "turnwire";
import { errorOf } from "turnwire/errors";
import type { RunView } from "../model/run";
import { request, turnwire, watchedFetch } from "./api";
import { type RunFeed, feedOf } from "./run_feed";
import { noteRun } from "./threads";

/** A run that has begun, and its thread. */
export interface Started {
  runId: string;
  conversationId: string;
}

/** Sends a message. Resolves once the run exists, which survives anything from there on. */
export function startRun(message: string, conversationId: string | undefined): Promise<Started> {
  const stop = new AbortController();
  return new Promise((resolve, reject) => {
    const chat = turnwire.streamChat({
      message,
      ...(conversationId ? { sessionId: conversationId } : {}),
      approvals: true,
      inputs: true,
      signal: stop.signal,
      onEvent: ({ run_id: runId, at, event }) => {
        if (event.type !== "run_queued" || stop.signal.aborted) return;
        stop.abort();
        const { conversation_id: id, model } = event.request as { conversation_id?: string; model?: string };
        noteRun({
          run_id: runId,
          created_at: at,
          model: model ?? "",
          conversation_id: id ?? null,
          status: "active",
          title: message.slice(0, 120),
        });
        feedOf(runId, true);
        resolve({ runId, conversationId: id ?? "" });
      },
    });
    chat.catch((error: unknown) => !stop.signal.aborted && reject(error));
  });
}

/** A file that goes with a message, as a `data:` URL. */
export interface Attachment {
  name: string;
  mediaType: string;
  url: string;
}

/** Sends a message with files, over the surface that takes them. Tools cannot ask in such a run. */
export async function startWithFiles(
  text: string,
  files: readonly Attachment[],
  conversationId: string | undefined,
): Promise<Started> {
  const parts = [
    ...(text ? [{ type: "text", text }] : []),
    ...files.map(({ name, mediaType, url }) => ({ type: "file", filename: name, mediaType, url })),
  ];
  const body = JSON.stringify({ ...(conversationId ? { id: conversationId } : {}), messages: [{ role: "user", parts }] });
  const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
  const response = await watchedFetch("/ai-sdk/chat", { method: "POST", headers, body });
  if (!response.ok) throw await errorOf(response);
  const runId = response.headers.get("x-workflow-run-id")?.match(/run_\w+/)?.[0] ?? "";
  await response.body?.cancel();
  const feed = feedOf(runId, true);
  const view = await new Promise<RunView>((resolve) => {
    const look = () => feed.state.value.view.createdAt !== "" && (stop(), resolve(feed.state.value.view));
    const stop = feed.state.watch(look);
    look();
  });
  return { runId, conversationId: view.conversationId ?? "" };
}

export function stopRun(feed: RunFeed): Promise<void> {
  return feed.command("run", "stop", () => turnwire.cancel(feed.runId));
}

export function stopCall(feed: RunFeed, callId: string): Promise<void> {
  return feed.command(callId, "stop", () => turnwire.cancelCall(feed.runId, callId));
}

export function decide(feed: RunFeed, callId: string, approval: Approval): Promise<void> {
  return feed.command(callId, approval.decision, () => turnwire.approve(feed.runId, callId, approval));
}

export function answer(feed: RunFeed, callId: string, reply: InputReply): Promise<void> {
  return feed.command(callId, "answer", () => turnwire.reply(feed.runId, callId, reply));
}

/** Repeats a call of a run that is over, as the beginning of a new run. */
export async function retryCall(feed: RunFeed, callId: string): Promise<string> {
  const path = `/v1/runs/${encodeURIComponent(feed.runId)}/calls/${encodeURIComponent(callId)}/retry`;
  const { run_id: runId } = await request<CommandResult>(path, { body: {} });
  const { view } = feed.state.value;
  noteRun({
    run_id: runId,
    created_at: new Date().toISOString(),
    model: view.model,
    conversation_id: view.conversationId ?? null,
    status: "active",
  });
  return runId;
}

interface Items {
  data: { id: string; type: string; role?: string }[];
  has_more: boolean;
  last_id: string | null;
}

/** The items of a conversation, oldest first. */
export async function itemsOf(conversationId: string): Promise<Items["data"]> {
  const path = `/v1/conversations/${encodeURIComponent(conversationId)}/messages?limit=100`;
  const items: Items["data"] = [];
  for (let after = ""; ; ) {
    const page = await request<Items>(path + (after && `&after=${encodeURIComponent(after)}`));
    items.push(...page.data);
    if (!page.has_more || !page.last_id) return items;
    after = page.last_id;
  }
}

/**
 * Takes the last `n` messages of the person, and everything after the first of them, out of the
 * conversation. The runs stay in the list of runs.
 */
export async function rewind(conversationId: string, n: number): Promise<void> {
  const items = await itemsOf(conversationId);
  const questions = items.flatMap((item, place) => (item.role === "user" ? [place] : []));
  const from = questions.at(-n);
  if (from === undefined) return;
  const path = `/v1/conversations/${encodeURIComponent(conversationId)}/items`;
  const gone = new Set<string>();
  for (const item of items.slice(from).reverse()) {
    if (gone.has(item.id)) continue;
    gone.add(item.id);
    await request(`${path}/${encodeURIComponent(item.id)}`, { method: "DELETE" }).catch(() => undefined);
  }
}
