/**
 * When to try again, and when to give up.
 *
 * A failed attempt is followed by a pause that doubles each time, unless the server says how long
 * to wait. Whatever shows that the connection works again starts the count anew.
 */

import { ApiError, TurnwireError } from "./errors.js";

/** Statuses of a server or a proxy that may be different in a moment. */
const TEMPORARY = new Set([408, 429, 502, 503, 504]);

/** How persistent the client is. */
export interface RetryOptions {
  /** Attempts without any progress before the client gives up. Default: 10. */
  attempts?: number;
  /** Pause after the first failed attempt, in milliseconds. Doubles with each. Default: 100. */
  firstDelayMs?: number;
  /** Longest pause, in milliseconds. Also limits what a server asks for. Default: 10000. */
  maxDelayMs?: number;
}

/** Counts failed attempts and waits between them. */
export class Retry {
  /** Number of failed attempts since the last progress. */
  failures = 0;
  readonly #options: Required<RetryOptions>;
  readonly #signal: AbortSignal | undefined;

  constructor(options: RetryOptions, signal?: AbortSignal) {
    this.#options = {
      attempts: options.attempts ?? 10,
      firstDelayMs: options.firstDelayMs ?? 100,
      maxDelayMs: options.maxDelayMs ?? 10_000,
    };
    this.#signal = signal;
  }

  /** Notes that the connection works. */
  progressed(): void {
    this.failures = 0;
  }

  /** Notes a failed attempt. Returns whether another one is due, after the pause before it. */
  async another(askedForMs?: number): Promise<boolean> {
    this.failures += 1;
    const { attempts, firstDelayMs, maxDelayMs } = this.#options;
    if (this.failures >= attempts) return false;
    // Clients that lost the same server do not all come back at the same moment.
    const backoff = firstDelayMs * 2 ** (this.failures - 1) * (0.75 + Math.random() / 2);
    await pause(Math.min(Math.max(askedForMs ?? 0, backoff), maxDelayMs), this.#signal);
    return true;
  }
}

/** Whether the same request may succeed later. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof ApiError) return TEMPORARY.has(error.status);
  // Whatever else this package throws is final; all other errors are those of the network.
  return !(error instanceof TurnwireError);
}

/** Waits; rejects at once if the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
