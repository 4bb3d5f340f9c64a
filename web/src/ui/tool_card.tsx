/** One call: a line that says how it stands, and everything about it below. */

import type { ToolClaims } from "turnwire";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { type Call, isHandedBack, isOpen, outputOf } from "../model/calls";
import { exact, inOrder } from "../model/invisible";
import { toolTitle } from "../model/run";
import { argumentLabel, causeOf, clock, duration, elapsedMs, factOf, lookOf, wordOf } from "../model/words";
import { sentence } from "../server/api";
import { retryCall, stopCall } from "../server/commands";
import type { RunFeed } from "../server/run_feed";
import { CopyButton, OnItsWay, Problem, useNow } from "./controls";
import { Icon, LookIcon } from "./icons";
import { JsonText, pretty } from "./json";
import { Result } from "./result";

const TALL = new Set(["needs approval", "needs input", "failed", "timed out", "unknown"]);
const QUIET_MS = 15_000;
const TAIL_LINES = 3;

interface CardProps {
  call: Call;
  feed: RunFeed;
  effect: string | undefined;
  pending: string | undefined;
  /** Whether the run is over, so that a call can be repeated. */
  isOver: boolean;
  readOnly: boolean;
  isLast: boolean;
  onNewRun: (runId: string) => void;
}

export const ToolCard = memo(function ToolCard(props: CardProps): JSX.Element {
  const { call, pending } = props;
  const [chosen, setChosen] = useState<boolean | undefined>(undefined);
  const isTalking = isOpen(call) && (call.progress !== undefined || call.outputTail !== "");
  const isAnswered = isHandedBack(call) && !props.isLast;
  const open = chosen ?? ((TALL.has(call.state) && !isAnswered) || isTalking);
  // The word is that of the journal; a command that is under way stands beside it.
  const look = isAnswered ? "done" : lookOf(call.state);
  const word = isAnswered ? "answered below" : wordOf(call);
  const title = toolTitle(call.tool.server, call.tool.name);
  return (
    <>
      <details
        class="tool"
        data-st={look}
        data-call={call.callId}
        open={open}
        onToggle={(event) => {
          if (event.currentTarget.open !== open) setChosen(event.currentTarget.open);
        }}
      >
        <summary class="step-focus">
          <LookIcon look={look} />
          <span class="name">
            <code class="cut">{title}</code>
            <span class="cut args-short">{argumentLabel(call)}</span>
          </span>
          <span class="facts">
            <span class="fact cut">{pending === "stop" ? "stopping…" : pending ? "sending…" : factOf(call)}</span>
            <span class="word">{word}</span>
            <Elapsed call={call} />
          </span>
          <Icon name="right" class="turn" />
        </summary>
        {open ? <Body {...props} /> : null}
      </details>
      {open || props.readOnly ? null : <Silent {...props} />}
    </>
  );
});

/** For how long a tool at work has said nothing, once that is long; else 0. */
function useQuiet(call: Call): number {
  const isRunning = isOpen(call) && call.state === "running";
  const now = useNow(isRunning);
  const ms = isRunning && call.heardAt ? now - Date.parse(call.heardAt) : 0;
  return ms >= QUIET_MS ? ms : 0;
}

/** What a folded card says of a tool that is silent. */
function Silent({ call, feed, pending }: CardProps): JSX.Element | null {
  const ms = useQuiet(call);
  const [problem, setProblem] = useState("");
  if (ms === 0) return null;
  return (
    <div class="silent">
      <QuietNote ms={ms} />
      <StopTool call={call} feed={feed} pending={pending} onProblem={setProblem} />
      <Problem text={problem} />
    </div>
  );
}

function QuietNote({ ms }: { ms: number }): JSX.Element {
  return (
    <p class="quiet-note" data-st="approval">
      <Icon name="clock" />
      <span>{`No update for ${duration(ms)}. It may still be at work.`}</span>
    </p>
  );
}

