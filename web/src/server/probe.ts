/**
 * Looks for the server while the line is cut.
 *
 * One small request for the whole page, so that a line that is back is noticed at once, while
 * everything else waits: often at first, seldom in a long outage, and never at the same moment as
 * all other pages that lost the same server.
 */

import { keylessFetch, line } from "./api";

const OFTEN_MS = 250;
const OFTEN_FOR_MS = 15_000;
const MAX_MS = 10_000;
const PATIENCE_MS = 5_000;

let isProbing = false;

/** Calls `then` whenever the line is back. */
export function whenBack(then: () => void): void {
  line.watch(() => {
    if (line.value.state === "lost" && !isProbing) void probe(then);
  });
}

async function probe(then: () => void): Promise<void> {
  isProbing = true;
  let wait = OFTEN_MS;
  while (line.value.state === "lost") {
    await new Promise((resolve) => setTimeout(resolve, wait * (0.75 + Math.random() / 2)));
    // Any answer but those of a server that is going or coming ends the search.
    if (line.value.state === "lost") await keylessFetch("/readyz", { signal: AbortSignal.timeout(PATIENCE_MS) }).catch(() => undefined);
    if (Date.now() - line.value.since > OFTEN_FOR_MS) wait = Math.min(wait * 1.5, MAX_MS);
  }
  isProbing = false;
  then();
}
