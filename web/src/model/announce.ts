/**
 * What a screen reader is told: the boundaries of a run, never its tokens, progress or timers.
 *
 * Words come from comparing two views of the same run, so a reload announces nothing of the past.
 */

import { type Call, isOpen, openQuestion } from "./calls";
import { exact } from "./invisible";
import type { RunView } from "./run";
import { plural } from "./words";

export interface Announcement {
  text: string;
  /** Whether it interrupts: only what needs the person. */
  alert: boolean;
}

/** What happened between two views. */
export function announcements(before: RunView, after: RunView): Announcement[] {
  if (before === after) return [];
  const said: Announcement[] = [];
  const polite = (text: string) => said.push({ text, alert: false });
  if (!before.startedAt && after.startedAt) polite("Working");
  const started: string[] = [];
  const ended: string[] = [];
  for (const call of Object.values(after.calls)) {
    const known = before.calls[call.callId];
    if (call === known) continue;
    const name = exact(call.tool.name);
    if (!known?.attempts.length && call.attempts.length > 0 && !call.approval) started.push(name);
    for (const text of alertsOf(known, call)) said.push({ text, alert: true });
    if (!known?.approval?.decision && call.approval?.decision) polite(`${name} ${call.approval.decision}`);
    if (isOver(call) && !(known && isOver(known)) && call.state !== "unknown" && call.state !== "denied") {
      ended.push(`${name} ${call.state === "done" ? "finished" : call.state}`);
    }
  }
  if (started.length > 2) polite(`${started.length} tools started`);
  else started.forEach((name) => polite(`${name} started`));
  if (ended.length > 2) polite(`${plural(ended.length, "tool")} ended`);
  else ended.forEach(polite);
  if (!before.outcome && after.outcome) polite(ending(after));
  return said;
}

function alertsOf(known: Call | undefined, call: Call): string[] {
  const name = exact(call.tool.name);
  const texts: string[] = [];
  if (call.state === "needs approval" && isOpen(call) && known?.state !== "needs approval") texts.push(`Approval needed: ${name}`);
  const question = openQuestion(call);
  const knownQuestion = known && openQuestion(known);
  if (question && isOpen(call) && question.inputId !== knownQuestion?.inputId) {
    texts.push(question.isAboutOutcome ? `Outcome unknown: ${name}` : `${name} asks a question`);
  }
  if (call.state === "unknown" && known?.state !== "unknown") texts.push(`Outcome unknown: ${name}`);
  return texts;
}

function isOver(call: Call): boolean {
  return call.finishedAt !== undefined;
}

function ending(view: RunView): string {
  switch (view.outcome?.status) {
    case "completed":
      return "Answer ready";
    case "cancelled":
      return "Stopped";
    case "incomplete":
      return "The answer is incomplete";
    default:
      return "The run failed";
  }
}