function StopTool({ call, feed, pending, onProblem }: Pick<CardProps, "call" | "feed" | "pending"> & { onProblem: (text: string) => void }): JSX.Element {
  return (
    <button type="button" class="btn sm" disabled={pending === "stop"} onClick={() => void stopCall(feed, call.callId).catch((error: unknown) => onProblem(sentence(error)))}>
      <Icon name="stop" class="square" />
      {pending === "stop" ? "Stopping…" : "Stop tool"}
    </button>
  );
}

/** Draws itself only, so that nothing else of the row moves. */
function Elapsed({ call }: { call: Call }): JSX.Element {
  const now = useNow(isOpen(call) && call.attempts.length > 0, 100);
  const ms = elapsedMs(call, now);
  return <span class="t num">{ms === undefined ? "" : duration(ms)}</span>;
}

function Body(props: CardProps): JSX.Element {
  const { call, effect, readOnly } = props;
  const cause = causeOf(call);
  return (
    <div class="body">
      {call.state === "unknown" ? (
        <p>
          The call was sent and no answer came. It may have happened or not, so it was not sent again.{" "}
          <span class="dim">{cause}</span>
        </p>
      ) : cause ? (
        <p class="cause">{cause}</p>
      ) : null}
      <Attempts call={call} />
      <Progress call={call} />
      <Tail call={call} />
      <div class="args">
        {call.editedFrom === undefined ? null : (
          <>
            <h3>Arguments of the model</h3>
            <JsonText text={pretty(call.editedFrom)} label="Arguments of the model" />
            <h3>Changed by a person to</h3>
          </>
        )}
        {call.arguments.trim() === "{}" ? <p class="dim">No arguments.</p> : <JsonText text={pretty(call.arguments)} label="Arguments" />}
      </div>
      {call.state === "needs approval" && readOnly ? <Facts call={call} effect={effect} /> : null}
      {isHandedBack(call) && props.isLast ? <p class="dim">The run ended for this approval. The program that started it answers with its next request.</p> : null}
      {call.approval?.decision ? <Decision call={call} /> : null}
      {outputOf(call) ? <Result call={call} feed={props.feed} /> : null}
      {readOnly ? null : <Actions {...props} />}
    </div>
  );
}

function Attempts({ call }: { call: Call }): JSX.Element | null {
  const again = call.attempts.filter((one) => one.attempt > 1);
  if (again.length === 0) return null;
  return (
    <ul class="attempts">
      {again.map((one) => (
        <li>
          {`Attempt ${one.attempt} at ${clock(one.at)}: `}
          {one.reason ? one.reason.message : "started again after a takeover, because it may be repeated safely."}
        </li>
      ))}
    </ul>
  );
}

function Progress({ call }: { call: Call }): JSX.Element | null {
  const quietMs = useQuiet(call);
  const { progress, phase } = call;
  if (!isOpen(call)) return null;
  const said = progress?.message ?? phase ?? "";
  return (
    <>
      {progress || said ? (
        <div class="progress">
          <div class="progress-words">
            <span class="cut">{said ? inOrder(said) : "working"}</span>
            <span class="num">{progress ? (progress.total ? `${progress.progress} of ${progress.total}` : String(progress.progress)) : ""}</span>
          </div>
          {progress?.total ? <progress max={progress.total} value={progress.progress} aria-label={`Progress of ${exact(call.tool.name)}`} /> : null}
        </div>
      ) : null}
      {quietMs > 0 ? <QuietNote ms={quietMs} /> : null}
    </>
  );
}

function Tail({ call }: { call: Call }): JSX.Element | null {
  const [all, setAll] = useState(false);
  if (call.outputTail === "") return null;
  const lines = call.outputTail.trimEnd().split("\n");
  const shown = all ? lines : lines.slice(-TAIL_LINES);
  return (
    <div class="tailbox">
      <pre class="tail" tabIndex={0} role="group" aria-label="Output">
        {shown.join("\n")}
      </pre>
      {lines.length > TAIL_LINES ? (
        <button type="button" class="btn quiet sm" onClick={() => setAll(!all)}>
          {all ? "Last lines" : "All output"}
        </button>
      ) : null}
    </div>
  );
}

