/**
 * What waits for the person, above the composer: approvals and questions of tools.
 *
 * The question is made from the tool's name and its exact arguments, never from its description,
 * because a tool may lie about itself.
 */

import { ConflictError } from "turnwire";
import type { JSX, RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Call, type Question, openQuestion } from "../model/calls";
import { exact, exactJson } from "../model/invisible";
import { toolTitle } from "../model/run";
import { draftOf, fieldsOf, fieldsOfValues, readDraft } from "../model/schema_form";
import { budgetQuestion, duration } from "../model/words";
import { sentence } from "../server/api";
import { answer, decide } from "../server/commands";
import type { RunFeed } from "../server/run_feed";
import { OnItsWay, Problem, useNow } from "./controls";
import { SchemaForm } from "./form";
import { Icon, LookIcon } from "./icons";
import { JsonText, parsed, pretty } from "./json";
import { SETTLE_MS, typed, useKey } from "./keys";
import { Facts } from "./tool_card";

const SENDING = "Sending your answer…";

export interface Waiting {
  feed: RunFeed;
  call: Call;
  effect: string | undefined;
}

/** `onIdle` is called when nothing waits any more and nothing has the focus. */
export function Dock({ waiting, isLost, onIdle }: { waiting: Waiting[]; isLost: boolean; onIdle?: () => void }): JSX.Element | null {
  const [place, setPlace] = useState(0);
  const section = useRef<HTMLElement>(null);
  const current = waiting[Math.min(place, waiting.length - 1)];
  const question = current && openQuestion(current.call);
  const key = current && `${current.feed.runId}-${current.call.callId}-${question?.inputId ?? ""}`;
  useKey("w", () => setPlace((place + 1) % Math.max(1, waiting.length)), waiting.length > 0);
  useEffect(() => takeFocus(section), [key]);
  useEffect(() => {
    if (key === undefined) return undefined;
    return () => document.activeElement === document.body && !document.querySelector(".ask") && onIdle?.();
  }, [key]);
  if (!current) return null;
  const at = Math.min(place, waiting.length - 1);
  const several = waiting.length > 1 ? <Pager at={at} n={waiting.length} go={setPlace} /> : null;
  return (
    <section class="ask" data-st={question?.isAboutOutcome ? "unknown" : question ? "question" : "approval"} aria-label="Waits for you" key={key} ref={section} tabIndex={-1}>
      {question?.isAboutOutcome ? (
        <Settle {...current} question={question} isLost={isLost} several={several} />
      ) : question ? (
        <Asks {...current} question={question} isLost={isLost} several={several} />
      ) : (
        <Approve {...current} isLost={isLost} several={several} all={waiting} />
      )}
    </section>
  );
}

/** The keys of a question work at once, unless the person is writing or reads something else. */
function takeFocus(section: RefObject<HTMLElement | null>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const take = () => {
    const [here, field] = [document.activeElement, document.getElementById("composer")];
    const isIdle = here === document.body || (here === field && field instanceof HTMLTextAreaElement && field.value === "");
    const left = SETTLE_MS - (performance.now() - typed.at);
    if (isIdle && left > 0) timer = setTimeout(take, left);
    else if (isIdle) section.current?.focus({ preventScroll: true });
  };
  take();
  return () => clearTimeout(timer);
}

function Pager({ at, n, go }: { at: number; n: number; go: (place: number) => void }): JSX.Element {
  return (
    <span class="pager">
      <button type="button" class="btn quiet sm icon" aria-label="Previous that waits" onClick={() => go((at + n - 1) % n)}>
        <Icon name="left" />
      </button>
      <span class="num">{`${at + 1} of ${n}`}</span>
      <button type="button" class="btn quiet sm icon" aria-label="Next that waits" onClick={() => go((at + 1) % n)}>
        <Icon name="right" />
      </button>
    </span>
  );
}

interface ItemProps extends Waiting {
  isLost: boolean;
  several: JSX.Element | null;
}

const typedHere = new Map<string, unknown>();

/** State of a question that is kept while the person looks at something else. */
function useKept<T>(key: string, initial: () => T): [T, (value: T) => void] {
  const [value, set] = useState<T>(() => (typedHere.has(key) ? (typedHere.get(key) as T) : initial()));
  return [value, (next) => (typedHere.set(key, next), set(next))];
}

/** When the question appeared; keys answer it only a moment later. */
function useSettled(): () => boolean {
  const since = useRef(performance.now());
  return () => performance.now() - since.current >= SETTLE_MS;
}

function Left({ until, then }: { until: string | undefined; then: string }): JSX.Element | null {
  const now = useNow(until !== undefined);
  if (!until) return null;
  return <span class="num dim">{`${duration(Date.parse(until) - now)} left, then ${then}`}</span>;
}

