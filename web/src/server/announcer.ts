/** What a screen reader is told: one polite region and one that interrupts, both emptied again. */

import type { Announcement } from "../model/announce";
import { Store } from "./store";

export const polite = new Store<string>("");
export const alerts = new Store<string>("");
/** Everything that was said, for tests and for the curious. */
export const said: string[] = [];

let queue: string[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says it. What comes within the same moment is said in one sentence. */
export function announce({ text, alert }: Announcement): void {
  said.push(text);
  if (alert) {
    alerts.set(text);
    return;
  }
  queue.push(text);
  clearTimeout(timer);
  timer = setTimeout(() => {
    const texts = [...new Set(queue)];
    queue = [];
    polite.set(oneSentence(texts));
  }, 150);
}

/** Many texts as one. The last is always said: it is where things stand now, such as that the run is over. */
export function oneSentence(texts: readonly string[]): string {
  if (texts.length <= 4) return texts.join(". ");
  return `${texts.slice(0, 2).join(". ")}, and ${texts.length - 3} more. ${texts.at(-1)}`;
}
