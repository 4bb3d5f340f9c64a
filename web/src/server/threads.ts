/**
 * The runs of the person, newest first, and the threads that they belong to.
 *
 * There is one list for the whole page, kept up to date by the changes that the server sends. A
 * hidden page asks from time to time instead: a browser opens six connections to a server, and
 * hidden tabs leave theirs to the others.
 */

import { connection, keyNeeded, line, request, requestIfThere } from "./api";
import { Store, keepIds, keptIds, useStore } from "./store";

/** A line of `GET /v1/runs`; what this page knows of a run before the server lists it has less. */
export interface RunLine {
  run_id: string;
  created_at: string;
  model: string;
  conversation_id: string | null;
  status: string;
  stalled?: string | null;
  title?: string;
  tools?: string[];
  n_calls?: number;
  n_failed_calls?: number;
  ended_at?: string | null;
}

export interface RunPage {
  data: RunLine[];
  has_more: boolean;
  last_id: string | null;
  counts: Record<string, number>;
}

export interface Thread {
  id: string;
  /** Oldest first. */
  runs: RunLine[];
  at: string;
}

export const runs = new Store<RunLine[]>([]);
/** Whether the list has been read once. */
export const listed = new Store(false);
/** Runs before the newest, as far as they were asked for; and others that were seen or searched for. */
export const older = new Store<RunLine[]>([]);
export const found = new Store<RunLine[]>([]);
export const hasOlder = new Store(false);
/** Titles by conversation: given by a person, or the beginning of the first message. */
export const titles = new Store<Record<string, string>>({});

/** Counts the changes of the server, for whoever shows more than the newest runs. */
export const changes = new Store(0);

/** So many older chats come at once, if there are as many. */
const MORE_CHATS = 20;
const HIDDEN_POLL_MS = 15_000;
const LOST_POLL_MS = 10_000;
const AGAIN_MS = 500;
let started = false;

/** Keeps the list of runs up to date for as long as the page is open. */
export function watchRuns(): void {
  if (started) return;
  started = true;
  void keepUp();
}

async function keepUp(): Promise<never> {
  for (;;) {
    try {
      // Nothing is asked while the person has to give a key.
      if (keyNeeded.value !== "no") await pause(AGAIN_MS);
      else if (document.hidden) await readRuns();
      else await followChanges();
    } catch {
      // The banner says so already.
    }
    await pause(document.hidden ? HIDDEN_POLL_MS : line.value.state === "lost" ? LOST_POLL_MS : AGAIN_MS);
  }
}

/** Waits, but not once the page comes into view or the line is back. */
function pause(ms: number): Promise<void> {
  const before = line.value.state;
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", end);
      stop();
      resolve();
    };
    const timer = setTimeout(end, ms);
    document.addEventListener("visibilitychange", end);
    const stop = line.watch(() => before === "lost" && line.value.state !== "lost" && end());
  });
}

/** Reads the newest runs. */
export async function readRuns(): Promise<void> {
  const page = await request<RunPage>("/v1/runs?limit=100");
  if (JSON.stringify(page.data) !== JSON.stringify(runs.value)) {
    find(runs.value.filter((run) => run.conversation_id));
    runs.set(page.data);
  }
  if (!listed.value) hasOlder.set(page.has_more);
  listed.set(true);
}