function Approve({ feed, call, effect, isLost, several, all }: ItemProps & { all: Waiting[] }): JSX.Element {
  const given = useMemo(() => parsed(call.arguments) as Record<string, unknown> | undefined, [call.arguments]);
  const isObject = given !== undefined && !Array.isArray(given);
  const fields = useMemo(() => (isObject ? fieldsOfValues(given) : []), [given]);
  const before = useMemo(() => draftOf(fields, undefined, given), [fields]);
  const id = `${feed.runId} ${call.callId}`;
  const [mode, setMode] = useKept<"shown" | "form" | "json">(`${id} mode`, () => "shown");
  const [draft, setDraft] = useKept(`${id} draft`, () => before);
  const [json, setJson] = useKept(`${id} json`, () => "");
  const [reason, setReason] = useKept(`${id} reason`, () => "");
  const [problem, setProblem] = useState("");
  const [problems, setProblems] = useState<Record<string, string>>({});
  const settled = useSettled();
  const isSent = feed.state.value.pending[call.callId] !== undefined;
  const changes = mode === "form" ? fields.filter(({ key }) => JSON.stringify(draft[key]) !== JSON.stringify(before[key])).length : 0;

  const send = async (decision: "approve" | "deny", remember = false) => {
    if (isLost || isSent) return;
    const edited = decision === "approve" ? editedArguments() : {};
    if (!edited) return;
    try {
      const why = reason.trim();
      await decide(feed, call.callId, { decision, ...(why ? { reason: why } : {}), ...edited, ...(remember ? { remember } : {}) });
    } catch (error) {
      setProblem(error instanceof ConflictError ? "Somebody else has answered already." : sentence(error));
    }
  };

  /** `undefined` if what was typed cannot be sent. */
  const editedArguments = (): { arguments?: Record<string, unknown> } | undefined => {
    if (mode === "form") {
      const read = readDraft(fields, draft);
      setProblems(read.problems);
      return Object.keys(read.problems).length > 0 ? undefined : changes > 0 ? { arguments: { ...given, ...read.values } } : {};
    }
    if (mode !== "json") return {};
    const value = parsed(json);
    if (value && !Array.isArray(value)) return { arguments: value as Record<string, unknown> };
    setProblem("The arguments must be a JSON object.");
    return undefined;
  };

  const edit = () => (isObject ? setMode("form") : (setJson(exactJson(call.arguments)), setMode("json")));
  useKey("a", () => settled() && void send("approve"));
  useKey("d", () => settled() && void send("deny"));
  useKey("e", (event) => {
    event.preventDefault();
    edit();
  });
  const off = isLost || isSent;
  const budget = call.approval?.budget;
  const toModel = budget ? "" : ", told to the model";
  // Permission to spend is asked for alone.
  const others = all.filter((one) => !openQuestion(one.call) && !one.call.approval?.budget);
  const destructive = others.find((one) => one.call.approval?.claims?.destructive);
  return (
    <>
      <header class="ask-h">
        <LookIcon look="approval" />
        <h2>
          Allow <code>{toolTitle(call.tool.server, call.tool.name)}</code>?
        </h2>
        <Facts call={call} effect={effect} />
        <span class="end">
          {several}
          <Left until={call.approval?.expiresAt} then="denied" />
        </span>
      </header>
      <div class="ask-body">
        {budget ? <p class="cause">{`${budgetQuestion(budget)} Deny ends the run; all calls of this turn wait.`}</p> : null}
        {call.approval?.changed ? <p class="cause">{`The definition of this tool changed since it was trusted. It now says: ${exact(call.approval.changed)}`}</p> : null}
        {mode === "shown" ? <JsonText text={pretty(call.arguments)} label="Exact arguments" /> : null}
        {mode === "form" ? <SchemaForm fields={fields} draft={draft} before={before} problems={problems} onChange={setDraft} idPrefix={`edit-${call.callId}`} /> : null}
        {mode === "json" ? (
          <textarea class="inp mono" rows={6} spellcheck={false} aria-label="Arguments as JSON" value={json} onInput={(event) => setJson(event.currentTarget.value)} />
        ) : null}
        {isLost ? <LostNote /> : null}
        <OnItsWay on={isSent} word={SENDING} />
        <Problem text={problem} />
      </div>
      <div class="acts">
        <button type="button" class="btn primary" aria-disabled={off} onClick={() => void send("approve")}>
          {changes > 0 ? `Approve with ${changes} ${changes === 1 ? "change" : "changes"}` : "Approve"} <kbd>A</kbd>
        </button>
        <button type="button" class="btn" aria-disabled={off} onClick={() => void send("deny")}>
          Deny <kbd>D</kbd>
        </button>
        <span class="second">
          {mode === "shown" ? (
            <button type="button" class="btn quiet" onClick={edit}>
              <Icon name="pen" />
              Edit
            </button>
          ) : (
            <>
              <button type="button" class="btn quiet" onClick={() => (setDraft(before), setMode("shown"))}>
                Undo changes
              </button>
              {mode === "form" ? (
                <button type="button" class="btn quiet" onClick={() => (setJson(exactJson(JSON.stringify({ ...given, ...readDraft(fields, draft).values }, null, 2))), setMode("json"))}>
                  Edit as JSON
                </button>
              ) : null}
            </>
          )}
          {budget ? null : (
            <button type="button" class="btn quiet" aria-disabled={off} onClick={() => void send("approve", true)}>
              Approve in this chat
            </button>
          )}
          {budget || others.length < 2 ? null : destructive ? (
            <span class="why">{`Not all at once: ${exact(destructive.call.tool.name)} is said to be destructive.`}</span>
          ) : (
            <button
              type="button"
              class="btn quiet"
              aria-disabled={isLost}
              onClick={() => !isLost && others.forEach((one) => void decide(one.feed, one.call.callId, { decision: "approve" }).catch(() => undefined))}
            >
              {`Approve all ${others.length}`}
            </button>
          )}
        </span>
        <input class="inp reason" placeholder={`Reason${toModel}`} aria-label={`Reason for a denial${toModel}`} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </div>
    </>
  );
}

