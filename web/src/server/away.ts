/**
 * Runs that finished while nobody looked: the page was closed, hidden, or showed something else.
 *
 * This browser remembers which runs it knew at work. When such a run is over and was not on the
 * screen at its end, its thread has a mark until it is opened, and the run says so there.
 */

import { route } from "../router";
import { announce } from "./announcer";
import { serverNow } from "./clock";
import { Store, keepIds, keptIds } from "./store";
import { type RunLine, isAtWork, runs } from "./threads";

const AT_WORK = "turnwire.at-work";
const UNSEEN = "turnwire.unseen";
const MAX_KEPT = 100;

/** Runs that are over and were not looked at since. */
export const unseen = new Store<ReadonlySet<string>>(keptIds(UNSEEN));
/** Those of them that were opened on this page, which goes on saying so. */
export const noticed = new Store<ReadonlySet<string>>(new Set());

let lookingSince = serverNow();

/** Watches the list of runs for as long as the page is open. */
export function watchEnds(): void {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) lookingSince = serverNow();
  });
  runs.watch(compare);
  unseen.watch(() => keepIds(UNSEEN, unseen.value, MAX_KEPT));
}

function compare(): void {
  if (document.hidden) return;
  const before = keptIds(AT_WORK);
  const atWork = new Set(before);
  const ended: string[] = [];
  for (const run of runs.value) {
    if (isAtWork(run)) atWork.add(run.run_id);
    else if (atWork.delete(run.run_id) && !wasSeen(run)) ended.push(run.run_id);
  }
  if (atWork.size !== before.size || [...atWork].some((id) => !before.has(id))) keepIds(AT_WORK, atWork, MAX_KEPT);
  if (ended.length > 0) unseen.update((ids) => new Set([...ids, ...ended]));
}

/** Whether the run was on the screen when it ended. */
function wasSeen(run: RunLine): boolean {
  const here = route.value;
  const isShown = (here.page === "chat" && here.chat === run.conversation_id) || (here.page === "run" && here.runId === run.run_id);
  return isShown && (!run.ended_at || Date.parse(run.ended_at) >= lookingSince);
}

/** Notes that the run is on the screen now. */
export function look(runId: string): void {
  if (!unseen.value.has(runId)) return;
  noticed.update((ids) => new Set([...ids, runId]));
  unseen.update((ids) => new Set([...ids].filter((id) => id !== runId)));
  announce({ text: "The run finished while you were away", alert: false });
}
