/** One run as people read it: their message, then the steps of the answer. */

import type { Annotation } from "turnwire";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import type { Call } from "../model/calls";
import { isOpen, waitsForPerson } from "../model/calls";
import { exact, inOrder } from "../model/invisible";
import { type NoticeStep, type RunView, type Step, type TextStep, type ToolsStep, toolTitle } from "../model/run";
import { type Look, clock, count, duration, groupCounts, hasFailed, plural } from "../model/words";
import { go, to } from "../router";
import { look, noticed, unseen } from "../server/away";
import type { FeedState, RunFeed } from "../server/run_feed";
import { useStore } from "../server/store";
import { CopyButton, NO_ANSWER, useLate, useNow } from "./controls";
import { Icon, LookIcon, State } from "./icons";
import { Link, Markdown, isSafe } from "./markdown";
import { ToolCard } from "./tool_card";

export interface RunProps {
  feed: RunFeed;
  state: FeedState;
  /** The run before it in its thread, which has told already what is still so. */
  before?: RunView | undefined;
  isLost: boolean;
  readOnly: boolean;
  /** Whether nothing follows the run in its thread. */
  isLast?: boolean;
  onEdit?: (() => void) | undefined;
  onRetry?: (() => void) | undefined;
  onNewRun: (runId: string) => void;
}

export function RunTranscript(props: RunProps): JSX.Element {
  const { state, isLost } = props;
  const { view } = state;
  return (
    <article class={`run ${isLost && !view.outcome ? "stale" : ""}`} aria-label={`Run ${view.runId}`} data-run={view.runId}>
      {/* Headings of the answer lie below it, also if no tool was called before. */}
      <h2 class="sr">Message and answer</h2>
      <You view={view} onEdit={props.onEdit} />
      {view.steps.filter((step) => !isTold(step, props.before)).map((step) =>
        step.kind === "tools" ? (
          <Group key={step.id} {...props} step={step} />
        ) : step.kind === "notice" ? (
          <Notice key={step.id} step={step} />
        ) : step.kind === "reasoning" ? (
          <Thought key={step.id} step={step} />
        ) : (
          <Said key={step.id} step={step} />
        ),
      )}
      {view.outcome ? <End {...props} /> : null}
    </article>
  );
}

/** A tool server that is broken is told of once, and not with every message. */
function isTold(step: Step, before: RunView | undefined): boolean {
  if (step.kind !== "notice" || step.what !== "server_failed") return false;
  return before?.steps.some((one) => one.kind === "notice" && one.text === step.text) ?? false;
}

/** A message of more characters than anybody reads at once is cut, and shown whole on request. */
const SHOWN_CHARS = 4000;

function LongText({ text }: { text: string }): JSX.Element {
  const [isWhole, setIsWhole] = useState(text.length <= SHOWN_CHARS * 1.25);
  if (isWhole) return <p>{text}</p>;
  return (
    <>
      <p>{`${text.slice(0, SHOWN_CHARS)}…`}</p>
      <button type="button" class="btn quiet sm" onClick={() => setIsWhole(true)}>
        {`Show all, ${count(text.length)} characters`}
      </button>
    </>
  );
}

/** What the person sent. */
function You({ view, onEdit }: { view: RunView; onEdit: RunProps["onEdit"] }): JSX.Element | null {
  if (view.input.length === 0) return null;
  return (
    <div class="you-row">
      {onEdit ? (
        <button type="button" class="btn quiet sm edit" onClick={onEdit} aria-label="Edit and send again">
          <Icon name="pen" />
          <span>Edit</span>
        </button>
      ) : null}
      <div class="you">
        <span class="sr">You: </span>
        {view.input.map((part) =>
          part.kind === "text" ? (
            <LongText text={part.text} />
          ) : part.kind === "image" ? (
            part.url.startsWith("data:image/") ? (
              <img src={part.url} alt="Attached image" />
            ) : (
              <p class="dim">An attached image</p>
            )
          ) : (
            <p class="chip">
              <Icon name="file" />
              {exact(part.name)}
            </p>
          ),
        )}
      </div>
    </div>
  );
}

