/** What a person can do with a run. */

import type { Approval, CommandResult, InputReply } from "turnwire";
import type { Attachment, Message } from "../model/chat";
import type { RunView } from "../model/run";
import { questionText } from "../model/words";
import { commands, connection, request, turnwire } from "./api";
import { type RunFeed, feedOf } from "./run_feed";
import { noteRun } from "./threads";

/** A run that has begun, and its thread. */
export interface Started {
  runId: string;
  conversationId: string;
}

/** Sends a message, until the server has it. Resolves once the run exists, which survives anything from there on. */
export async function startRun(message: Message, conversationId: string | undefined): Promise<Started> {
  const { key, text, files, choice, item } = message;
  const body = {
    ...(text ? { message: text } : {}),
    ...(files.length > 0 ? { attachments: files.map(partOf) } : {}),
    ...(conversationId ? { session_id: conversationId } : {}),
    ...(item ? { replaces: item } : {}),
    ...(choice.model ? { model: choice.model } : {}),
    ...(choice.tools ? { tools: serversOf(choice.tools) } : {}),
    tokens: true,
    approvals: true,
    inputs: true,
  };
  const runId = await connection.attempt(undefined, async () => {
    const stream = await connection.open({ path: "/chat/stream", body, headers: { "idempotency-key": key } });
    stream.close();
    const id = stream.header("turnwire-run-id");
    if (!id) throw new Error("the answer names no run");
    return id;
  });
  const run = await turnwire.getRun(runId);
  const title = text ? { title: text.slice(0, 120) } : {};
  noteRun({ run_id: runId, created_at: run.created_at, model: run.model, conversation_id: run.conversation_id ?? null, status: "active", ...title });
  feedOf(runId, true);
  return { runId, conversationId: run.conversation_id ?? "" };
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

interface Item {
  id: string;
  type: string;
  role?: string;
  content?: { text?: string }[];
}

interface Items {
  data: Item[];
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
 * The item of a conversation that is the message of a run, if it is there. It is the one before what
 * the run said; one that nothing answers is told by its text.
 */
export async function itemOf(conversationId: string, runId: string): Promise<string | undefined> {
  const [items, view] = await Promise.all([itemsOf(conversationId), viewOf(runId)]);
  const own = new Set([...view.steps.map((step) => step.id), ...Object.values(view.calls).map((call) => call.itemId)]);
  const first = items.findIndex((item) => own.has(item.id));
  if (first >= 0) return items.slice(0, first).findLast(isQuestion)?.id;
  const text = questionText(view);
  const isThis = (item: Item, place: number) => isQuestion(item) && textOf(item) === text && (items[place + 1]?.role ?? "user") === "user";
  return items.findLast(isThis)?.id;
}

function isQuestion({ role }: Item): boolean {
  return role === "user";
}

function textOf({ content }: Item): string {
  return (content ?? []).map((part) => part.text ?? "").join("\n").trim();
}

/** What is stored of a run by now. */
async function viewOf(runId: string): Promise<RunView> {
  const feed = feedOf(runId);
  const release = feed.hold();
  if (!feed.state.value.loaded) await new Promise<void>((resolve) => feed.state.watch(() => feed.state.value.loaded && resolve()));
  release();
  return feed.state.value.view;
}
