/** All runs: what needs the person first, then the rest, filtered and live. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ago, duration, lineState, plural } from "../model/words";
import { go, to } from "../router";
import { request, sentence } from "../server/api";
import { useStore } from "../server/store";
import { type RunLine, type RunPage as Page, runs, titles } from "../server/threads";
import { Empty, Problem, useNow } from "../ui/controls";
import { Icon, LookIcon, State } from "../ui/icons";
import { TopBar } from "../ui/top_bar";

const STATES: [string, string][] = [
  ["", "All"],
  ["needs_input", "Needs you"],
  ["active", "Running"],
  ["completed", "Done"],
  ["failed", "Failed"],
  ["cancelled", "Stopped"],
  ["incomplete", "Incomplete"],
];
const TIMES: [string, number][] = [
  ["any time", 0],
  ["last hour", 3600e3],
  ["today", 86_400e3],
  ["last week", 7 * 86_400e3],
];

interface Filter {
  status: string;
  model: string;
  tool: string;
  text: string;
  withinMs: number;
}

export function RunsPage(): JSX.Element {
  const live = useStore(runs);
  const [filter, setFilter] = useState<Filter>({ status: "", model: "", tool: "", text: "", withinMs: 0 });
  const [page, setPage] = useState<Page | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [shownIds, setShownIds] = useState<ReadonlySet<string>>(new Set());
  const set = (change: Partial<Filter>) => setFilter({ ...filter, ...change });
  useEffect(() => {
    let isCurrent = true;
    const read = () =>
      request<Page>(`/v1/runs?${queryOf(filter)}`)
        // A server that does not know the filters answers the plain list, which is filtered here.
        .catch(() => request<Page>("/v1/runs?limit=100"))
        .then((answer) => {
          if (!isCurrent) return;
          setPage(answer);
          setShownIds(new Set(answer.data.map((run) => run.run_id)));
        })
        .catch((error: unknown) => isCurrent && setProblem(sentence(error)));
    void read();
    return () => {
      isCurrent = false;
    };
  }, [filter]);
  const byId = useMemo(() => new Map(live.map((run) => [run.run_id, run])), [live]);
  const fresh = (page?.data ?? []).map((run) => ({ ...run, ...byId.get(run.run_id) }));
  const matching = fresh.filter((run) => fits(run, filter));
  const newer = page ? live.filter((run) => !shownIds.has(run.run_id) && fits(run, filter) && run.created_at > (page.data[0]?.created_at ?? "")) : [];
  const counts = page?.counts ?? countsOf(live);
  const needs = matching.filter((run) => run.status === "needs_input");
  const rest = matching.filter((run) => run.status !== "needs_input");
  const models = [...new Set(live.map((run) => run.model))];
  const tools = [...new Set(live.flatMap((run) => run.tools ?? []))];
  return (
    <main class="main scrolls" id="main" tabIndex={-1}>
      <TopBar title="Runs" />
      <div class="page">
        <div class="filters" role="group" aria-label="Filters">
          {STATES.map(([status, label]) => (
            <button type="button" class="fil" aria-pressed={filter.status === status} onClick={() => set({ status })}>
              {status ? <LookIcon look={lineState({ status }).look} /> : null}
              {label} <span class="num dim">{status ? (counts[status] ?? 0) : Object.values(counts).reduce((a, b) => a + b, 0)}</span>
            </button>
          ))}
          <span class="grow" />
          <Pick label="Tool" value={filter.tool} options={tools} onPick={(tool) => set({ tool })} />
          <Pick label="Model" value={filter.model} options={models} onPick={(model) => set({ model })} />
          <label class="fil">
            Time
            <select value={String(filter.withinMs)} onChange={(event) => set({ withinMs: Number(event.currentTarget.value) })}>
              {TIMES.map(([label, ms]) => (
                <option value={String(ms)}>{label}</option>
              ))}
            </select>
          </label>
          <label class="fil">
            <Icon name="search" />
            <span class="sr">Text in the message</span>
            <input type="search" placeholder="Text" value={filter.text} onInput={(event) => set({ text: event.currentTarget.value })} />
          </label>
        </div>
        <Problem text={problem} />
        {needs.length > 0 ? (
          <ul class="rows needs" aria-label="Needs you">
            {needs.map((run) => (
              <Row key={run.run_id} run={run} />
            ))}
          </ul>
        ) : null}
        {page && matching.length === 0 && newer.length === 0 ? <Empty title={live.length === 0 ? "No runs yet" : "No run fits these filters"} /> : null}
        {rest.length > 0 || newer.length > 0 ? (
          <div class="rows-box">
            <div class="rh" aria-hidden="true">
              <span>State</span>
              <span>Run</span>
              <span class="hide-m">Tools</span>
              <span class="hide-m">Model</span>
              <span class="right">Duration</span>
              <span class="right">Started</span>
            </div>
            {newer.length > 0 ? (
              <button type="button" class="newrows" onClick={() => setFilter({ ...filter })}>
                <Icon name="up" />
                {plural(newer.length, "new run")}
              </button>
            ) : null}
            <ul class="rows" aria-label="Runs">
              {rest.map((run) => (
                <Row key={run.run_id} run={run} />
              ))}
            </ul>
          </div>
        ) : null}
      </div>
    </main>
  );
}

function Pick({ label, value, options, onPick }: { label: string; value: string; options: string[]; onPick: (value: string) => void }): JSX.Element {
  return (
    <label class="fil">
      {label}
      <select value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        <option value="">any</option>
        {options.map((option) => (
          <option value={option}>{option}</option>
        ))}
      </select>
    </label>
  );
}

function Row({ run }: { run: RunLine }): JSX.Element {
  const names = useStore(titles);
  const isOpen = run.status === "active" || run.status === "needs_input" || run.status === "stalled";
  const now = useNow(true, isOpen ? 1000 : 30_000);
  const { look, word } = lineState(run);
  const title = run.title ?? names[run.conversation_id ?? ""] ?? run.run_id;
  const tools = run.tools ?? [];
  const more = run.stalled ? `stalled: ${run.stalled}` : tools.length > 0 ? tools.slice(0, 4).join(", ") : run.run_id;
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
      <span class="hide-m num">{run.n_calls === undefined ? "" : plural(run.n_calls, "call")}</span>
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

function queryOf(filter: Filter): string {
  const query = new URLSearchParams({ limit: "100" });
  if (filter.status) query.set("status", filter.status);
  if (filter.model) query.set("model", filter.model);
  if (filter.tool) query.set("tool", filter.tool);
  if (filter.text.trim()) query.set("q", filter.text.trim());
  if (filter.withinMs) query.set("created_after", new Date(Date.now() - filter.withinMs).toISOString());
  return query.toString();
}

function fits(run: RunLine, filter: Filter): boolean {
  const isNew = !filter.withinMs || Date.parse(run.created_at) >= Date.now() - filter.withinMs;
  const hasText = !filter.text || run.title === undefined || run.title.toLowerCase().includes(filter.text.trim().toLowerCase());
  const hasTool = !filter.tool || run.tools === undefined || run.tools.includes(filter.tool);
  return isNew && hasText && hasTool && (!filter.status || run.status === filter.status) && (!filter.model || run.model === filter.model);
}

function countsOf(list: readonly RunLine[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const run of list) counts[run.status] = (counts[run.status] ?? 0) + 1;
  return counts;
}
