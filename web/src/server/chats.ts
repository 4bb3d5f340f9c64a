/**
 * The chats of this browser: what was written in each, kept over a reload and told to other tabs, and
 * sent to where it was written, whatever is on the screen.
 *
 * A chat that the server does not know yet is `new` until its first message is sent, and then has a
 * name of its own until the server gives it one.
 */

import { ConflictError } from "turnwire";
import { type Chat, EMPTY_CHAT, type Message, arrived, filesOf, isEmpty, mustWait, refused, sendQueued, submit, withFiles } from "../model/chat";
import { replace, route, to } from "../router";
import { sentence } from "./api";
import { choiceOf, moveChoice } from "./choices";
import { type Started, itemOf, startRun } from "./commands";
import { dropFiles, keepFile, keptFile } from "./kept_files";
import { Store } from "./store";
import { isAtWork, linesOf, listed, runs, setTitle } from "./threads";

const KEY = "turnwire.chat.";
const NEW = "new";
/** Another tab sends what it wrote; if it was closed meanwhile, this one does. */
const OTHER_TAB_MS = 10_000;
/** A message that came too early is tried again after this time. */
const AGAIN_MS = 2000;

interface Entry {
  id: string;
  /** Stays the same when the server names the chat. */
  readonly uid: string;
  readonly chat: Store<Chat>;
}

const entries = new Map<string, Entry>();
/** Messages that this tab leaves alone for now, by key. */
const resting = new Map<string, number>();
const underway = new Set<string>();
/** Runs that an edited message replaced, with those after them. */
export const replaced = new Store<ReadonlySet<string>>(new Set());
/** Chats that the server has not named yet, newest first. */
export const unnamed = new Store<readonly string[]>([]);

/** The ID of the chat at the server, if it has one. */
export function serverId(id: string): string | undefined {
  return id === NEW || id.startsWith(`${NEW}/`) ? undefined : id;
}

/** A value that nobody else has; `crypto.randomUUID` exists only where the page is secure. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function entryOf(id: string): Entry {
  const known = entries.get(id);
  if (known) return known;
  const entry: Entry = { id, uid: randomId(), chat: new Store(stored(id)) };
  entries.set(id, entry);
  entry.chat.watch(() => {
    write(entry);
    listUnnamed();
    tend();
  });
  listUnnamed();
  return entry;
}

export function chatOf(id: string): Store<Chat> {
  return entryOf(id).chat;
}

export function uidOf(id: string): string {
  return entryOf(id).uid;
}

/** Sends what is written in a chat. A new chat gets a name and an address of its own. */
export function send(id: string, isBusy: boolean): void {
  change(id, (chat, fresh) => submit(chat, isBusy, fresh));
}

/** Sends a text that was picked. What is written stays. */
export function sendText(id: string, text: string): void {
  change(id, (chat, fresh) => ({ ...submit({ ...chat, draft: text, files: [] }, false, fresh), draft: chat.draft, files: chat.files }));
}

function change(id: string, to: (chat: Chat, fresh: Pick<Message, "key" | "choice">) => Chat): void {
  const entry = entryOf(id);
  const after = to(entry.chat.value, { key: randomId(), choice: choiceOf(id).value });
  if (id === NEW && after.sending) move(entry, `${NEW}/${after.sending.key}`);
  entry.chat.set(after);
}

function move(entry: Entry, id: string): void {
  const from = entry.id;
  entries.delete(from);
  localStorage.removeItem(KEY + from);
  entry.id = id;
  entries.set(id, entry);
  moveChoice(from, id);
  write(entry);
  listUnnamed();
  if (route.value.page === "chat" && route.value.chat === from) replace(to.chat(id));
}

function listUnnamed(): void {
  const ids = [...entries.values()].filter(({ id, chat }) => id !== NEW && !serverId(id) && !isEmpty(chat.value)).map(({ id }) => id);
  if (ids.join() !== unnamed.value.toReversed().join()) unnamed.set(ids.toReversed());
}

/** Sends what is due. Called whenever something changes that it may have waited for. */
function tend(): void {
  for (const entry of [...entries.values()]) {
    const { queue, sending, problem } = entry.chat.value;
    const message = sending ?? queue;
    if (!message || underway.has(message.key) || isResting(message) || message.files.some(({ url }) => url === "")) continue;
    if (sending) void deliver(entry, sending);
    else if (!problem && isFree(entry.id)) entry.chat.update(sendQueued);
  }
}

function isFree(id: string): boolean {
  return serverId(id) !== undefined && listed.value && !runs.value.some((run) => run.conversation_id === id && isAtWork(run));
}

function isResting({ key }: Message): boolean {
  return (resting.get(key) ?? 0) > Date.now();
}

function rest({ key }: Message, ms: number): void {
  resting.set(key, Date.now() + ms);
  setTimeout(tend, ms + 1);
}

