/**
 * Following the journal of a run through any number of connections.
 *
 * Events are numbered without gaps, so the client knows what it has: after a disconnect it asks for
 * what follows its last event, drops what it has already seen, and treats a gap as a broken
 * connection. The caller sees every event once, in order, and no trace of the disconnect.
 */

import type { Connection, EventStream } from "./connection.js";
import { ApiError, ConnectionLostError } from "./errors.js";
import type { RecordedEvent } from "./generated/api.js";
import { isTemporary } from "./retry.js";

/**
 * A connection that the other side ended after this long was healthy, even if no event came: the
 * run is just quiet, and there is a proxy that does not like it.
 */
const HEALTHY_MS = 5_000;

/** Options of {@link Turnwire.followRun}. */
export interface FollowOptions {
  /** Start after the event with this `seq`. Default: 0, which is the beginning. */
  after?: number;
  /** Stops following and closes the connection. The run continues. */
  signal?: AbortSignal;
}

/** Yields the events of a run after `after`, until the run ends. */
export async function* followRun(
  connection: Connection,
  runId: string,
  { after = 0, signal }: FollowOptions = {},
): AsyncGenerator<RecordedEvent, void, undefined> {
  const path = `/v1/runs/${encodeURIComponent(runId)}/events`;
  const retry = connection.retry(signal);
  let lastSeq = after;
  for (;;) {
    const openedAt = Date.now();
    let stream: EventStream | undefined;
    let failure: unknown = new Error("the stream ended before the run did");
    try {
      // Only with this header does the server say that an ended run has no more events.
      const headers: Record<string, string> = lastSeq > 0 ? { "last-event-id": String(lastSeq) } : {};
      stream = await connection.open({ path, headers, signal });
      if (stream.isOver) return;
      for await (const frame of stream.frames()) {
        const recorded = JSON.parse(frame.data) as RecordedEvent;
        if (recorded.seq <= lastSeq) continue;
        if (recorded.seq > lastSeq + 1) throw new Error(`event ${lastSeq + 1} is missing`);
        lastSeq = recorded.seq;
        retry.progressed();
        yield recorded;
        if (recorded.event.type === "run_finished") return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!isTemporary(error)) throw error;
      failure = error;
    } finally {
      stream?.close();
    }
    if (stream && !stream.wasSilent && Date.now() - openedAt >= HEALTHY_MS) retry.progressed();
    const askedForMs = failure instanceof ApiError ? failure.retryAfterMs : stream?.retryMs;
    if (!(await retry.another(askedForMs))) throw new ConnectionLostError(retry.failures, failure, lastSeq);
  }
}
