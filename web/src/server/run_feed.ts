/**
 * One run, followed: its events, and the view that is folded from them.
 *
 * Events are applied at most once a frame, and not more of them than a frame has time to draw. What
 * was read stays when components come and go, so a run is read once per page. The connection does
 * not: a browser opens six to a server, for all its tabs, so a run that nobody looks at has none, and
 * is read on from its last event when somebody does.
 */

import { useEffect, useState } from "preact/hooks";
import { ApiError, type RecordedEvent, Turnwire } from "turnwire";
import { errorOf } from "turnwire/errors";
import { announcements } from "../model/announce";
import { waitsForPerson } from "../model/calls";
import { type RunView, emptyRun, foldRun } from "../model/run";
import { announce } from "./announcer";
import { PATIENCE, keylessFetch, line, noteCaughtUp, turnwire, watchedFetch } from "./api";
import { noteServerTime } from "./clock";
import { Store } from "./store";
import { noteRun } from "./threads";

export interface FeedState {
  view: RunView;
  /** Why the run cannot be shown. */
  error: ApiError | undefined;
  /** Whether everything that was stored when the page asked has arrived. */
  loaded: boolean;
  /** Commands that were sent and not seen in the journal yet, by call, or `run` for Stop. */
  pending: Record<string, "approve" | "deny" | "stop" | "answer">;
}

/** Before a run is read again, unless the line is back earlier. */
const AGAIN_MS = 5000;

/**
 * Events that one frame draws. If more have arrived, because the page was busy, the rest is for the
 * next frames: one that draws it all would keep the page busy. A long backlog goes faster.
 */
const PER_FRAME = { min: 250, share: 1 / 8 };

/** Where the events of a run come from. */
interface Source {
  client: Turnwire;
  path: string;
  fetch: typeof fetch;
  /** Whether the run is one of the person's own, which are listed. */
  isOwn: boolean;
}

function ownSource(runId: string): Source {
  return { client: turnwire, path: `/v1/runs/${encodeURIComponent(runId)}`, fetch: watchedFetch, isOwn: true };
}

export class RunFeed {
  readonly state: Store<FeedState>;
  readonly events: RecordedEvent[] = [];
  readonly #runId: string;
  readonly #source: Source;
  #buffer: RecordedEvent[] = [];
  /** What all events that have arrived give; what is drawn may be a frame behind. */
  #view: RunView;
  #isScheduled = false;
  /** Set while the run is followed. */
  #stop: AbortController | undefined;
  readonly #holders = new Set<object>();
  /** Whether what arrives is new, and not the past that a page reads when it opens. */
  #isLive = false;

