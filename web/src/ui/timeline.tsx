/** The lanes of a run over one axis of time. Zoom changes one width; the lanes keep their places. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Bar, type Lane, type Timeline, tickLabel, ticks } from "../model/timeline";
import { duration } from "../model/words";
import { IconButton } from "./controls";
import { Icon, LookIcon } from "./icons";
import { useKey } from "./keys";

const MAX_ZOOM = 64;
/** A bar that is too short to be seen is drawn this wide, in percent. */
const LEAST = 0.35;

interface Props {
  timeline: Timeline;
  selected: string | undefined;
  onSelect: (lane: string) => void;
  /** Where the chosen event is. */
  at: number | undefined;
}

export function TimelineView({ timeline, selected, onSelect, at }: Props): JSX.Element {
  const [zoom, setZoom] = useState(1);
  // A little room at the end for what is written behind the last bar.
  const totalMs = timeline.totalMs * 1.12;
  const percent = (ms: number) => (100 * ms) / totalMs;
  const change = (by: number) => setZoom((now) => Math.min(MAX_ZOOM, Math.max(1, now * by)));
  useKey("+", () => change(2));
  useKey("-", () => change(0.5));
  useKey("0", () => setZoom(1));
  return (
    <>
      <div class="tl-bar">
        <Legend hasGaps={timeline.gaps.length > 0} />
        <span class="grow" />
        <IconButton name="minus" label="Zoom out" onClick={() => change(0.5)} />
        <IconButton name="plus" label="Zoom in" onClick={() => change(2)} />
        <button type="button" class="btn quiet" onClick={() => setZoom(1)}>
          <Icon name="fit" />
          Fit
        </button>
      </div>
      <div class="tl-scroll" tabIndex={0} role="group" aria-label="Lanes">
        <div class="tl-in" style={{ "--zoom": zoom }}>
          <div class="ruler" aria-hidden="true">
            <span />
            <div class="axis">
              {ticksOf(totalMs, zoom).map((ms) => (
                <span class="tick num" style={{ left: `${percent(ms)}%` }}>
                  {tickLabel(ms, totalMs / zoom)}
                </span>
              ))}
            </div>
          </div>
          <ol class="lanes">
            {timeline.lanes.map((lane) => (
              <LaneRow key={lane.id} lane={lane} percent={percent} isSelected={lane.id === selected} onSelect={onSelect} />
            ))}
          </ol>
          <div class="over" aria-hidden="true">
            <span />
            <div class="axis">
              {ticksOf(totalMs, zoom).map((ms) => (
                <i class="grid" style={{ left: `${percent(ms)}%` }} />
              ))}
              {timeline.gaps.map(({ from, to }) => (
                <i class="gap" style={{ left: `${percent(from)}%`, width: `${percent(to - from)}%` }} />
              ))}
              {timeline.takeovers.map((ms) => (
                <i class="takeover" style={{ left: `${percent(ms)}%` }} />
              ))}
              {timeline.now === undefined ? null : <i class="now" style={{ left: `${percent(timeline.now)}%` }} />}
              {at === undefined ? null : <i class="at" style={{ left: `${percent(at)}%` }} />}
            </div>
          </div>
        </div>
      </div>
    </>
  );
}

function ticksOf(totalMs: number, zoom: number): number[] {
  const room = matchMedia("(max-width: 560px)").matches ? 5 : 10;
  return ticks(totalMs, room * zoom).filter((ms) => ms < totalMs * 0.99);
}

/** What the bars mean; a gap is explained where there is one. */
function Legend({ hasGaps }: { hasGaps: boolean }): JSX.Element {
  return (
    <ul class="legend">
      {[
        ["model", "model"],
        ["done", "tool"],
        ["failed", "failed"],
        ["wait", "waits for a person"],
        ...(hasGaps ? [["gap", "no worker"]] : []),
      ].map(([kind, word]) => (
        <li>
          <i class={`bar b-${kind}`} />
          {word}
        </li>
      ))}
    </ul>
  );
}

interface RowProps {
  lane: Lane;
  percent: (ms: number) => number;
  isSelected: boolean;
  onSelect: (lane: string) => void;
}

function LaneRow({ lane, percent, isSelected, onSelect }: RowProps): JSX.Element {
  const end = Math.max(0, ...lane.bars.map((bar) => bar.to));
  const start = Math.min(...lane.bars.map((bar) => bar.from), end);
  // What does not fit behind the last bar stands before the first one.
  const isLate = percent(end) > 78 && percent(start) > 40;
  const place = isLate ? { left: "0", right: `${100 - percent(start)}%` } : { left: `${percent(end)}%`, right: "0" };
  // A bar from end to end leaves room for no words; the icon and the list of calls say the same.
  const hasRoom = isLate || percent(end) <= 88;
  const icon = lane.kind === "worker" ? "server" : "cube";
  return (
    <li class={`lane ${lane.kind} ${isSelected ? "sel" : ""}`}>
      <button type="button" class="lab" aria-pressed={isSelected} onClick={() => onSelect(lane.id)}>
        {lane.look ? (
          <span class="st" data-st={lane.look}>
            <LookIcon look={lane.look} />
          </span>
        ) : (
          <Icon name={icon} />
        )}
        <span class={`cut grow ${lane.kind === "call" ? "mono" : ""}`}>{lane.label}</span>
        <span class="sr">{`${lane.word}. ${lane.note}`}</span>
        <span class="num dim">{lane.timeMs === undefined ? "" : duration(lane.timeMs)}</span>
      </button>
      <div class="axis" aria-hidden="true" onClick={() => onSelect(lane.id)}>
        {lane.bars.map((bar) => (
          <BarMark bar={bar} percent={percent} />
        ))}
        {lane.notches.map((notch) => (
          <i class="notch num" style={{ left: `${percent(notch.at)}%` }} title={notch.label} />
        ))}
        {hasRoom ? (
          <span class={`note cut ${lane.isBad ? "bad" : ""} ${isLate ? "before" : ""}`} style={place}>
            {lane.note}
          </span>
        ) : null}
      </div>
    </li>
  );
}

function BarMark({ bar, percent }: { bar: Bar; percent: (ms: number) => number }): JSX.Element {
  const width = Math.max(LEAST, percent(bar.to - bar.from));
  const label = bar.label && (bar.kind === "worker" || width > 18) ? bar.label : "";
  return (
    <i class={`bar b-${bar.kind}`} style={{ left: `${percent(bar.from)}%`, width: `${width}%` }} title={bar.label || undefined}>
      {label ? <span class="cut">{label}</span> : null}
    </i>
  );
}
