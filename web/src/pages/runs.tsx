/**
 * All runs: what needs input first, then the rest, filtered and live.
 *
 * What is shown stays where it is: a line changes in its place, and new runs are announced and come
 * when the person asks for them. The filters are in the address, so a reload keeps them.
 */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type RunFilter, filterOf, fits, queryOf } from "../model/run_filter";
import { ago, duration, lineState, plural, runName } from "../model/words";
import { go, replace, to } from "../router";
import { line, request, sentence } from "../server/api";
import { useStore } from "../server/store";
import { type RunLine, type RunPage as Page, changes, runs, threadsOf, titles } from "../server/threads";
import { Empty, Problem, useNow } from "../ui/controls";
import { Icon, LookIcon, State } from "../ui/icons";
import { StepBar } from "../ui/step_bar";
import { TopBar } from "../ui/top_bar";

const STATES: [string, string][] = [
  ["", "All"],
  ["needs_input", "Needs input"],
  ["active", "Running"],
  ["completed", "Done"],
  ["failed", "Failed"],
  ["cancelled", "Stopped"],
  ["incomplete", "Incomplete"],
  ["stalled", "Stalled"],
];
/** Filters that few need are shown only if there is something behind them. */
const RARE = new Set(["incomplete", "stalled"]);
const TIMES: [string, string][] = [
  ["0", "any time"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["604800", "last week"],
];
const SETTLE_MS = 250;

export function RunsPage({ query }: { query: string }): JSX.Element {
  const filter = useMemo(() => filterOf(query), [query]);
  const set = (change: Partial<RunFilter>) => replace(`${to.runs}?${queryOf({ ...filter, ...change })}`);
  const { page, counts, problem, read, more } = useRuns(filter);
  const live = useStore(runs);
  const isLive = useStore(line).state !== "lost";
  const byId = useMemo(() => new Map(live.map((run) => [run.run_id, run])), [live]);
  const [shown, newer] = useMemo(() => {
    const known = new Set(page?.data.map((run) => run.run_id));
    const newest = page?.data[0]?.created_at ?? "";
    return [page?.data ?? [], page ? live.filter((run) => run.created_at > newest && !known.has(run.run_id) && fits(run, filter, Date.now())) : []];
  }, [page, live, filter]);
  // Where a run stands is decided when the list is read; later changes do not move it.
  const needs = shown.filter((run) => run.status === "needs_input");
  const rest = shown.filter((run) => run.status !== "needs_input");
  const row = (run: RunLine) => <Row key={run.run_id} run={byId.get(run.run_id) ?? run} />;
  return (
    <main class="main scrolls" id="main" tabIndex={-1}>
      <TopBar title="Runs">
        <span class={`lamp ${isLive ? "" : "off"}`}>{isLive ? "live" : "reconnecting"}</span>
      </TopBar>
      <div class="page">
        <Filters filter={filter} counts={counts} set={set} />
        <Problem text={problem} />
        {needs.length > 0 ? (
          <ul class="rows needs" aria-label="Needs input">
            {needs.map(row)}
          </ul>
        ) : null}
        {page && shown.length === 0 && newer.length === 0 ? <Empty title={queryOf(filter) === "" ? "No runs yet" : "No run fits these filters"} /> : null}
        {rest.length > 0 || newer.length > 0 ? (
          <div class="rows-box">
            <div class="rh" aria-hidden="true">
              <span>State</span>
              <span>Run</span>
              <span class="hide-m">Steps</span>
              <span class="hide-m">Model</span>
              <span class="right">Duration</span>
              <span class="right">Started</span>
            </div>
            {newer.length > 0 ? (
              <button type="button" class="newrows" onClick={read}>
                <Icon name="up" />
                {plural(newer.length, "new run")}
              </button>
            ) : null}
            <ul class="rows" aria-label="Runs">
              {rest.map(row)}
            </ul>
          </div>
        ) : null}
        {page?.has_more ? (
          <button type="button" class="btn older" onClick={more}>
            Show older runs
          </button>
        ) : null}
      </div>
    </main>
  );
}

interface Read {
  page: Page | undefined;
  counts: Record<string, number>;
  problem: string;
  read: () => void;
  more: () => void;
}

/** The runs that match, and how many are behind each status, which is asked again after changes. */
function useRuns(filter: RunFilter): Read {
  const [page, setPage] = useState<Page | undefined>(undefined);
  const [counts, setCounts] = useState<Record<string, number>>({});
  const [problem, setProblem] = useState("");
  const changed = useStore(changes);
  // Answers to an older question are dropped; the counts alone do not replace a list that comes.
  const asked = useRef({ list: 0, counts: 0 });
  const ask = async (what: "list" | "counts", query: string, then: (answer: Page) => void) => {
    const [list, number] = [asked.current.list, ++asked.current[what]];
    const isCurrent = () => number === asked.current[what] && (what === "list" || list === asked.current.list);
    try {
      const answer = await request<Page>(`/v1/runs?${query}`);
      if (!isCurrent()) return;
      setProblem("");
      setCounts(answer.counts);
      then(answer);
    } catch (error) {
      if (isCurrent()) setProblem(sentence(error));
    }
  };
  const query = () => queryOf(filter, Date.now());
  const read = () => void ask("list", `limit=50&${query()}`, setPage);
  const more = () =>
    void ask("list", `limit=50&after=${encodeURIComponent(page?.last_id ?? "")}&${query()}`, (older) => setPage(page && { ...older, data: [...page.data, ...older.data] }));
  useEffect(() => {
    const timer = setTimeout(read, page ? SETTLE_MS : 0);
    return () => clearTimeout(timer);
  }, [filter]);
  useEffect(() => {
    if (!page) return undefined;
    const timer = setTimeout(() => void ask("counts", `limit=1&${query()}`, () => undefined), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [changed]);
  return { page, counts, problem, read, more };
}

function Filters({ filter, counts, set }: { filter: RunFilter; counts: Record<string, number>; set: (change: Partial<RunFilter>) => void }): JSX.Element {
  const live = useStore(runs);
  const names = useStore(titles);
  const all = Object.values(counts).reduce((a, b) => a + b, 0);
  const same = (name: string): [string, string] => [name, name];
  const models = [...new Set(live.map((run) => run.model))].map(same);
  const tools = [...new Set(live.flatMap((run) => run.tools ?? []))].sort().map(same);
  const chats = threadsOf(live).map((thread): [string, string] => [thread.id, (names[thread.id] ?? thread.id).slice(0, 60)]);
  return (
    <div class="filters" role="group" aria-label="Filters">
      <div class="fil-row">
        {STATES.filter(([status]) => !RARE.has(status) || filter.status === status || (counts[status] ?? 0) > 0).map(([status, label]) => (
          <button type="button" class="fil" aria-pressed={filter.status === status} onClick={() => set({ status })}>
            {status ? (
              <span class="st" data-st={lineState({ status }).look}>
                <LookIcon look={lineState({ status }).look} />
              </span>
            ) : null}
            {label} <span class="num dim">{status ? (counts[status] ?? 0) : all}</span>
          </button>
        ))}
      </div>
      <div class="fil-row">
        <Pick label="Tool" value={filter.tool} options={[["", "any"], ...tools]} onPick={(tool) => set({ tool })} />
        <Pick label="Model" value={filter.model} options={[["", "any"], ...models]} onPick={(model) => set({ model })} />
        <Pick label="Chat" value={filter.conversation} options={[["", "any"], ...chats]} onPick={(conversation) => set({ conversation })} />
        <Pick label="Time" value={String(filter.withinSec)} options={TIMES} onPick={(seconds) => set({ withinSec: Number(seconds) })} />
        <label class="fil">
          <Icon name="search" />
          <span class="sr">Text in the message</span>
          <input type="search" placeholder="Text" value={filter.text} onInput={(event) => set({ text: event.currentTarget.value })} />
        </label>
      </div>
    </div>
  );
}

function Pick({ label, value, options, onPick }: { label: string; value: string; options: [string, string][]; onPick: (value: string) => void }): JSX.Element {
  // What the address asks for can be chosen even if no run in the list has it.
  const all = options.some(([one]) => one === value) ? options : [...options, [value, value]];
  return (
    <label class="fil">
      {label}
      <select aria-label={label} value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        {all.map(([one, name]) => (
          <option value={one}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function Row({ run }: { run: RunLine }): JSX.Element {
  const names = useStore(titles);
  const isOpen = !run.ended_at && (run.status === "active" || run.status === "needs_input" || run.status === "stalled");
  const now = useNow(true, isOpen ? 1000 : 30_000);
  const { look, word } = lineState(run);
  const title = run.title || names[run.conversation_id ?? ""] || runName(run.run_id);
  const tools = run.tools ?? [];
  const more = run.stalled ? `waits for ${run.stalled}` : tools.length > 0 ? tools.slice(0, 4).join(", ") : "no tools";
  const ms = run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.created_at) : isOpen ? now - Date.parse(run.created_at) : undefined;
  return (
    <li class="rr" data-st={look}>
      <State look={look} word={word} />
      <span class="what">
        <a class="cut" href={to.run(run.run_id)}>
          {title}
        </a>
        <span class="cut dim">{more}</span>
      </span>
      <span class="hide-m">
        <span class="sr">{plural(run.n_calls ?? 0, "call")}</span>
        <StepBar run={run} now={now} />
      </span>
      <span class="hide-m cut">{run.model}</span>
      <span class="right num dur">{ms === undefined ? "" : duration(ms)}</span>
      {run.status === "needs_input" ? (
        <button type="button" class="btn primary sm" onClick={() => go(run.conversation_id ? to.chat(run.conversation_id) : to.run(run.run_id))}>
          Answer
        </button>
      ) : (
        <span class="right num dim hide-p">{ago(now - Date.parse(run.created_at))}</span>
      )}
    </li>
  );
}
