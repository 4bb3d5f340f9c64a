/** Keys of the page. In a field, and while an input method composes, they belong to the text. */

import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../server/announcer";
import { railOpen } from "./top_bar";

/** When the person last typed a message: a key does not answer what has only just come under the fingers. */
export const typed = { at: -Infinity };
export const SETTLE_MS = 500;

/** Whether the key belongs to the input method; some browsers say so by the code alone. */
export function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Calls `action` on a key such as `a`, `Escape`, `?` or `ctrl+k`, while `on`. */
export function useKey(key: string, action: (event: KeyboardEvent) => void, on = true): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    if (!on) return undefined;
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || isComposing(event) || keyOf(event) !== key) return;
      if (isField(event.target) && !key.startsWith("ctrl+")) return;
      // A window over the page has its own keys.
      if (document.querySelector("dialog[open]") && key !== "ctrl+k") return;
      latest.current(event);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [key, on]);
}

/** Esc in a field empties a search, and otherwise leaves the field as it is. The composer has its own. */
export function useEscapeFromFields(then: () => void): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const field = event.target;
      if (event.key !== "Escape" || event.defaultPrevented || isComposing(event) || !isField(field)) return;
      if (field.id === "composer" || field.closest("dialog")) return;
      event.preventDefault();
      if (field instanceof HTMLInputElement && field.type === "search" && field.value !== "") {
        field.value = "";
        field.dispatchEvent(new Event("input", { bubbles: true }));
        return;
      }
      (field.closest<HTMLElement>(".ask") ?? document.getElementById("composer") ?? document.getElementById("main"))?.focus();
      then();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

const AGAIN_MS = 2000;

/** Esc stops the run with the second press, because the first may have been for something else. */
export function useStopKey(stop: () => void, on: boolean): { isArmed: boolean; press: () => void } {
  const [isArmed, setIsArmed] = useState(false);
  useEffect(() => {
    if (!isArmed) return undefined;
    announce({ text: "Esc again stops the run", alert: false });
    const timer = setTimeout(() => setIsArmed(false), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [isArmed]);
  const press = () => {
    if (isArmed) stop();
    setIsArmed(!isArmed);
  };
  useKey("Escape", (event) => railOpen.value || (event.preventDefault(), press()), on);
  return { isArmed: isArmed && on, press };
}

function keyOf(event: KeyboardEvent): string {
  const held = event.ctrlKey || event.metaKey;
  if (event.altKey) return "";
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return held ? `ctrl+${name}` : name;
}

function isField(target: EventTarget | null): target is HTMLElement {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** All keys, for the sheet. */
export const KEYS: [string, string][] = [
  ["Enter", "Send"],
  ["Shift Enter", "New line"],
  ["Esc", "Leave a field, or close what is open"],
  ["Esc Esc", "Stop the run, where nothing is written"],
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