/** Reads on in the list of runs until there are more chats: many runs may belong to none. */
export async function readOlder(maxPages = 10): Promise<void> {
  const known = new Set(runs.value.map((run) => run.run_id));
  let missing = MORE_CHATS;
  for (let n = 0; n < maxPages && missing > 0 && hasOlder.value; n += 1) {
    const after = older.value.at(-1)?.run_id ?? runs.value.at(-1)?.run_id;
    const page = await request<RunPage>(`/v1/runs?limit=100${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    older.update((list) => [...list, ...page.data.filter((run) => !known.has(run.run_id))]);
    hasOlder.set(page.has_more);
    missing -= threadsOf(page.data).length;
  }
}

function find(lines: readonly RunLine[]): void {
  found.update((list) => [...new Map([...list, ...lines].map((run) => [run.run_id, run])).values()]);
}

/** The chats in which a message has the text. They are listed from now on, however old they are. */
export async function searchThreads(text: string): Promise<ReadonlySet<string>> {
  const { data } = await request<RunPage>(`/v1/runs?limit=100&q=${encodeURIComponent(text)}`);
  find(data);
  return new Set(threadsOf(data).map((thread) => thread.id));
}

/**
 * Opens the stream first and lists the runs then, so that nothing is missed in between. The first
 * list does not wait: there may be a proxy that holds a stream back until something happens.
 */
async function followChanges(): Promise<void> {
  if (!listed.value) void readRuns().catch(() => undefined);
  const stop = new AbortController();
  const leave = () => document.hidden && stop.abort();
  document.addEventListener("visibilitychange", leave);
  const stream = await connection.open({ path: "/v1/runs/changes", signal: stop.signal });
  try {
    await readAgain();
    for await (const { data } of stream.frames()) {
      const changed = JSON.parse(data) as Partial<RunLine>;
      // The other kind of frame says that changes were left out.
      if (changed.run_id) replaceRun(changed as RunLine);
      else await readAgain();
    }
  } finally {
    document.removeEventListener("visibilitychange", leave);
    stream.close();
  }
}

async function readAgain(): Promise<void> {
  await readRuns();
  changes.update((n) => n + 1);
}

/** A line of the server replaces everything that was known of the run. */
function replaceRun(changed: RunLine): void {
  runs.update((list) => insert(list.filter((one) => one.run_id !== changed.run_id), changed));
  for (const store of [older, found]) store.update((list) => list.map((one) => (one.run_id === changed.run_id ? changed : one)));
  changes.update((n) => n + 1);
}

function insert(list: readonly RunLine[], run: RunLine): RunLine[] {
  return [run, ...list].sort((a, b) => b.created_at.localeCompare(a.created_at)).slice(0, 200);
}

/** Notes what this page knows of a run before the server tells. */
export function noteRun(changed: RunLine): void {
  runs.update((list) => {
    const place = list.findIndex((one) => one.run_id === changed.run_id);
    return place >= 0 ? list.with(place, { ...list[place], ...changed }) : insert(list, changed);
  });
}

export function isAtWork({ status }: RunLine): boolean {
  return status === "active" || status === "needs_input" || status === "stalled";
}

/** The runs of a conversation, oldest first, from both lists. */
export function linesOf(list: readonly RunLine[], known: readonly RunLine[], id: string | undefined): RunLine[] {
  if (!id) return [];
  const byId = new Map<string, RunLine>();
  for (const run of [...known, ...list]) if (run.conversation_id === id) byId.set(run.run_id, run);
  return [...byId.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
}

/** The threads of some runs, the one with the newest run first. */
export function threadsOf(list: readonly RunLine[]): Thread[] {
  const byId = new Map<string, Thread>();
  for (const run of [...list].sort((a, b) => b.created_at.localeCompare(a.created_at))) {
    if (!run.conversation_id) continue;
    const thread = byId.get(run.conversation_id) ?? { id: run.conversation_id, runs: [], at: run.created_at };
    thread.runs.unshift(run);
    byId.set(run.conversation_id, thread);
  }
  return [...byId.values()];
}

/** All threads that are known and were not deleted. */
export function useThreads(): Thread[] {
  const lists = [useStore(found), useStore(older), useStore(runs)];
  const gone = useStore(deleted);
  const byId = new Map(lists.flat().map((run) => [run.run_id, run]));
  return threadsOf([...byId.values()]).filter((thread) => !gone.has(thread.id));
}

export interface Conversation {
  metadata?: Record<string, string>;
}

const asked = new Set<string>();
let learning = Promise.resolve();

/** Finds out the title of a thread, once, and whether it is there. One after the other: what the person does comes first. */
export function learnTitle(thread: Thread): void {
  if (asked.has(thread.id)) return;
  asked.add(thread.id);
  learning = learning.then(() => readTitle(thread)).catch(() => void asked.delete(thread.id));
}

async function readTitle(thread: Thread): Promise<void> {
  const conversation = await findThread(thread.id);
  const title = conversation?.metadata?.["title"] ?? thread.runs[0]?.title ?? (await firstMessage(thread.id));
  if (title) setTitle(thread.id, title);
}

/** A thread that the server does not have is listed no more, though its runs are. */
export async function findThread(id: string): Promise<Conversation | undefined> {
  const conversation = await requestIfThere<Conversation>(`/v1/conversations/${encodeURIComponent(id)}`);
  if (!conversation !== deleted.value.has(id)) noteDeleted(id, !conversation);
  return conversation;
}

interface Items {
  data: { role?: string; content?: { text?: string }[] }[];
}

async function firstMessage(id: string): Promise<string | undefined> {
  const items = await requestIfThere<Items>(`/v1/conversations/${encodeURIComponent(id)}/messages?limit=2`);
  const message = items?.data.find((item) => item.role === "user");
  return message?.content?.map((part) => part.text ?? "").join(" ").slice(0, 120);
}

export function setTitle(id: string, title: string): void {
  titles.update((all) => ({ ...all, [id]: title }));
}

/** Gives a thread a name, for every device. */
export async function renameThread(id: string, title: string): Promise<void> {
  const path = `/v1/conversations/${encodeURIComponent(id)}`;
  const { metadata = {} } = await request<Conversation>(path);
  await request(path, { body: { metadata: { ...metadata, title } } });
  setTitle(id, title);
}

/** Deletes a thread. Its runs stay in the list of runs, without it. */
export async function deleteThread(id: string): Promise<void> {
  await request(`/v1/conversations/${encodeURIComponent(id)}`, { method: "DELETE" });
  noteDeleted(id, true);
}

const DELETED = "turnwire.deleted";
const MAX_DELETED = 500;

/** Threads that the server does not have: their runs are listed still. */
export const deleted = new Store(keptIds(DELETED));

function noteDeleted(id: string, isDeleted: boolean): void {
  const others = [...deleted.value].filter((one) => one !== id);
  deleted.set(new Set(isDeleted ? [...others, id] : others));
  keepIds(DELETED, deleted.value, MAX_DELETED);
}

/** Forgets all lists, because another key shows other runs. */
export function forgetThreads(): void {
  asked.clear();
  for (const store of [runs, older, found]) store.set([]);
  titles.set({});
  deleted.set(new Set());
  keepIds(DELETED, [], 0);
  listed.set(false);
  void readRuns().catch(() => undefined);
}