async function deliver(entry: Entry, message: Message): Promise<void> {
  underway.add(message.key);
  try {
    const conversationId = serverId(entry.id);
    const ready = await withItem(entry, conversationId, message);
    noteStarted(entry, message, await startRun(ready, conversationId));
    entry.chat.update((chat) => arrived(chat, message.key));
  } catch (error) {
    const isTooEarly = error instanceof ConflictError && error.code === "conversation_locked" && !message.replaces;
    if (isTooEarly) rest(message, AGAIN_MS);
    entry.chat.update((chat) => (isTooEarly ? mustWait(chat, message.key) : refused(chat, message.key, sentence(error))));
  } finally {
    underway.delete(message.key);
  }
  tend();
}

/** Finds out, once, what the message replaces. It is kept, because every attempt must say the same. */
async function withItem(entry: Entry, conversationId: string | undefined, message: Message): Promise<Message> {
  if (!message.replaces || !conversationId || message.item !== undefined) return message;
  const ready = { ...message, item: (await itemOf(conversationId, message.replaces)) ?? null };
  entry.chat.update((chat) => (chat.sending?.key === message.key ? { ...chat, sending: ready } : chat));
  return ready;
}

function noteStarted(entry: Entry, message: Message, { runId, conversationId }: Started): void {
  if (message.replaces) {
    const lines = linesOf(runs.value, [], conversationId).map((run) => run.run_id);
    const from = lines.indexOf(message.replaces);
    const gone = from < 0 ? [message.replaces] : lines.slice(from).filter((id) => id !== runId);
    replaced.update((all) => new Set([...all, ...gone]));
  }
  if (serverId(entry.id) || !entries.has(entry.id)) return;
  if (message.text) setTitle(conversationId, message.text.slice(0, 120));
  move(entry, conversationId);
}

function write({ id, chat }: Entry): void {
  try {
    if (isEmpty(chat.value)) localStorage.removeItem(KEY + id);
    else localStorage.setItem(KEY + id, JSON.stringify(withFiles(chat.value, (file) => ({ ...file, url: "" }))));
  } catch {
    // The browser keeps no more: what was written stays for as long as the page is open.
  }
}

function stored(id: string): Chat {
  try {
    return { ...EMPTY_CHAT, ...(JSON.parse(localStorage.getItem(KEY + id) ?? "{}") as Partial<Chat>) };
  } catch {
    return EMPTY_CHAT;
  }
}

/** Adds a file to a chat, once the browser keeps it: other tabs look for it there. */
export async function attach(id: string, name: string, mediaType: string, url: string): Promise<void> {
  const { chat } = entryOf(id);
  const file = { id: randomId(), name, mediaType, url };
  await keepFile(file.id, url).catch(() => undefined);
  chat.update((now) => ({ ...now, files: [...now.files, file] }));
}

/** Reads the contents of files that only their names are known of. */
async function readFiles({ chat }: Entry): Promise<void> {
  for (const { id, url } of filesOf(chat.value)) {
    const kept = url || (await keptFile(id).catch(() => undefined));
    if (kept) chat.update((now) => withFiles(now, (file) => (file.id === id ? { ...file, url: kept } : file)));
  }
}

/** Leaves out what cannot be read any more, and says so. */
function dropLost({ chat }: Entry): void {
  const lost = filesOf(chat.value).filter(({ url }) => url === "").map(({ name }) => name);
  if (lost.length === 0) return;
  const problem = `The browser did not keep ${lost.join(", ")}. Please attach it again.`;
  chat.update((now) => ({ ...withFiles(now, (file) => (file.url === "" ? undefined : file)), problem }));
}

/** What another tab did in a chat. */
function takeOver(id: string, value: string | null): void {
  const entry = entries.get(id);
  if (value === null && !serverId(id) && id !== NEW) {
    entries.delete(id);
    return listUnnamed();
  }
  if (!entry && value === null) return;
  const { chat } = entryOf(id);
  const known = new Map(filesOf(chat.value).map((file) => [file.id, file.url]));
  const next = withFiles(stored(id), (file) => ({ ...file, url: known.get(file.id) ?? "" }));
  if (next.sending) rest(next.sending, OTHER_TAB_MS);
  chat.set(next);
  void readFiles(entryOf(id));
}

let isWatching = false;

/** Reads what was kept, and goes on sending it for as long as the page is open. */
export function watchChats(): void {
  if (isWatching) return;
  isWatching = true;
  const ids = Object.keys(localStorage).filter((key) => key.startsWith(KEY)).map((key) => key.slice(KEY.length));
  const kept = ids.map(entryOf);
  void Promise.all(kept.map(readFiles))
    .then(() => kept.forEach(dropLost))
    .then(() => dropFiles(new Set([...entries.values()].flatMap(({ chat }) => filesOf(chat.value)).map(({ id }) => id))))
    .catch(() => undefined);
  addEventListener("storage", ({ key, newValue }) => key?.startsWith(KEY) && takeOver(key.slice(KEY.length), newValue));
  runs.watch(tend);
  listed.watch(tend);
  tend();
}

/** Forgets everything that was written, because somebody else comes. */
export function forgetChats(): void {
  for (const { id, chat } of [...entries.values()]) {
    chat.set(EMPTY_CHAT);
    if (id !== NEW) entries.delete(id);
  }
  listUnnamed();
  void dropFiles(new Set()).catch(() => undefined);
}
