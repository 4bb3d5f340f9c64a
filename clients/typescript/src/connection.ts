/**
 * Requests to one server: JSON with retries, and event streams that are watched for silence.
 */

import { ApiError, ConnectionLostError, errorOf } from "./errors.js";
import { Retry, type RetryOptions, isTemporary } from "./retry.js";
import { type SseFrame, SseParser } from "./sse.js";

/** Where the server is and how to reach it. */
export interface ConnectionOptions extends RetryOptions {
  /** Address of the server, such as `http://127.0.0.1:7878`. Empty for the origin of the page. */
  baseUrl: string;
  /** API key, if the server asks for one. */
  apiKey?: string;
  /** Headers to send with every request. */
  headers?: Record<string, string>;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
  /**
   * A stream without a byte for this long is broken, in milliseconds. The server sends a keep-alive
   * every 15 seconds. Default: 45000.
   */
  maxSilenceMs?: number;
}

/** One request. */
export interface ServerRequest {
  /** `GET` unless there is a body. */
  method?: "GET" | "POST";
  path: string;
  /** Sent as JSON. */
  body?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** A server, and what is needed to reach it. */
export class Connection {
  readonly #options: ConnectionOptions;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Counts attempts as the options say. */
  retry(signal?: AbortSignal): Retry {
    return new Retry(this.#options, signal);
  }

  /** Sends a request that may be repeated, and returns the JSON of the response. */
  json<T>(request: ServerRequest): Promise<T> {
    return this.attempt(request.signal, async () => {
      const response = await this.#send(request, request.signal);
      return (await response.json()) as T;
    });
  }

  /** Opens an event stream, in one attempt. */
  async open(request: ServerRequest): Promise<EventStream> {
    request.signal?.throwIfAborted();
    const watch = new SilenceWatch(this.#options.maxSilenceMs ?? 45_000, request.signal);
    try {
      const response = await this.#send(request, watch.signal);
      if (response.status !== 204 && !response.headers.get("content-type")?.startsWith("text/event-stream")) {
        throw new Error("the response is not an event stream; is there a proxy that answers for the server?");
      }
      return new EventStream(response, watch);
    } catch (error) {
      watch.stop();
      throw error;
    }
  }

  /** Repeats `action` until it succeeds, fails for good, or the attempts are used up. */
  async attempt<T>(signal: AbortSignal | undefined, action: () => Promise<T>): Promise<T> {
    const retry = this.retry(signal);
    for (;;) {
      try {
        return await action();
      } catch (error) {
        signal?.throwIfAborted();
        if (!isTemporary(error)) throw error;
        const isApiError = error instanceof ApiError;
        if (await retry.another(isApiError ? error.retryAfterMs : undefined)) continue;
        throw isApiError ? error : new ConnectionLostError(retry.failures, error);
      }
    }
  }

  async #send({ method, path, body, headers }: ServerRequest, signal?: AbortSignal): Promise<Response> {
    const { apiKey, fetch: send = fetch, baseUrl } = this.#options;
    const response = await send(baseUrl.replace(/\/+$/, "") + path, {
      method: method ?? (body ? "POST" : "GET"),
      headers: {
        ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
        ...(body ? { "content-type": "application/json" } : {}),
        ...this.#options.headers,
        ...headers,
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
      ...(signal ? { signal } : {}),
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** An open event stream. It has to be closed. */
export class EventStream {
  readonly #response: Response;
  readonly #watch: SilenceWatch;
  readonly #parser = new SseParser();

  constructor(response: Response, watch: SilenceWatch) {
    this.#response = response;
    this.#watch = watch;
  }

  /** Whether the server says that nothing follows (204). */
  get isOver(): boolean {
    return this.#response.status === 204;
  }

  /** How long the server asks to wait before reconnecting, in milliseconds. */
  get retryMs(): number | undefined {
    return this.#parser.retryMs;
  }

  /** Whether it was given up because nothing arrived. */
  get wasSilent(): boolean {
    return this.#watch.isSilent;
  }

  /** A header of the response. */
  header(name: string): string | null {
    return this.#response.headers.get(name);
  }

  /** The frames, until the stream ends or breaks. */
  async *frames(): AsyncGenerator<SseFrame, void, undefined> {
    const reader = this.#response.body?.getReader();
    for (;;) {
      const read = await reader?.read();
      if (!read || read.done) return;
      this.#watch.heard();
      yield* this.#parser.push(read.value);
    }
  }

  /** Closes the connection. */
  close(): void {
    this.#watch.stop();
  }
}

/** Aborts a request when its caller does, or when nothing arrives for too long. */
class SilenceWatch {
  /** Whether nothing arrived for too long. */
  isSilent = false;
  readonly #controller = new AbortController();
  readonly #maxSilenceMs: number;
  readonly #caller: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(maxSilenceMs: number, caller: AbortSignal | undefined) {
    this.#maxSilenceMs = maxSilenceMs;
    this.#caller = caller;
    caller?.addEventListener("abort", this.#abort, { once: true });
    this.heard();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts the time anew. */
  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.isSilent = true;
      this.#controller.abort(new Error(`nothing arrived for ${this.#maxSilenceMs} ms`));
    }, this.#maxSilenceMs);
  }

  /** Ends the request. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  readonly #abort = (): void => this.#controller.abort(this.#caller?.reason);
}