/** What is known about a tool that asks: the effect class is the operator's, the rest the server's claim. */
export function Facts({ call, effect }: { call: Call; effect: string | undefined }): JSX.Element {
  return (
    <p class="chips">
      <Claims claims={call.approval?.claims} />
      {(call.approval?.effect ?? effect) === "once" ? <span class="chip flat">cannot be repeated safely</span> : null}
      {call.approval?.changed ? (
        <span class="chip warn">
          <Icon name="warn" />
          definition changed
        </span>
      ) : null}
      {call.approval?.budget ? (
        <span class="chip warn">
          <Icon name="warn" />
          budget
        </span>
      ) : null}
      <span class="dim">{call.approval ? `asked at ${clock(call.approval.requestedAt)}` : ""}</span>
    </p>
  );
}

/** What the MCP server says about its tool. It is marked as its claim, because nobody has verified it. */
export function Claims({ claims }: { claims: ToolClaims | null | undefined }): JSX.Element | null {
  const word = claimWord(claims);
  if (!word) return null;
  return (
    <span class={`chip ${claims?.destructive ? "warn" : ""}`} title="The MCP server says this about its own tool; nobody has verified it">
      {claims?.destructive ? <Icon name="warn" /> : null}
      {`server claims: ${word}`}
    </span>
  );
}

/** One of them says all: what destroys does more than read, and what reads destroys nothing. */
function claimWord(claims: ToolClaims | null | undefined): string | undefined {
  if (claims?.destructive) return "destructive";
  if (claims?.read_only) return "read-only";
  if (claims?.destructive === false) return "not destructive";
  return claims?.read_only === false ? "not read-only" : undefined;
}

function Decision({ call }: { call: Call }): JSX.Element | null {
  const { approval } = call;
  if (!approval?.decision) return null;
  const who = approval.by === "expiry" ? "nobody answered in time" : approval.by === "conversation" ? "as decided before in this chat" : `by a person (${approval.by ?? "unknown"})`;
  return (
    <p class="dim">
      {`${approval.decision === "approved" ? "Approved" : "Denied"} ${who}`}
      {approval.reason ? `: “${approval.reason}”` : "."}
      {approval.remember ? " For the rest of this chat." : ""}
    </p>
  );
}

function Actions({ call, feed, isOver, pending, onNewRun }: CardProps): JSX.Element | null {
  const [problem, setProblem] = useState("");
  const failed = (error: unknown) => setProblem(sentence(error));
  const canStop = isOpen(call) && call.state === "running";
  const canRetry = !isOpen(call) && call.state !== "done" && !isHandedBack(call);
  return (
    <div class="actions">
      {canStop ? <StopTool call={call} feed={feed} pending={pending} onProblem={setProblem} /> : null}
      {canRetry ? (
        <button
          type="button"
          class="btn sm"
          aria-disabled={!isOver}
          title={isOver ? "Sends the same call once more, as a new run" : "Possible once the run is over"}
          onClick={() => isOver && void retryCall(feed, call.callId).then(onNewRun, failed)}
        >
          <Icon name="retry" />
          {call.state === "unknown" ? "Run again" : "Retry"}
          {isOver ? null : <span class="dim">after the run</span>}
        </button>
      ) : null}
      {isOpen(call) ? null : <CopyButton text={copyText(call)} what={`the call of ${exact(call.tool.name)}`} />}
      <OnItsWay on={pending === "stop"} word="" />
      <Problem text={problem} />
    </div>
  );
}

function copyText(call: Call): string {
  const result = outputOf(call)?.text ?? causeOf(call) ?? "";
  return `${toolTitle(call.tool.server, call.tool.name)}(${call.arguments})\n${result}`;
}