function LostNote(): JSX.Element {
  return (
    <p class="why">
      <Icon name="wifi" />
      Answering works again when the connection is back. Stop is kept and sent then.
    </p>
  );
}

/** What to do about a call that was sent and never answered. */
function Settle({ feed, call, question, isLost, several }: ItemProps & { question: Question }): JSX.Element {
  const [result, setResult] = useKept(`${feed.runId} ${question.inputId} result`, () => "");
  const [problem, setProblem] = useState("");
  const isSent = feed.state.value.pending[call.callId] !== undefined;
  const off = isLost || isSent;
  const settle = async (outcome: "done" | "run_again" | "give_up") => {
    if (off) return;
    const content = outcome === "done" && result.trim() ? { outcome, result: result.trim() } : { outcome };
    try {
      await answer(feed, call.callId, { action: "accept", content, inputId: question.inputId });
    } catch (error) {
      setProblem(error instanceof ConflictError ? "Somebody else has answered already." : sentence(error));
    }
  };
  return (
    <>
      <header class="ask-h">
        <LookIcon look="unknown" />
        <h2>
          Outcome unknown: <code>{toolTitle(call.tool.server, call.tool.name)}</code>
        </h2>
        <span class="end">
          {several}
          <Left until={question.expiresAt} then="given up" />
        </span>
      </header>
      <div class="ask-body">
        <p class="question">The call was sent and no answer came: {exact(question.message)}. It may have happened or not, so it was not sent again.</p>
        <JsonText text={pretty(call.arguments)} label="Arguments" />
        {isLost ? <LostNote /> : null}
        <OnItsWay on={isSent} word={SENDING} />
        <Problem text={problem} />
      </div>
      <div class="acts">
        <button type="button" class="btn primary" aria-disabled={off} onClick={() => void settle("done")}>
          Mark done
        </button>
        <button type="button" class="btn" aria-disabled={off} onClick={() => void settle("run_again")}>
          Run again
        </button>
        <span class="second">
          <button type="button" class="btn quiet" aria-disabled={off} onClick={() => void settle("give_up")}>
            Skip
          </button>
        </span>
        <input class="inp reason" placeholder="Its result, if you know it" aria-label="Result of the call, told to the model if it is marked done" value={result} onInput={(event) => setResult(event.currentTarget.value)} />
      </div>
    </>
  );
}

function Asks({ feed, call, question, isLost, several }: ItemProps & { question: Question }): JSX.Element {
  const fields = useMemo(() => fieldsOf(question.schema), [question]);
  const [draft, setDraft] = useKept(`${feed.runId} ${question.inputId} answer`, () => draftOf(fields, question.schema));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState("");
  const isSent = feed.state.value.pending[call.callId] !== undefined;
  const send = async (action: "accept" | "decline" | "cancel") => {
    if (isLost || isSent) return;
    const read = readDraft(fields, draft);
    if (action === "accept") {
      setProblems(read.problems);
      if (Object.keys(read.problems).length > 0) return;
    }
    try {
      const content = action === "accept" ? { content: read.values } : {};
      await answer(feed, call.callId, { action, ...content, inputId: question.inputId });
    } catch (error) {
      setProblem(error instanceof ConflictError ? "Somebody else has answered already." : sentence(error));
    }
  };
  const off = isLost || isSent;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send("accept");
      }}
    >
      <header class="ask-h">
        <LookIcon look="question" />
        <h2>
          <code>{toolTitle(call.tool.server, call.tool.name)}</code> asks
        </h2>
        <span class="end">
          {several}
          <Left until={question.expiresAt} then="dismissed" />
        </span>
      </header>
      <div class="ask-body">
        <p class="question">{exact(question.message)}</p>
        <SchemaForm fields={fields} draft={draft} problems={problems} onChange={(next) => (setDraft(next), setProblems({}))} idPrefix={`ask-${question.inputId}`} />
        {isLost ? <LostNote /> : null}
        <OnItsWay on={isSent} word={SENDING} />
        <Problem text={problem} />
      </div>
      <div class="acts">
        <button type="submit" class="btn primary" aria-disabled={off}>
          Answer
        </button>
        <button type="button" class="btn" aria-disabled={off} onClick={() => void send("decline")}>
          Decline
        </button>
        <span class="second">
          <button type="button" class="btn quiet" aria-disabled={off} onClick={() => void send("cancel")}>
            Dismiss
          </button>
        </span>
      </div>
    </form>
  );
}