const Thought = memo(function Thought({ step }: { step: TextStep }): JSX.Element {
  const now = useNow(step.state === "open");
  const ms = (step.endedAt ? Date.parse(step.endedAt) : now) - Date.parse(step.startedAt);
  return (
    <details class="step thought">
      <summary class="step-focus">
        <span class="dot">
          <Icon name="think" />
        </span>
        {step.state === "open" ? "Thinking" : "Thought for"} <span class="num">{duration(ms)}</span>
        <Icon name="right" class="turn" />
      </summary>
      <div class="thought-text">{step.text}</div>
    </details>
  );
});

const Said = memo(function Said({ step }: { step: TextStep }): JSX.Element | null {
  if (step.text === "" && step.refusal === "" && step.state !== "open") return null;
  if (step.state === "superseded") {
    return (
      <details class="step thought">
        <summary class="step-focus">
          <span class="dot">
            <Icon name="retry" />
          </span>
          An unfinished text, written again below
          <Icon name="right" class="turn" />
        </summary>
        <div class="thought-text">{step.text}</div>
      </details>
    );
  }
  return (
    <div class="step said" tabIndex={-1}>
      <span class="dot">
        <Icon name="chat" />
      </span>
      <Markdown text={step.text} isGrowing={step.state === "open"} />
      {step.refusal ? <p class="cause">{step.refusal}</p> : null}
      <Sources annotations={step.annotations} />
      {step.state === "cut" ? <p class="dim">The text ends here because it was cut off.</p> : null}
    </div>
  );
});

/** Where the answer took it from. Each opens its source, and no picture is loaded from there. */
function Sources({ annotations }: { annotations: readonly Annotation[] }): JSX.Element | null {
  const seen = new Map<string, string>();
  for (const { source } of annotations) {
    const facts = source as { url?: string; title?: string; filename?: string; file_id?: string };
    const id = facts.url ?? facts.file_id ?? facts.filename ?? "";
    if (id && !seen.has(id)) seen.set(id, facts.title ?? facts.filename ?? id);
  }
  if (seen.size === 0) return null;
  return (
    <ol class="sources" aria-label="Sources">
      {[...seen].map(([id, title], place) => (
        <li>
          <span class="source-n num">{place + 1}</span>
          <Link href={id}>{inOrder(title)}</Link>
          <span class="dim cut">{isSafe(id) ? new URL(id).hostname : ""}</span>
        </li>
      ))}
    </ol>
  );
}

function Notice({ step }: { step: NoticeStep }): JSX.Element {
  const icon = step.what === "taken_over" ? "flag" : step.what === "retried" ? "retry" : "warn";
  return (
    <p class="step notice">
      <span class="dot">
        <Icon name={icon} />
      </span>
      <span>
        {step.text}
        {step.what === "taken_over" ? ` ${beforeTakeover(step)}` : ""}
      </span>{" "}
      <time class="dim num">{clock(step.at)}</time>
    </p>
  );
}

function beforeTakeover({ at, lastHeard }: NoticeStep): string {
  if (!lastHeard) return "The one before had handed the run over.";
  return `The one before was last heard of at ${clock(lastHeard)}, ${duration(Date.parse(at) - Date.parse(lastHeard))} earlier.`;
}

type GroupProps = RunProps & { step: ToolsStep };

/** Whether a group would look the same: a run changes with every frame, most of its groups do not. */
function isSameGroup(before: GroupProps, after: GroupProps): boolean {
  const [a, b] = [before.state, after.state];
  return (
    before.step === after.step &&
    before.isLast === after.isLast &&
    before.readOnly === after.readOnly &&
    a.view.effects === b.view.effects &&
    a.view.outcome === b.view.outcome &&
    after.step.callIds.every((id) => a.view.calls[id] === b.view.calls[id] && a.pending[id] === b.pending[id])
  );
}

