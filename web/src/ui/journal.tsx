/**
 * The raw journal: rows that stand still however many there are, because only those in view exist.
 * The chosen event has a place of its own below, so the list never moves.
 */

import type { RecordedEvent } from "turnwire";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type JournalRow, journalRows } from "../model/journal";
import { plural } from "../model/words";
import { CopyButton, IconButton } from "./controls";
import { Icon } from "./icons";
import { JsonText } from "./json";

const ROW_PX = 28;
const MARGIN = 10;

interface Props {
  events: readonly RecordedEvent[];
  /** How many there are: the list itself is the same object. */
  n: number;
  startAt: string;
  selected: number | undefined;
  onSelect: (seq: number) => void;
  runId: string;
}

export function JournalView({ events, n, startAt, selected, onSelect, runId }: Props): JSX.Element {
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => journalRows(events, filter), [events, n, filter]);
  const shown = selected === undefined ? undefined : events[selected - 1];
  const save = () => {
    const text = events.map((one) => JSON.stringify(one)).join("\n");
    const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: `${runId}.jsonl` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  return (
    <section class="jr" aria-label="Journal">
      <header>
        <h2>Journal</h2>
        <span class="dim num">{plural(n, "event")}</span>
        <span class="grow" />
        <label class="search">
          <Icon name="search" />
          <span class="sr">Filter the events</span>
          <input type="search" placeholder="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
        <IconButton name="download" label="Save the journal" onClick={save} />
      </header>
      <Rows rows={rows} zero={Date.parse(startAt)} selected={selected} onSelect={onSelect} />
      {shown ? (
        <div class="jr-one">
          <header>
            <h3 class="mono cut">{shown.event.type}</h3>
            <span class="dim num">{`seq ${shown.seq}`}</span>
            <span class="grow" />
            <CopyButton text={JSON.stringify(shown, null, 2)} what="the event" />
          </header>
          <JsonText text={JSON.stringify(shown, null, 2)} label={`Event ${shown.seq}`} />
        </div>
      ) : null}
    </section>
  );
}

interface RowsProps {
  rows: readonly JournalRow[];
  zero: number;
  selected: number | undefined;
  onSelect: (seq: number) => void;
}

function Rows({ rows, zero, selected, onSelect }: RowsProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const sized = new ResizeObserver(() => setHeight(element.clientHeight));
    sized.observe(element);
    return () => sized.disconnect();
  }, []);
  const place = selected === undefined ? -1 : rows.findIndex((row) => row.first.seq <= selected && selected <= row.last.seq);
  useEffect(() => {
    const element = box.current;
    if (!element || place < 0) return;
    const y = place * ROW_PX;
    if (y < element.scrollTop || y > element.scrollTop + element.clientHeight - ROW_PX) element.scrollTop = Math.max(0, y - element.clientHeight / 2);
  }, [place]);
  const first = Math.max(0, Math.floor(top / ROW_PX) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_PX) + MARGIN);
  const move = (by: number) => {
    const next = rows[Math.min(rows.length - 1, Math.max(0, place + by))];
    if (next) onSelect(next.first.seq);
  };
  return (
    <div
      class="jr-list"
      ref={box}
      tabIndex={0}
      role="listbox"
      aria-label="Events"
      aria-activedescendant={place >= first && place < last ? `ev-${rows[place]?.first.seq}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={(event) => {
        const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (by === 0) return;
        event.preventDefault();
        move(by);
      }}
    >
      <div class="jr-space" role="presentation" style={{ height: `${rows.length * ROW_PX}px` }}>
        {rows.slice(first, last).map((row, n) => (
          <div
            key={row.first.seq}
            id={`ev-${row.first.seq}`}
            class="ev"
            role="option"
            aria-selected={first + n === place}
            aria-posinset={first + n + 1}
            aria-setsize={rows.length}
            style={{ top: `${(first + n) * ROW_PX}px` }}
            data-kind={kindOf(row.first)}
            onClick={() => onSelect(row.first.seq)}
          >
            <span class="num dim">{row.n > 1 ? `${row.first.seq}–${row.last.seq}` : row.first.seq}</span>
            <span class="num dim">{`+${((Date.parse(row.first.at) - zero) / 1000).toFixed(2)}`}</span>
            <span class="mono cut">{row.first.event.type}</span>
            <span class="dim cut">{row.summary}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** What stands out among the events. */
function kindOf({ event }: RecordedEvent): string {
  if (event.type === "tool_finished") return event.outcome.status === "succeeded" ? "" : event.outcome.status === "outcome_unknown" ? "unknown" : "failed";
  if (event.type === "run_finished") return event.outcome.status === "failed" ? "failed" : "";
  if (event.type.startsWith("approval") || event.type.startsWith("input")) return "wait";
  return event.type === "run_taken_over" ? "unknown" : "";
}
