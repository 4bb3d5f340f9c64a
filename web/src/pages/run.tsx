/** One run: its timeline, the call or turn that was chosen, and the raw journal beside it. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Call, outputOf, startedAt, waitsForPerson } from "../model/calls";
import { exact } from "../model/invisible";
import { isPlaceholder } from "../model/redaction";
import { type RunView, toolTitle } from "../model/run";
import { timelineOf } from "../model/timeline";
import { causeOf, clock, count, duration, lookOf, runState, titleOf, wordOf } from "../model/words";
import { go, to } from "../router";
import { serverNow } from "../server/clock";
import { stopRun } from "../server/commands";
import { type RunFeed, feedOf, useFeeds } from "../server/run_feed";
import { useStore } from "../server/store";
import { Banner } from "../ui/banner";
import { CopyButton, Empty, useNow } from "../ui/controls";
import { Dock } from "../ui/dock";
import { Icon, State } from "../ui/icons";
import { JournalView } from "../ui/journal";
import { JsonText, Redacted, pretty } from "../ui/json";
import { useStopKey } from "../ui/keys";
import { Result } from "../ui/result";
import { ShareButton } from "../ui/share";
import { TimelineView } from "../ui/timeline";
import { Burger } from "../ui/top_bar";
import { useLost } from "../ui/use_lost";

export function RunPage({ runId, call }: { runId: string; call: string | undefined }): JSX.Element {
  const feed = useMemo(() => feedOf(runId), [runId]);
  useFeeds([feed]);
  return <RunDetails feed={feed} call={call} readOnly={false} />;
}

interface DetailsProps {
  feed: RunFeed;
  call: string | undefined;
  readOnly: boolean;
  /** Whether texts are withheld, and numbers that were made from them. */
  isRedacted?: boolean;
}

/** The same for the owner of a run and for whoever got its link. */
export function RunDetails({ feed, call, readOnly, isRedacted = false }: DetailsProps): JSX.Element {
  const { view, error, loaded, pending } = useStore(feed.state);
  const [lane, setLane] = useState<string | undefined>(call);
  const [seq, setSeq] = useState<number | undefined>(undefined);
  const isOpen = view.outcome === undefined && view.lastSeq > 0;
  const now = useNow(isOpen, 250);
  const isLost = useLost();
  const title = titleOf(view);
  useEffect(() => {
    document.title = `${title} · Turnwire`;
  }, [title]);
  const timeline = useMemo(() => timelineOf(view, isOpen ? Math.max(now, serverNow()) : now), [view, isOpen ? now : 0]);
  const { isArmed } = useStopKey(() => void stopRun(feed).catch(() => undefined), isOpen && !readOnly);
  if (error) {
    return (
      <main class="main" id="main" tabIndex={-1}>
        <Empty title="This run cannot be shown">
          <p>{error.message}</p>
        </Empty>
      </main>
    );
  }
  if (!loaded) {
    return (
      <main class="main" id="main" tabIndex={-1}>
        <p class="nothing">Reading the journal…</p>
      </main>
    );
  }
  const state = runState(view);
  const chosen = lane ? view.calls[lane] : mostTelling(view);
  const waiting = readOnly
    ? []
    : Object.values(view.calls)
        .filter(waitsForPerson)
        .map((one) => ({ feed, call: one, effect: view.effects[toolTitle(one.tool.server, one.tool.name)] }));
  return (
    <main class="main scrolls run-page" id="main" tabIndex={-1}>
      <Banner />
      <header class="run-h">
        <div class="title">
          {readOnly ? null : (
            <>
              <Burger />
              <a class="crumb" href={to.runs}>
                Runs
              </a>
            </>
          )}
          <h1 class="cut">{title}</h1>
          <State look={state.look} word={state.word} class="pill" />
          <span class="grow" />
          {readOnly ? null : (
            <>
              {isOpen ? (
                <button type="button" class="btn" disabled={pending["run"] === "stop"} onClick={() => void stopRun(feed).catch(() => undefined)}>
                  <Icon name="stop" class="square" />
                  {pending["run"] === "stop" ? "Stopping…" : isArmed ? "Esc again stops" : "Stop"}
                </button>
              ) : null}
              <ShareButton runId={view.runId} />
              {view.conversationId ? (
                <a class="btn" href={to.chat(view.conversationId)} aria-label="Open chat">
                  <Icon name="chat" />
                  <span class="txt">Open chat</span>
                </a>
              ) : null}
            </>
          )}
        </div>
        <Facts view={view} isRedacted={isRedacted} waitedMs={timeline.waitedMs} totalMs={timeline.totalMs} />
      </header>
      <div class="split">
        <section class="tl" aria-label="Timeline">
          <TimelineView
            timeline={timeline}
            selected={lane ?? chosen?.callId}
            onSelect={(id) => {
              setLane(id);
              setSeq(firstSeqOf(feed, id));
            }}
            at={atOf(feed, seq, view)}
          />
          {waiting.length > 0 ? <Dock waiting={waiting} isLost={isLost} /> : null}
          {chosen ? <CallDetails call={chosen} view={view} feed={feed} readOnly={readOnly} /> : null}
        </section>
        <JournalView events={feed.events} n={view.lastSeq} startAt={view.createdAt} selected={seq} onSelect={setSeq} runId={view.runId} />
      </div>
    </main>
  );
}