const Group = memo(function Group(props: GroupProps): JSX.Element {
  const { step, state, feed } = props;
  const { view, pending } = state;
  const calls = step.callIds.flatMap((id) => view.calls[id] ?? []);
  return (
    <section class={`step group ${calls.some(isOpen) ? "open" : ""}`} aria-label={plural(calls.length, "tool")}>
      <GroupHead calls={calls} isLast={props.isLast ?? true} />
      <div class="cards">
        {calls.map((call) => (
          <ToolCard
            key={call.callId}
            call={call}
            feed={feed}
            effect={view.effects[toolTitle(call.tool.server, call.tool.name)]}
            pending={pending[call.callId]}
            isOver={view.outcome !== undefined}
            readOnly={props.readOnly}
            isLast={props.isLast ?? true}
            onNewRun={props.onNewRun}
          />
        ))}
      </div>
    </section>
  );
}, isSameGroup);

function GroupHead({ calls, isLast }: { calls: readonly Call[]; isLast: boolean }): JSX.Element {
  const counts = groupCounts(calls, isLast);
  const unknown = calls.some((call) => call.state === "unknown");
  const running = calls.some(isOpen);
  const now = useNow(running);
  const from = Math.min(...calls.map((call) => Date.parse(call.announcedAt)));
  const until = running ? now : Math.max(...calls.map((call) => Date.parse(call.finishedAt ?? call.announcedAt)));
  return (
    <header class="group-h">
      <span class="dot">
        <Icon name="wrench" />
      </span>
      <h2>{plural(calls.length, "tool")}</h2>
      <Counted n={counts.done} look="done" word="done" />
      <Counted n={counts.running} look="running" word="running" />
      <Counted n={counts.failed} look="failed" word="failed" />
      <Counted n={counts.denied} look="denied" word="denied" />
      <Counted n={counts.stopped} look="stopped" word="stopped" />
      <Counted n={counts.needsYou} look={unknown ? "unknown" : "approval"} word={unknown ? "unknown" : counts.needsYou === 1 ? "needs you" : "need you"} />
      <span class="t num">{duration(until - from)}</span>
    </header>
  );
}

/** On a narrow screen the words are only for screen readers, but for the last one. */
function Counted({ n, look, word }: { n: number; look: Look; word: string }): JSX.Element | null {
  if (n === 0) return null;
  return (
    <span class="st" data-st={look}>
      <LookIcon look={look} />
      <span>
        {n}
        <span class="cw">{` ${word}`}</span>
      </span>
    </span>
  );
}

/**
 * What the run is doing now, in words. It stands above the composer and not at the end of the
 * steps, where every new step would push it away.
 */
export function Status({ view, isLost, isStopping, isArmed }: { view: RunView; isLost: boolean; isStopping: boolean; isArmed: boolean }): JSX.Element {
  const now = useNow(true);
  const isLate = useLate(isStopping);
  const open = Object.values(view.calls).filter(isOpen);
  const waits = open.filter(waitsForPerson).length;
  const working = open.length - waits;
  const since = view.turns.at(-1)?.startedAt ?? view.createdAt;
  const words = isStopping
    ? isLate ? NO_ANSWER : "Stopping…"
    : isArmed
      ? "Esc again stops the run"
      : isLost
        ? "Everything shown here is kept."
        : doing(view, waits, working);
  const timed = view.createdAt !== "" && waits === 0 && !isLost;
  return (
    <p class="status">
      <span class="st" data-st={waits > 0 && working === 0 ? "approval" : "running"}>
        {isLost ? <Icon name="wifi" /> : <LookIcon look={waits > 0 && working === 0 ? "approval" : "running"} />}
      </span>
      <span class="cut grow">{words}</span>
      {timed ? <span class="num dim">{duration(now - Date.parse(since))}</span> : null}
    </p>
  );
}

