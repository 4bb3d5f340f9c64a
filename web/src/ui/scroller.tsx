/** The transcript scrolls by itself only while its end is in view; otherwise it says what is new. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons";
import { useKey } from "./keys";

const NEAR_PX = 48;
const LINE_PX = 24;

interface ScrollerProps {
  children: ComponentChildren;
  /** A run is at work, so what is added is news and not something that a person opened. */
  isLive: boolean;
  /** Whose place is kept for when it is shown again. */
  id?: string;
  /** Goes to the end whenever this changes: the person has sent something. */
  sent?: number;
}

/** Where people left what does not show its end. */
const places = new Map<string, number>();

export function Scroller({ children, isLive, id = "", sent = 0 }: ScrollerProps): JSX.Element {
  const live = useRef(isLive);
  live.current = isLive;
  const box = useRef<HTMLDivElement>(null);
  const column = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const leftAt = useRef(0);
  const [newLines, setNewLines] = useState(0);
  const toEnd = () => {
    follows.current = true;
    setNewLines(0);
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(() => {
    const [outer, inner] = [box.current, column.current];
    if (!outer || !inner) return undefined;
    const place = places.get(id);
    if (place !== undefined) [follows.current, outer.scrollTop] = [false, place];
    const grown = new ResizeObserver(() => {
      if (follows.current) outer.scrollTop = outer.scrollHeight;
      else if (live.current) setNewLines(Math.max(0, Math.round((outer.scrollHeight - leftAt.current) / LINE_PX)));
    });
    grown.observe(inner);
    grown.observe(outer);
    return () => grown.disconnect();
  }, []);
  const onScroll = () => {
    const outer = box.current;
    if (!outer) return;
    const near = outer.scrollHeight - outer.scrollTop - outer.clientHeight < NEAR_PX;
    if (near) setNewLines(0);
    else if (follows.current) leftAt.current = outer.scrollHeight;
    follows.current = near;
    if (near) places.delete(id);
    else if (id) places.set(id, outer.scrollTop);
  };
  useEffect(() => {
    if (sent > 0) toEnd();
  }, [sent]);
  useKey("End", toEnd);
  useKey("j", () => step(1));
  useKey("k", () => step(-1));
  useKey("o", () => {
    const card = document.activeElement?.closest("details");
    if (card) card.open = !card.open;
  });
  return (
    <div class="scroll-area">
      <div class="log" ref={box} onScroll={onScroll} role="log" aria-live="off" aria-label="Conversation" tabIndex={0}>
        <div class="col" ref={column}>
          {children}
        </div>
      </div>
      {newLines > 0 ? (
        <button type="button" class="btn newer" onClick={toEnd}>
          <Icon name="arrowDown" />
          {`${newLines} new ${newLines === 1 ? "line" : "lines"}`}
        </button>
      ) : null}
    </div>
  );
}

/** Moves the focus along the steps of the transcript. */
function step(by: number): void {
  const steps = [...document.querySelectorAll<HTMLElement>(".log .step-focus, .log .said")];
  const now = steps.findIndex((one) => one === document.activeElement);
  const next = steps[now < 0 ? (by > 0 ? 0 : steps.length - 1) : now + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
