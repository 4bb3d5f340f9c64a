/**
 * Requests to the gateway that served the page.
 *
 * Runs are followed with the TypeScript client, which reconnects by itself; its `fetch` is watched
 * here, so that the page can say when the line is cut. The key of the person is kept in the browser
 * and sent in a header, never in an address.
 */

import { ApiError, AuthenticationError, Turnwire } from "turnwire";
import { Connection } from "turnwire/connection";
import { errorOf } from "turnwire/errors";
import { Store } from "./store";

const KEY = "turnwire.key";

/** Whether the person has to give a key, and why. */
export const keyNeeded = new Store<"no" | "missing" | "wrong">("no");

/** What is known of the line to the server. */
export interface Line {
  state: "live" | "lost" | "back";
  /** Since when it is lost. */
  since: number;
  /** Whether the server answered that it is about to go, or is not ready. */
  restarting: boolean;
  /** Events that arrived right after it came back. */
  caughtUp: number;
  /** What else happened meanwhile, in one sentence. */
  news: string;
}

export const line = new Store<Line>({ state: "live", since: 0, restarting: false, caughtUp: 0, news: "" });

function storedKey(): string | undefined {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? undefined;
}

export function saveKey(key: string, keep: boolean): void {
  forgetKey();
  (keep ? localStorage : sessionStorage).setItem(KEY, key);
  keyNeeded.set("no");
}

export function forgetKey(): void {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
}

export function hasKey(): boolean {
  return storedKey() !== undefined;
}

/** A `fetch` that adds the key and notices whether the server can be reached. */
export async function watchedFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = storedKey();
  if (key && !headers.has("authorization")) headers.set("authorization", `Bearer ${key}`);
  const response = await keylessFetch(input, { ...init, headers });
  if (response.status === 401) keyNeeded.set(key ? "wrong" : "missing");
  return response;
}

/** The same without a key, for what is open to everybody. */
export async function keylessFetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  try {
    const response = await fetch(input, { ...init, credentials: "omit", redirect: "error" });
    if ([502, 503, 504].includes(response.status)) lineLost(true);
    else lineBack();
    return response;
  } catch (error) {
    if (!init.signal?.aborted) lineLost(false);
    throw error;
  }
}

/** Notes a failed attempt. */
export function lineLost(restarting: boolean): void {
  line.update((now) =>
    now.state === "lost"
      ? { ...now, restarting }
      : { state: "lost", since: Date.now(), restarting, caughtUp: 0, news: "" },
  );
}

let fading: ReturnType<typeof setTimeout> | undefined;

function lineBack(): void {
  const { state, since } = line.value;
  if (state !== "lost") return;
  // A cut of less than a second was never shown, so its end is not shown either.
  const shown = Date.now() - since >= 1000;
  line.update((now) => ({ ...now, state: shown ? "back" : "live" }));
  clearTimeout(fading);
  fading = setTimeout(() => line.update((now) => (now.state === "back" ? { ...now, state: "live" } : now)), 3000);
}

/** Events that a resumed stream brought, and what a person should know of them. */
export function noteCaughtUp(n: number, news: string): void {
  line.update((now) => (now.state === "back" ? { ...now, caughtUp: now.caughtUp + n, news: news || now.news } : now));
}

/** Tries for as long as the page is open. That the line is back is noticed by `probe.ts`. */
export const PATIENCE = { baseUrl: "", attempts: Infinity, firstDelayMs: 500, maxDelayMs: 10_000 };
const options = { ...PATIENCE, fetch: (input: RequestInfo | URL, init?: RequestInit) => watchedFetch(input, init) };
export const turnwire = new Turnwire(options);
export const connection = new Connection(options);

/** A command without an answer is sent again after this time. All of them may be sent twice. */
const COMMAND_MS = 10_000;
export const commands = new Turnwire({
  ...PATIENCE,
  fetch: async (input, init) => {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(new Error("no answer in time")), COMMAND_MS);
    try {
      return await watchedFetch(input, { ...init, signal: limit.signal });
    } finally {
      clearTimeout(timer);
    }
  },
});

/** One request and its JSON. */
export async function request<T>(path: string, options: { method?: string; body?: unknown; signal?: AbortSignal } = {}): Promise<T> {
  const { method, body, signal } = options;
  const isForm = body instanceof FormData;
  const response = await watchedFetch(path, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    ...(body === undefined || isForm ? {} : { headers: { "content-type": "application/json" } }),
    ...(signal ? { signal } : {}),
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}

/** Like {@link request}, but `undefined` if there is no such thing. */
export async function requestIfThere<T>(path: string): Promise<T | undefined> {
  try {
    return await request<T>(path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

/** A sentence for a person about what went wrong. */
export function sentence(error: unknown): string {
  if (error instanceof AuthenticationError) return "The server wants a key.";
  if (error instanceof ApiError) return error.message;
  return "The server cannot be reached.";
}