function doing(view: RunView, waits: number, working: number): string {
  if (waits > 0) return working > 0 ? `Waiting for you and ${plural(working, "tool")}` : "Waits for you. The run is kept, you can close this page.";
  if (working > 0) return `Waiting for ${plural(working, "tool")}`;
  if (view.retrying) return `The model failed, attempt ${view.retrying.attempt} follows`;
  if (view.steps.at(-1)?.kind === "message") return "Writing";
  return view.startedAt ? "Thinking" : "Sending…";
}

/** How it ended, and what can be done with it. */
function End({ state, readOnly, onRetry }: RunProps): JSX.Element {
  const { view } = state;
  const [calls, outcome] = [Object.values(view.calls), view.outcome];
  const failed = calls.filter(hasFailed).length;
  const unknown = calls.filter((call) => call.state === "unknown").length;
  const text = view.steps.flatMap((step) => (step.kind === "message" ? step.text : [])).join("\n\n");
  const ms = Date.parse(view.finishedAt ?? view.lastAt) - Date.parse(view.createdAt);
  const isUnseen = useStore(unseen).has(view.runId);
  const isNoticed = useStore(noticed).has(view.runId);
  useEffect(() => {
    if (isUnseen && !readOnly) look(view.runId);
  }, [isUnseen]);
  return (
    <>
      {isNoticed ? (
        <p class="step notice away">
          <span class="dot">
            <Icon name="clock" />
          </span>
          <span>Finished while you were away</span> <time class="dim num">{clock(view.finishedAt ?? view.lastAt)}</time>
        </p>
      ) : null}
      {outcome?.status === "failed" ? (
        <div class="step ending" data-st="failed" role="group" aria-label="Failure">
          <State look="failed" word="failed" />
          <p>{outcome.failure.message}</p>
          <code class="dim">{outcome.failure.code}</code>
        </div>
      ) : outcome?.status === "cancelled" ? (
        <p class="step ending" data-st="stopped">
          <State look="stopped" word={`Stopped ${readOnly ? "" : "by you "}after ${duration(ms)}`} />
        </p>
      ) : outcome?.status === "incomplete" ? (
        <p class="step ending" data-st="timeout">
          <State look="timeout" word={`Incomplete: it reached the limit ${outcome.reason.replaceAll("_", " ")}`} />
        </p>
      ) : null}
      <footer class="foot">
        <span class="foot-facts num">
          {[duration(ms), calls.length > 0 ? plural(calls.length, "tool") : "", failed > 0 ? `${failed} failed` : "", unknown > 0 ? `${unknown} unknown` : "", `${count(view.usage.input_tokens + view.usage.output_tokens)} tokens`]
            .filter(Boolean)
            .join(" · ")}
        </span>
        <span class="grow" />
        {text ? <CopyButton text={text} what="the answer" /> : null}
        {readOnly || !onRetry ? null : (
          <button type="button" class="btn quiet sm" onClick={onRetry}>
            <Icon name="retry" />
            <span>{outcome?.status === "cancelled" ? "Ask again" : "Retry"}</span>
          </button>
        )}
        {readOnly ? null : (
          <button type="button" class="btn quiet sm" onClick={() => go(to.run(view.runId))}>
            <Icon name="runs" />
            <span>Timeline</span>
          </button>
        )}
      </footer>
    </>
  );
}

/** A message that is on its way. */
export function Sending({ text }: { text: string }): JSX.Element {
  return (
    <article class="run">
      <div class="you-row">
        <div class="you">
          <LongText text={text} />
        </div>
      </div>
    </article>
  );
}

/** The same place while there is no run yet. */
export function SendingStatus(): JSX.Element {
  const isLate = useLate(true);
  return (
    <p class="status">
      <State look="running" word={isLate ? NO_ANSWER : "Sending…"} />
    </p>
  );
}
