/**
 * Runs with a model or tools that a person picked, over the surface that takes both
 * (`/v1/responses`).
 *
 * A response does not wait for people: it ends when a call needs approval, and the answer begins the
 * next run. Tools cannot ask questions in it.
 */

import type { Approval } from "turnwire";
import { type Call, isHandedBack } from "../model/calls";
import { request } from "./api";
import { type Choice, readOffer } from "./choices";
import type { Attachment, Started } from "./commands";
import { type RunFeed, feedOf } from "./run_feed";
import { noteRun } from "./threads";

/** Sends a message with what was picked for its thread. */
export async function startChosen(text: string, files: readonly Attachment[], conversationId: string | undefined, choice: Choice): Promise<Started> {
  const id = conversationId ?? (await request<{ id: string }>("/v1/conversations", { body: {} })).id;
  const content = [...(text ? [{ type: "input_text", text }] : []), ...files.map(partOf)];
  return send(id, choice, [{ type: "message", role: "user", content }], text);
}

function partOf({ name, mediaType, url }: Attachment): object {
  return mediaType.startsWith("image/") ? { type: "input_image", image_url: url } : { type: "input_file", filename: name, file_data: url };
}

/** Answers to calls of a run that ended for them. They are sent together, with the last one. */
const answers = new Map<string, Map<string, object>>();

export async function answerHandedBack(feed: RunFeed, call: Call, { decision, reason }: Approval, choice: Choice): Promise<void> {
  const { view } = feed.state.value;
  const given = answers.get(feed.runId) ?? new Map<string, object>();
  answers.set(feed.runId, given);
  const answer = { type: "mcp_approval_response", approval_request_id: call.callId, approve: decision === "approve", ...(reason ? { reason } : {}) };
  given.set(call.callId, answer);
  await feed.command(call.callId, decision, async () => {
    const open = Object.values(view.calls).filter(isHandedBack);
    if (!view.conversationId || open.some(({ callId }) => !given.has(callId))) return;
    await send(view.conversationId, { ...choice, model: choice.model || view.model }, [...given.values()], "");
  });
}

async function send(conversation: string, { model, tools }: Choice, input: object[], title: string): Promise<Started> {
  const body = { ...(model ? { model } : {}), conversation, input, tools: await serversOf(tools), background: true };
  const response = await request<{ id: string; model: string }>("/v1/responses", { body });
  const runId = response.id.replace(/^resp_/, "run_");
  noteRun({ run_id: runId, created_at: new Date().toISOString(), model: response.model, conversation_id: conversation, status: "active", ...(title ? { title } : {}) });
  feedOf(runId, true);
  return { runId, conversationId: conversation };
}

/** The servers that the tools belong to; all of them if none was picked out. */
async function serversOf(tools: Choice["tools"]): Promise<object[]> {
  if (!tools) return (await readOffer()).servers.map(({ name }) => ({ type: "mcp", server_label: name }));
  const byServer = new Map<string, string[]>();
  for (const tool of tools) {
    const [server = "", name = ""] = tool.split(/\/(.*)/s);
    byServer.set(server, [...(byServer.get(server) ?? []), name]);
  }
  return [...byServer].map(([server, allowed]) => ({ type: "mcp", server_label: server, allowed_tools: allowed }));
}
