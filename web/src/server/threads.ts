/**
 * The runs of the person, newest first, and the threads that they belong to.
 *
 * There is one list for the whole page, kept up to date by the changes that the server sends. A
 * hidden page asks from time to time instead: a browser opens six connections to a server, and
 * hidden tabs leave theirs to the others.
 */

import { connection, keyNeeded, line, request, requestIfThere } from "./api";
import { Store } from "./store";

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
/** Titles by conversation: given by a person, or the beginning of the first message. */
export const titles = new Store<Record<string, string>>({});

/** Counts the changes of the server, for whoever shows more than the newest runs. */
export const changes = new Store(0);

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
  if (JSON.stringify(page.data) !== JSON.stringify(runs.value)) runs.set(page.data);
  listed.set(true);
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

/** The threads, the one with the newest run first. */
export function threadsOf(list: readonly RunLine[]): Thread[] {
  const byId = new Map<string, Thread>();
  for (const run of list) {
    if (!run.conversation_id) continue;
    const thread = byId.get(run.conversation_id) ?? { id: run.conversation_id, runs: [], at: run.created_at };
    thread.runs.unshift(run);
    byId.set(run.conversation_id, thread);
  }
  return [...byId.values()];
}

interface Conversation {
  metadata?: Record<string, string>;
}

const asked = new Set<string>();

/** Finds out the title of a thread, once. */
export async function learnTitle(thread: Thread): Promise<void> {
  if (asked.has(thread.id)) return;
  asked.add(thread.id);
  try {
    const conversation = await requestIfThere<Conversation>(`/v1/conversations/${encodeURIComponent(thread.id)}`);
    const title = conversation?.metadata?.["title"] ?? thread.runs[0]?.title ?? (await firstMessage(thread.id));
    if (title) setTitle(thread.id, title);
  } catch {
    asked.delete(thread.id);
  }
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
  deleted.update((all) => new Set(all).add(id));
}

/** Threads that were deleted here; their runs may be listed for a while. */
export const deleted = new Store<ReadonlySet<string>>(new Set());

/** Forgets all lists, because another key shows other runs. */
export function forgetThreads(): void {
  asked.clear();
  runs.set([]);
  titles.set({});
  listed.set(false);
  void readRuns().catch(() => undefined);
}
