/**
 * The runs of the person, newest first, and the threads that they belong to.
 *
 * There is one list for the whole page. The server tells of changes where it can
 * (`/v1/runs/changes`); otherwise the list is asked for again from time to time.
 */

import { SseParser } from "turnwire/sse";
import { request, requestIfThere, watchedFetch } from "./api";
import { Store } from "./store";

/** A line of `GET /v1/runs`. Newer servers tell more. */
export interface RunLine {
  run_id: string;
  created_at: string;
  model: string;
  conversation_id: string | null;
  status: string;
  stalled?: string;
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
  counts?: Record<string, number>;
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

const POLL_MS = 3000;
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
      await readRuns();
      if (await followChanges()) continue;
    } catch {
      // The banner says so already.
    }
    await pause(document.hidden ? 5 * POLL_MS : POLL_MS);
  }
}

/** Waits, but not for a page that comes into view. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    document.addEventListener("visibilitychange", end);
  });
}

/** Reads the newest runs. */
export async function readRuns(): Promise<void> {
  const page = await request<RunPage>("/v1/runs?limit=100");
  if (JSON.stringify(page.data) !== JSON.stringify(runs.value)) runs.set(page.data);
  listed.set(true);
}

/** Older servers have no feed; they are asked once. */
let hasFeed = true;

/** Whether the server has the live feed; ends when the feed does. */
async function followChanges(): Promise<boolean> {
  // A browser opens six connections to a server; hidden tabs leave theirs to the others.
  if (!hasFeed || document.hidden) return false;
  const stop = new AbortController();
  document.addEventListener("visibilitychange", () => stop.abort(), { once: true });
  const response = await watchedFetch("/v1/runs/changes", { signal: stop.signal });
  const isFeed = response.ok && response.headers.get("content-type")?.startsWith("text/event-stream");
  if (!isFeed || !response.body) {
    hasFeed = response.status !== 404;
    void response.body?.cancel();
    return false;
  }
  const parser = new SseParser();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
    if (done || !value) return false;
    for (const frame of parser.push(value)) noteRun(JSON.parse(frame.data) as RunLine);
  }
}

/** Puts a run into the list, or changes it there. */
export function noteRun(changed: RunLine): void {
  runs.update((list) => {
    const place = list.findIndex((one) => one.run_id === changed.run_id);
    if (place >= 0) return list.with(place, { ...list[place], ...changed });
    return [changed, ...list].sort((a, b) => b.created_at.localeCompare(a.created_at)).slice(0, 200);
  });
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
