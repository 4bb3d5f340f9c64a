/** The errors that the client throws. All of them are {@link TurnwireError}s. */

import type { ErrorBody, Failure } from "./generated/api.js";

/** Base class of all errors of this package. */
export class TurnwireError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server refused a request. */
export class ApiError extends TurnwireError {
  /** HTTP status. */
  readonly status: number;
  /** Stable error code, as listed in `docs/errors.md`. */
  readonly code: string;
  /** The request field that caused the error, if there is one. */
  readonly param: string | undefined;
  /** How long the server asks to wait before a retry (`Retry-After`), in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, body: Partial<ErrorBody> | undefined, retryAfterMs?: number) {
    const error = body?.error;
    super(error?.message ?? `The server answered with status ${status}.`);
    this.status = status;
    this.code = error?.code ?? "unknown";
    this.param = error?.param ?? undefined;
    this.retryAfterMs = retryAfterMs;
  }
}

/** 401: the API key is missing or wrong. */
export class AuthenticationError extends ApiError {}

/** 404: there is no such run, call or conversation, or it belongs to somebody else. */
export class NotFoundError extends ApiError {}

/** 409: the request does not fit the current state, such as an approval that was already given. */
export class ConflictError extends ApiError {}

/** 429 or 503: the server cannot do it now. `retryAfterMs` says when to try again. */
export class UnavailableError extends ApiError {}

/** The server could not be reached, and all attempts are used up. */
export class ConnectionLostError extends TurnwireError {
  /** Number of failed attempts since the last progress. */
  readonly attempts: number;
  /** The last event that arrived: `followRun(id, { after: lastSeq })` continues from there. */
  readonly lastSeq: number | undefined;

  constructor(attempts: number, cause: unknown, lastSeq?: number) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const progress = lastSeq === undefined ? "" : ` and event ${lastSeq}`;
    super(`Gave up after ${attempts} failed attempts in a row${progress}: ${reason}`, { cause });
    this.attempts = attempts;
    this.lastSeq = lastSeq;
  }
}

/** The run ended without an answer, because the model or the server failed. */
export class RunFailedError extends TurnwireError {
  /** ID of the run. */
  readonly runId: string;
  /** What failed. */
  readonly failure: Failure;

  constructor(runId: string, failure: Failure) {
    super(failure.message);
    this.runId = runId;
    this.failure = failure;
  }
}

/** The error for a response that is not a success. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body: Partial<ErrorBody> | undefined = await response.json().catch(() => undefined);
  const { status } = response;
  return new (classOf(status))(status, body, retryAfter(response.headers.get("retry-after")));
}

function classOf(status: number): typeof ApiError {
  switch (status) {
    case 401:
      return AuthenticationError;
    case 404:
      return NotFoundError;
    case 409:
      return ConflictError;
    case 429:
    case 503:
      return UnavailableError;
    default:
      return ApiError;
  }
}

/** `Retry-After` in milliseconds: a number of seconds, or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
