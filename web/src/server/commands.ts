/** What a person can do with a run. */

import type { Approval, CommandResult, InputReply } from "turnwire";
import { commands, request, turnwire } from "./api";
import type { Choice } from "./choices";
import { type RunFeed, feedOf } from "./run_feed";
import { noteRun } from "./threads";

/** A run that has begun, and its thread. */
export interface Started {
  runId: string;
  conversationId: string;
}

/** A file that goes with a message, as a `data:` URL. */
export interface Attachment {
  name: string;
  mediaType: string;
  url: string;
}

/** What is sent: a text, files, or both, and what was picked for the thread. */
export interface Outgoing {
  text: string;
  files: readonly Attachment[];
  conversationId: string | undefined;
  choice: Choice;
  /** The item of the thread that it replaces, with everything after it. */
  replaces?: string | undefined;
}

/** Sends a message. Resolves once the run exists, which survives anything from there on. */
export function startRun({ text, files, conversationId, choice, replaces }: Outgoing): Promise<Started> {
  const stop = new AbortController();
  return new Promise((resolve, reject) => {
    const chat = turnwire.streamChat({
      message: text,
      ...(files.length > 0 ? { attachments: files.map(partOf) } : {}),
      ...(conversationId ? { sessionId: conversationId } : {}),
      ...(replaces ? { replaces } : {}),
      ...(choice.model ? { model: choice.model } : {}),
      ...(choice.tools ? { tools: serversOf(choice.tools) } : {}),
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
          ...(text ? { title: text.slice(0, 120) } : {}),
        });
        feedOf(runId, true);
        resolve({ runId, conversationId: id ?? "" });
      },
    });
    chat.catch((error: unknown) => !stop.signal.aborted && reject(error));
  });
}

function partOf({ name, mediaType, url }: Attachment): Record<string, unknown> {
  return mediaType.startsWith("image/") ? { type: "input_image", image_url: url } : { type: "input_file", filename: name, file_data: url };
}

/** The servers that the picked tools belong to. */
function serversOf(tools: readonly string[]): Record<string, unknown>[] {
  const byServer = new Map<string, string[]>();
  for (const tool of tools) {
    const [server = "", name = ""] = tool.split(/\/(.*)/s);
    byServer.set(server, [...(byServer.get(server) ?? []), name]);
  }
  return [...byServer].map(([server, allowed]) => ({ type: "mcp", server_label: server, allowed_tools: allowed }));
}

export function stopRun(feed: RunFeed): Promise<void> {
  return feed.command("run", "stop", () => commands.cancel(feed.runId));
}

export function stopCall(feed: RunFeed, callId: string): Promise<void> {
  return feed.command(callId, "stop", () => commands.cancelCall(feed.runId, callId));
}

export function decide(feed: RunFeed, callId: string, approval: Approval): Promise<void> {
  return feed.command(callId, approval.decision, () => commands.approve(feed.runId, callId, approval));
}

export function answer(feed: RunFeed, callId: string, reply: InputReply): Promise<void> {
  return feed.command(callId, "answer", () => commands.reply(feed.runId, callId, reply));
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

/** The `n`th message of the person from the end of a conversation, if it has so many. */
export async function questionFromEnd(conversationId: string, n: number): Promise<string | undefined> {
  const items = await itemsOf(conversationId);
  return items.filter((item) => item.role === "user").at(-n)?.id;
}
