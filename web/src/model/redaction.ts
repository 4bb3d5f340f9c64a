/** What the server puts in the place of what a share link withholds; the page only draws it. */

import type { RecordedEvent } from "turnwire";

/** In the place of a text. */
export const REDACTED = "[redacted]";
/** In the place of arguments, which are JSON. */
const REDACTED_JSON = '{"redacted":true}';

/** Whether a text is what stands in the place of another. */
export function isPlaceholder(text: string): boolean {
  return text === REDACTED || text.replace(/\s/g, "") === REDACTED_JSON;
}

/** Whether the texts of a run are withheld: such a run begins with no input and with no calls. */
export function isRedacted(events: readonly RecordedEvent[]): boolean {
  const first = events[0]?.event;
  if (first?.type !== "run_queued") return false;
  const { input, first_calls: calls } = first.request as { input?: unknown[]; first_calls?: unknown[] };
  return (input ?? []).length === 0 && (calls ?? []).length === 0;
}
