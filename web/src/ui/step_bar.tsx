/** The steps of a run in a line of the list. What it shows is also in the words of the line. */

import type { RunSnapshot } from "turnwire";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { rowsOf, stepsOf } from "../model/step_bar";
import { serverNow } from "../server/clock";
import { knownCalls, readCalls } from "../server/run_steps";
import type { RunLine } from "../server/threads";

/** A step that is too short to be seen is shown all the same. */
const LEAST = 1.5;

export function StepBar({ run, now }: { run: RunLine; now: number }): JSX.Element {
  const place = useRef<HTMLSpanElement>(null);
  const isSeen = useSeen(place);
  const [calls, setCalls] = useState<RunSnapshot["calls"]>(() => knownCalls(run.run_id) ?? []);
  useEffect(() => {
    if (!isSeen || !run.n_calls || knownCalls(run.run_id)) return undefined;
    const stop = new AbortController();
    void readCalls(run.run_id, stop.signal).then((read) => read && !stop.signal.aborted && setCalls(read));
    return () => stop.abort();
  }, [isSeen, run.status, run.n_calls, run.n_failed_calls, run.ended_at]);
  const steps = stepsOf(run, calls, run.ended_at ? now : serverNow());
  const rows = rowsOf(steps);
  return (
    <span class="steps" ref={place} aria-hidden="true">
      {steps.map(({ kind, from, to, row }) => {
        const height = 100 / rows;
        const across = { left: `${Math.min(from * 100, 100 - LEAST)}%`, width: `${Math.max(LEAST, (to - from) * 100)}%` };
        const down = row === 0 ? {} : { top: `${height * (row - 1)}%`, height: `${height}%` };
        return <i class={`bar b-${kind} ${row === 0 ? "whole" : ""}`} style={{ ...across, ...down }} />;
      })}
    </span>
  );
}

/** Whether the element has been on the screen. */
function useSeen(place: { current: HTMLElement | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element || isSeen) return undefined;
    const observer = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && setSeen(true));
    observer.observe(element);
    return () => observer.disconnect();
  }, [isSeen]);
  return isSeen;
}