function Facts({ view, isRedacted, waitedMs, totalMs }: { view: RunView; isRedacted: boolean; waitedMs: number; totalMs: number }): JSX.Element {
  const facts: [string, string][] = [
    ["Duration", duration(totalMs)],
    ["Waited for a person", waitedMs > 0 ? duration(waitedMs) : "not at all"],
    ["Tokens", isRedacted ? "redacted" : count(view.usage.input_tokens + view.usage.output_tokens)],
    ["Started", view.createdAt ? clock(view.createdAt) : ""],
    ["Model", view.model],
    ["Run", view.runId],
  ];
  return (
    <dl class="facts-row">
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd class={name === "Run" ? "mono cut" : "num cut"}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The call that a person most likely came for. */
function mostTelling(view: RunView): Call | undefined {
  const calls = Object.values(view.calls);
  const bad = (call: Call) => call.state !== "done" && call.state !== "running";
  return calls.find(waitsForPerson) ?? calls.find(bad) ?? calls[0];
}

/** The event at which a lane begins. */
function firstSeqOf(feed: RunFeed, lane: string): number | undefined {
  const turn = /^turn-(\d+)$/.exec(lane)?.[1];
  const found = feed.events.find(({ event }) =>
    turn ? event.type === "turn_started" && event.turn === Number(turn) : lane === "worker" ? event.type === "run_taken_over" : "call_id" in event && event.call_id === lane,
  );
  return found?.seq;
}

function atOf(feed: RunFeed, seq: number | undefined, view: RunView): number | undefined {
  const recorded = seq === undefined ? undefined : feed.events[seq - 1];
  return recorded && view.createdAt ? Date.parse(recorded.at) - Date.parse(view.createdAt) : undefined;
}

/** The life of a call as dots on a line, then what went in and what came out. */
function CallDetails({ call, view, feed, readOnly }: { call: Call; view: RunView; feed: RunFeed; readOnly: boolean }): JSX.Element {
  const zero = Date.parse(view.createdAt);
  const moments = momentsOf(call);
  return (
    <section class="det" aria-label={`Call of ${exact(call.tool.name)}`}>
      <header>
        <h2 class="mono cut">{toolTitle(call.tool.server, call.tool.name)}</h2>
        <State look={lookOf(call.state)} word={wordOf(call)} />
        <span class="grow" />
        {isPlaceholder(call.arguments) ? null : <CopyButton text={call.arguments} what="the arguments" label="Copy arguments" />}
        {!readOnly && view.conversationId ? (
          <button type="button" class="btn quiet sm" onClick={() => go(to.chat(view.conversationId))}>
            Show in chat
          </button>
        ) : null}
      </header>
      <ol class="life">
        {moments.map((moment) => (
          <li data-st={moment.look}>
            <span class="num dim">{`+${((Date.parse(moment.at) - zero) / 1000).toFixed(2)}`}</span>
            <b>{moment.word}</b>
            <em>{exact(moment.more)}</em>
          </li>
        ))}
      </ol>
      {causeOf(call) ? <p class="cause">{isPlaceholder(causeOf(call) ?? "") ? <Redacted /> : causeOf(call)}</p> : null}
      <div class="cols">
        <div>
          <h3>Arguments</h3>
          {call.editedFrom === undefined ? null : (
            <del>
              <JsonText text={pretty(call.editedFrom)} label="Arguments of the model" />
            </del>
          )}
          <JsonText text={pretty(call.arguments) || "{}"} label="Arguments" />
        </div>
        {outputOf(call) ? <Result call={call} feed={feed} /> : null}
      </div>
    </section>
  );
}

interface Moment {
  at: string;
  word: string;
  more: string;
  look: string;
}

function momentsOf(call: Call): Moment[] {
  const moments: Moment[] = [{ at: call.announcedAt, word: call.turn > 0 ? "named by the model" : "asked for by a person", more: "", look: "preparing" }];
  const { approval } = call;
  if (approval) {
    moments.push({ at: approval.requestedAt, word: "needs approval", more: "", look: "approval" });
    if (approval.resolvedAt) {
      const waited = duration(Date.parse(approval.resolvedAt) - Date.parse(approval.requestedAt));
      const more = call.editedFrom === undefined ? `after ${waited}` : `after ${waited}, arguments changed`;
      moments.push({ at: approval.resolvedAt, word: approval.decision ?? "answered", more, look: approval.decision === "denied" ? "denied" : "done" });
    }
  }
  for (const attempt of call.attempts) {
    const more = attempt.reason?.message ?? "";
    moments.push({ at: attempt.at, word: attempt.attempt > 1 ? `attempt ${attempt.attempt}` : "running", more, look: "running" });
  }
  for (const question of call.questions) {
    moments.push({ at: question.requestedAt, word: "asks", more: question.message, look: "question" });
    if (question.resolvedAt) moments.push({ at: question.resolvedAt, word: question.reply?.status ?? "answered", more: "", look: "running" });
  }
  if (call.finishedAt) {
    const more = startedAt(call) && call.durationMs !== undefined ? duration(call.durationMs) : "";
    moments.push({ at: call.finishedAt, word: wordOf(call), more, look: lookOf(call.state) });
  }
  return moments.sort((a, b) => a.at.localeCompare(b.at));
}
