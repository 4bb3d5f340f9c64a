/**
 * The time of the server, as far as the page can tell.
 *
 * An event arrives after it was recorded, so the clock of the server is at least as far as the
 * newest event says. A device whose clock is wrong shows the right elapsed times all the same.
 */

let offsetMs = 0;
let isKnown = false;

/** Notes that an event was recorded at `at` and has just arrived. */
export function noteServerTime(at: string): void {
  const behind = Date.parse(at) - Date.now();
  if (!Number.isFinite(behind)) return;
  offsetMs = isKnown ? Math.max(offsetMs, behind) : behind;
  isKnown = true;
}

export function serverNow(): number {
  return Date.now() + offsetMs;
}
