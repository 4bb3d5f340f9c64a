/**
 * What a person wrote in one chat and the server does not have yet, as a pure fold over what they do.
 *
 * Nothing here knows which chat is on the screen: whoever changes a chat says which one.
 */

/** The model and the tools of a chat, if the person picked others than the server's own. */
export interface Choice {
  /** Empty for the default of the server. */
  model: string;
  /** As `server/tool`; `undefined` for all. */
  tools: readonly string[] | undefined;
}

/** A file that goes with a message, as a `data:` URL. */
export interface Attachment {
  id: string;
  name: string;
  mediaType: string;
  /** Empty while it is read from where the browser keeps it. */
  url: string;
}

export interface Message {
  /** The same with every attempt, so that the server starts one run for it. */
  key: string;
  text: string;
  files: readonly Attachment[];
  choice: Choice;
  /** The run whose message it replaces, with everything after it. */
  replaces: string | undefined;
  /** The item of the conversation that this is; `null` if it has none. Found out before it is sent. */
  item?: string | null;
}

export interface Chat {
  draft: string;
  files: readonly Attachment[];
  /** What is sent once the run of the chat is over. */
  queue: Message | undefined;
  /** What is on its way. */
  sending: Message | undefined;
  /** The message that the person changes, and the draft that was there before. */
  edit: { runId: string; before: string } | undefined;
  /** Why the last message was not sent. */
  problem: string;
}

export const EMPTY_CHAT: Chat = { draft: "", files: [], queue: undefined, sending: undefined, edit: undefined, problem: "" };

export function isEmpty(chat: Chat): boolean {
  return chat.draft === "" && chat.files.length === 0 && !chat.queue && !chat.sending && !chat.edit;
}

/** Sends what was written, or keeps it for the end of the run. */
export function submit(chat: Chat, isBusy: boolean, fresh: Pick<Message, "key" | "choice">): Chat {
  const { draft, files, edit, queue, sending } = chat;
  if (draft.trim() === "" && files.length === 0) return chat;
  const mustWait = isBusy || sending !== undefined;
  if (edit && mustWait) return { ...chat, problem: "This can be sent again once the run is over." };
  const message = { ...fresh, text: draft.trim(), files, replaces: edit?.runId };
  const rest: Chat = { ...chat, draft: edit?.before ?? "", files: [], edit: undefined, problem: "" };
  // What was refused goes before what was written after it.
  if (mustWait || (queue && !chat.problem && !edit)) return { ...rest, queue: queue ? joined(queue, message) : message };
  return { ...rest, sending: message };
}

/** Sends the message of a run once more, in its place. */
export function askAgain(chat: Chat, message: Message): Chat {
  return chat.sending ? chat : { ...chat, sending: message, edit: undefined, problem: "" };
}

/** The queued message is due. */
export function sendQueued(chat: Chat): Chat {
  return chat.sending || !chat.queue ? chat : { ...chat, sending: chat.queue, queue: undefined };
}

/** The server has the message. */
export function arrived(chat: Chat, key: string): Chat {
  return chat.sending?.key === key ? { ...chat, sending: undefined } : chat;
}

/** The chat has a run already, so the message waits for its end. */
export function mustWait(chat: Chat, key: string): Chat {
  const { sending, queue } = chat;
  if (sending?.key !== key) return chat;
  return { ...chat, sending: undefined, queue: queue ? joined(sending, queue) : sending };
}

/** The server does not take the message: it is a draft again, before what was written meanwhile. */
export function refused(chat: Chat, key: string, problem: string): Chat {
  const { sending } = chat;
  if (sending?.key !== key) return chat;
  const rest: Chat = { ...chat, sending: undefined, files: [...sending.files, ...chat.files], problem };
  if (!sending.replaces) return { ...rest, draft: lines(sending.text, chat.draft) };
  return { ...rest, draft: sending.text, edit: { runId: sending.replaces, before: chat.edit?.before ?? chat.draft } };
}

export function takeBack(chat: Chat): Chat {
  const { queue } = chat;
  if (!queue) return chat;
  return { ...chat, queue: undefined, draft: lines(queue.text, chat.draft), files: [...queue.files, ...chat.files] };
}

export function startEdit(chat: Chat, runId: string, text: string): Chat {
  return { ...chat, draft: text, edit: { runId, before: chat.edit?.before ?? chat.draft } };
}

export function leaveEdit(chat: Chat): Chat {
  return chat.edit ? { ...chat, draft: chat.edit.before, edit: undefined, problem: "" } : chat;
}

function joined(first: Message, then: Message): Message {
  return { ...then, text: lines(first.text, then.text), files: [...first.files, ...then.files] };
}

function lines(...texts: string[]): string {
  return texts.filter(Boolean).join("\n\n");
}

/** All files that a chat has. */
export function filesOf({ files, queue, sending }: Chat): Attachment[] {
  return [...files, ...(queue?.files ?? []), ...(sending?.files ?? [])];
}

/** Changes each file, or leaves it out. */
export function withFiles(chat: Chat, change: (file: Attachment) => Attachment | undefined): Chat {
  const each = (files: readonly Attachment[]) => files.flatMap((file) => change(file) ?? []);
  const { queue, sending } = chat;
  return { ...chat, files: each(chat.files), queue: queue && { ...queue, files: each(queue.files) }, sending: sending && { ...sending, files: each(sending.files) } };
}
