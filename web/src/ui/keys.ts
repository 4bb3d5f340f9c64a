/** Keys of the page. Letters do nothing while a text field has the focus. */

import { useEffect, useRef } from "preact/hooks";

/** Calls `action` on a key such as `a`, `Escape`, `?` or `ctrl+k`, while `on`. */
export function useKey(key: string, action: (event: KeyboardEvent) => void, on = true): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    if (!on) return undefined;
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || keyOf(event) !== key) return;
      const field = isField(event.target);
      if (field && !key.startsWith("ctrl+") && key !== "Escape") return;
      // A window over the page has its own keys.
      if (document.querySelector("dialog[open]") && key !== "ctrl+k") return;
      latest.current(event);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [key, on]);
}

function keyOf(event: KeyboardEvent): string {
  const held = event.ctrlKey || event.metaKey;
  if (event.altKey) return "";
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return held ? `ctrl+${name}` : name;
}

export function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** All keys, for the sheet. */
export const KEYS: [string, string][] = [
  ["Enter", "Send"],
  ["Shift Enter", "New line"],
  ["Esc", "Stop the run, or close what is open"],
  ["A", "Approve what the dock shows"],
  ["D", "Deny it"],
  ["E", "Edit its arguments"],
  ["W", "Next that waits for you"],
  ["J / K", "Next and previous step"],
  ["O", "Open or fold the step"],
  ["T", "Timeline of the run"],
  ["End", "Newest"],
  ["N", "New chat"],
  ["/", "Search chats"],
  ["Ctrl K", "Go anywhere"],
  ["?", "This sheet"],
  ["+ − 0", "Zoom of the timeline, fit"],
];