  /** `isNew`: the run was started here, so nothing of it is in the past. */
  constructor(runId: string, source: Source = ownSource(runId), isNew = false) {
    this.#runId = runId;
    this.#isLive = isNew;
    this.#source = source;
    this.#view = emptyRun(runId);
    this.state = new Store<FeedState>({ view: this.#view, error: undefined, loaded: false, pending: {} });
  }

  get runId(): string {
    return this.#runId;
  }

  /** Follows the run until the returned function is called, by everybody who asked. */
  hold(): () => void {
    const holder = {};
    // Another look may have another answer, for example with another key.
    if (this.#holders.size === 0) this.state.update((now) => ({ ...now, error: undefined }));
    this.#holders.add(holder);
    held.add(this);
    this.#open();
    return () => {
      if (!this.#holders.delete(holder) || this.#holders.size > 0) return;
      held.delete(this);
      this.close();
    };
  }

  /** Reads again at once, for example because the person asked to. */
  tryNow(): void {
    this.#stop?.abort();
    this.#stop = undefined;
    this.#open();
  }

  #open(): void {
    const { view, error } = this.state.value;
    if (this.#stop || !held.has(this) || document.hidden || view.outcome || error) return;
    this.#stop = new AbortController();
    void this.#follow(this.#stop.signal);
  }

  /** Ends the connection. What comes until the next one is in the past then. */
  close(): void {
    if (this.#stop) this.#isLive = false;
    this.#stop?.abort();
    this.#stop = undefined;
  }

  /** The whole result of a call, of which the journal has only the beginning. */
  async wholeResult(callId: string): Promise<string> {
    const response = await this.#source.fetch(`${this.#source.path}/calls/${encodeURIComponent(callId)}/result`);
    if (!response.ok) throw await errorOf(response);
    return response.text();
  }

  /** Shows a command as sent, and takes that back if it fails. */
  async command(key: string, word: FeedState["pending"][string], send: () => Promise<unknown>): Promise<void> {
    this.#pend({ ...this.state.value.pending, [key]: word });
    try {
      await send();
    } catch (error) {
      const { [key]: _, ...rest } = this.state.value.pending;
      this.#pend(rest);
      throw error;
    }
  }

  #pend(pending: FeedState["pending"]): void {
    this.state.update((now) => ({ ...now, pending }));
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      await this.#readStored(signal);
      this.#flush();
      this.state.update((now) => ({ ...now, loaded: true }));
      this.#isLive = true;
      if (this.state.value.view.outcome) return;
      const after = this.#view.lastSeq;
      for await (const recorded of this.#source.client.followRun(this.#runId, { after, signal })) this.#push(recorded);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) this.state.update((now) => ({ ...now, error, loaded: true }));
      else setTimeout(() => !signal.aborted && void this.#follow(signal), AGAIN_MS);
    }
  }

  /** What is stored by now, much faster than event by event. It is read while it arrives. */
  async #readStored(signal: AbortSignal): Promise<void> {
    this.#fold();
    const after = this.#view.lastSeq;
    const response = await this.#source.fetch(`${this.#source.path}/events?follow=false&format=ndjson&after=${after}`, { signal });
    if (response.status === 204) return;
    if (!response.ok) throw await errorOf(response);
    for await (const events of eventsIn(response)) {
      this.#buffer.push(...events);
      this.#fold();
    }
  }

  /** Folds what has arrived, or the first `most` of it. */
  #fold(most = this.#buffer.length): void {
    const fresh = this.#buffer.slice(0, most).filter(({ seq }) => seq > this.#view.lastSeq);
    this.#buffer = this.#buffer.slice(most);
    for (const recorded of fresh) this.events.push(recorded);
    this.#view = foldRun(this.#view, fresh);
  }

  #push(recorded: RecordedEvent): void {
    noteServerTime(recorded.at);
    this.#buffer.push(recorded);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // A hidden page has no frames, and must stay up to date all the same.
    if (document.hidden) setTimeout(() => this.#flush(), 250);
    else requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    const waiting = this.#buffer.length;
    this.#fold(document.hidden ? waiting : Math.max(PER_FRAME.min, Math.ceil(waiting * PER_FRAME.share)));
    if (this.#buffer.length > 0) this.#schedule();
    const [before, view] = [this.state.value.view, this.#view];
    if (view === before) return;
    this.state.update((now) => ({ ...now, view, pending: stillPending(now.pending, view) }));
    if (this.#isLive && this.#source.isOwn) tellTheList(before, view);
    if (line.value.state === "back") noteCaughtUp(view.lastSeq - before.lastSeq, newsOf(before, view));
    if (this.#isLive) announcements(before, view).forEach(announce);
  }
}

/** The events of a response, in pieces as they arrive. Each line is one, so lines become a list. */
async function* eventsIn(response: Response): AsyncGenerator<RecordedEvent[], void, undefined> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let rest = "";
  for (;;) {
    const read = await reader?.read();
    if (!read || read.done) break;
    const text = rest + decoder.decode(read.value, { stream: true });
    const end = text.lastIndexOf("\n");
    rest = text.slice(end + 1);
    if (end > 0) yield JSON.parse(`[${text.slice(0, end).replaceAll("\n", ",")}]`) as RecordedEvent[];
  }
  if (rest.trim()) yield [JSON.parse(rest) as RecordedEvent];
}

/** The list of runs knows at once what this page knows. */
function tellTheList(before: RunView, view: RunView): void {
  const [was, is] = [listStatus(before), listStatus(view)];
  if (was === is || view.createdAt === "") return;
  noteRun({ run_id: view.runId, created_at: view.createdAt, model: view.model, conversation_id: view.conversationId ?? null, status: is });
}

/** What happened while the line was cut, besides what the steps show. */
function newsOf(before: RunView, after: RunView): string {
  if (before.lastSeq > 0 && !before.outcome && after.outcome) return "The run finished while you were away.";
  const worker = after.workers.at(-1);
  if (!worker || before.workers.length === 0 || after.workers.length === before.workers.length) return "";
  return worker.name ? `The run is on another worker, ${worker.name}.` : "The run is on another worker.";
}

function listStatus(view: RunView): string {
  if (view.outcome) return view.outcome.status;
  return Object.values(view.calls).some(waitsForPerson) ? "needs_input" : "active";
}

/** Commands whose effect is in the journal are no longer pending. */
function stillPending(pending: FeedState["pending"], view: RunView): FeedState["pending"] {
  const left = Object.entries(pending).filter(([key]) => {
    if (view.outcome) return false;
    const call = view.calls[key];
    return call ? !call.finishedAt && (call.state === "needs approval" || call.state === "needs input" || pending[key] === "stop") : true;
  });
  return left.length === Object.keys(pending).length ? pending : Object.fromEntries(left);
}

const feeds = new Map<string, RunFeed>();
/** Those that somebody looks at. */
const held = new Set<RunFeed>();
/** Runs that are kept for a quick return, besides those on the screen. */
const MAX_FEEDS = 60;

/** The feed of a run; the same one for everybody who asks. */
export function feedOf(runId: string, isNew = false): RunFeed {
  const known = feeds.get(runId);
  if (known) return known;
  for (const [id, feed] of feeds) {
    if (feeds.size < MAX_FEEDS) break;
    if (!held.has(feed)) feeds.delete(id);
  }
  const feed = new RunFeed(runId, undefined, isNew);
  feeds.set(runId, feed);
  return feed;
}

/** All runs that are looked at try at once to reach the server. */
export function tryNow(): void {
  for (const feed of held) feed.tryNow();
}

/** A hidden tab leaves its connections to the others, and reads on when it is seen again. */
export function followWhileVisible(): void {
  document.addEventListener("visibilitychange", () => (document.hidden ? held.forEach((feed) => feed.close()) : tryNow()));
}

/** Follows the runs while a component shows them, and draws it again when one of them changes. */
export function useFeeds(shown: readonly RunFeed[]): void {
  const [, draw] = useState(0);
  const key = shown.map((feed) => feed.runId).join();
  useEffect(() => {
    const stops = shown.flatMap((feed) => [feed.state.watch(() => draw((n) => n + 1)), feed.hold()]);
    draw((n) => n + 1);
    // The next ones are held first, so that what is shown still is not closed in between.
    return () => queueMicrotask(() => stops.forEach((stop) => stop()));
  }, [key]);
}

/** Forgets everything, because another key shows other runs. */
export function forgetFeeds(): void {
  for (const feed of feeds.values()) feed.close();
  feeds.clear();
}

/** The run behind a share link. It needs no key, and none is sent. */
export function sharedFeed(token: string): RunFeed {
  const path = sharedPath(token);
  const client = new Turnwire({ ...PATIENCE, fetch: (input, init) => keylessFetch(String(input).replace(/^\/v1\/runs\/[^/]+/, path), init) });
  return new RunFeed("shared", { client, path, fetch: keylessFetch, isOwn: false });
}

/** What a link says about itself. */
export interface SharedLink {
  /** Whether the server withholds the texts of the run. */
  redact: boolean;
  expires_at: string;
}

export async function readSharedLink(token: string): Promise<SharedLink> {
  const response = await keylessFetch(sharedPath(token));
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as SharedLink;
}

function sharedPath(token: string): string {
  return `/v1/shared/${encodeURIComponent(token)}`;
}
