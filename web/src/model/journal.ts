/** The journal as rows: neighbours that say the same are one row, and a filter hides the rest. */

import type { RecordedEvent } from "turnwire";
import { shortened } from "turnwire/summary";

import { exact } from "./invisible";

export interface JournalRow {
  first: RecordedEvent;
  last: RecordedEvent;
  n: number;
  summary: string;
}

/** Parts of a text: a list of them says nothing that its first does not. */
const FOLDED = new Set(["text_added", "reasoning_added", "arguments_added", "refusal_added", "logprobs_added", "tool_output_added"]);

/** The rows of events that match all words of `filter`. */
export function journalRows(events: readonly RecordedEvent[], filter: string): JournalRow[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Map<string, string>();
  const rows: JournalRow[] = [];
  for (const recorded of events) {
    const { event } = recorded;
    if (event.type === "call_announced") names.set(event.call_id, event.tool.name);
    const last = rows.at(-1);
    if (last && FOLDED.has(event.type) && sameThing(last.last, recorded)) {
      last.last = recorded;
      last.n += 1;
      last.summary = `×${last.n}`;
      continue;
    }
    const summary = exact(summaryOf(recorded, names));
    if (words.length > 0 && !matches(recorded, summary, words)) continue;
    rows.push({ first: recorded, last: recorded, n: 1, summary });
  }
  return rows;
}

function sameThing(a: RecordedEvent, b: RecordedEvent): boolean {
  if (a.event.type !== b.event.type || a.seq + 1 !== b.seq) return false;
  return targetOf(a) === targetOf(b);
}

function targetOf({ event }: RecordedEvent): string {
  if ("call_id" in event) return event.call_id;
  return "item_id" in event ? event.item_id : "";
}

function matches(recorded: RecordedEvent, summary: string, words: readonly string[]): boolean {
  const text = `${recorded.seq} ${recorded.event.type} ${summary} ${targetOf(recorded)}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** What an event says, on one line. */
export function summaryOf({ event }: RecordedEvent, names: ReadonlyMap<string, string>): string {
  const tool = "call_id" in event ? (names.get(event.call_id) ?? event.call_id) : "";
  switch (event.type) {
    case "run_taken_over":
      return `attempt ${event.attempt}${event.worker ? `, ${event.worker}` : ""}`;
    case "turn_started":
    case "turn_abandoned":
      return `turn ${event.turn}`;
    case "turn_finished":
      return event.usage.output_tokens > 0 ? `${event.finish}, ${event.usage.output_tokens} tokens` : event.finish;
    case "turn_retried":
      return `attempt ${event.attempt}, ${event.reason.code}`;
    case "text_added":
    case "reasoning_added":
    case "refusal_added":
      return shortened(event.text, 60);
    case "message_finished":
    case "reasoning_finished":
      return event.completeness;
    case "discovery_started":
    case "tools_discovered":
      return event.server;
    case "approval_resolved":
      return `${event.decision.status}, ${event.by ?? tool}`;
    case "tool_started":
      return `${tool}, attempt ${event.attempt}`;
    case "tool_progressed":
      return `${event.progress}${event.total == null ? "" : `/${event.total}`} ${event.message ?? ""}`.trim();
    case "tool_phase":
      return `${tool}, ${event.phase}`;
    case "input_resolved":
      return event.reply.status;
    case "tool_finished":
      return `${tool}, ${event.outcome.status}`;
    case "run_finished":
      return event.outcome.status;
    default:
      return tool;
  }
}
