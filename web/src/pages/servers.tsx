/** The MCP servers: how they are, which tools they have, and a way to try one. */

import type { LeftOut, ToolClaims } from "turnwire";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { exact } from "../model/invisible";
import { leftOutWords } from "../model/left_out";
import { draftOf, fieldsOf, readDraft } from "../model/schema_form";
import { type ServerCalls, barsOf, share, slownessOf, took, windowOf, wordsOfBars } from "../model/server_calls";
import { type Look, clock, count, duration, plural } from "../model/words";
import { go, to } from "../router";
import { request, sentence } from "../server/api";
import { serverNow } from "../server/clock";
import { Empty, Problem } from "../ui/controls";
import { SchemaForm } from "../ui/form";
import { Icon, State } from "../ui/icons";
import { Claims } from "../ui/tool_card";
import { TopBar } from "../ui/top_bar";

interface ServerTool {
  name: string;
  title: string | null;
  description: string;
  input_schema: Record<string, unknown>;
  effect: string;
  requires_approval: boolean;
  claims: ToolClaims;
  changed: boolean;
  p50_ms: number | null;
}

interface ToolServer {
  name: string;
  transport: string;
  /** Only for those who administer. */
  address: string | null;
  state: string;
  latency_ms: number | null;
  last_error: { message: string; at: string } | null;
  calls: ServerCalls;
  tools: ServerTool[];
  left_out?: LeftOut;
}

const STATES: Record<string, [Look, string]> = {
  connected: ["done", "connected"],
  connecting: ["running", "connecting"],
  failed: ["failed", "failing"],
  login_required: ["approval", "login required"],
};
/** A server that connects is asked for soon. */
const POLL_MS = { connecting: 700, otherwise: 5000 };

/** The state of a server: of its connection, or that it is slow. */
function stateOf(server: ToolServer): [Look, string] {
  if (server.state === "connected" && slownessOf(server.calls, serverNow())) return ["timeout", "slow"];
  return STATES[server.state] ?? ["unknown", server.state];
}

function ServerStateWord({ server, pill = false }: { server: ToolServer; pill?: boolean }): JSX.Element {
  const [look, word] = stateOf(server);
  return <State look={look} word={word} {...(pill ? { class: "pill" } : {})} />;
}

export function ServersPage(): JSX.Element {
  const { servers, problem, read } = useServers();
  const [name, setName] = useState<string | undefined>(undefined);
  const chosen = servers?.find((one) => one.name === name) ?? servers?.[0];
  return (
    <main class="main scrolls" id="main" tabIndex={-1}>
      <TopBar title="MCP servers">
        <button type="button" class="btn" aria-label="Check all" onClick={() => void read()}>
          <Icon name="retry" />
          <span class="txt">Check all</span>
        </button>
      </TopBar>
      <div class="page">
        <Problem text={problem} />
        {servers?.length === 0 ? (
          <Empty title="No MCP servers">
            <p class="dim">Add one to the settings of the gateway, under [mcp_servers.NAME].</p>
          </Empty>
        ) : null}
        {servers && servers.length > 0 && chosen ? (
          <div class="two">
            <ul class="cards-list" aria-label="Servers">
              {servers.map((server) => (
                <li key={server.name}>
                  <button type="button" class="srv" aria-pressed={server.name === chosen.name} onClick={() => setName(server.name)}>
                    <span class="srv-ic">
                      <Icon name={server.transport === "http" ? "wifi" : "server"} />
                    </span>
                    <span class="what">
                      <b class="cut">{server.name}</b>
                      <span class="dim cut">{`${addressOf(server)} · ${plural(server.tools.length, "tool")}`}</span>
                    </span>
                    <ServerStateWord server={server} />
                  </button>
                </li>
              ))}
            </ul>
            <ServerDetails key={chosen.name} server={chosen} />
          </div>
        ) : null}
      </div>
    </main>
  );
}

/** The servers, asked for again for as long as the page is shown. */
function useServers(): { servers: ToolServer[] | undefined; problem: string; read: () => Promise<ToolServer[]> } {
  const [servers, setServers] = useState<ToolServer[] | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const read = async () => {
    try {
      const { data } = await request<{ data: ToolServer[] }>("/v1/mcp_servers");
      setServers(data);
      setProblem("");
      return data;
    } catch (error) {
      setProblem(sentence(error));
      return [];
    }
  };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOn = true;
    const again = async () => {
      const data = await read();
      const soon = data.some((server) => server.state === "connecting");
      if (isOn) timer = setTimeout(() => void again(), soon ? POLL_MS.connecting : POLL_MS.otherwise);
    };
    void again();
    return () => {
      isOn = false;
      clearTimeout(timer);
    };
  }, []);
  return { servers, problem, read };
}

/** The end of a long command says more than its beginning. */
function addressOf({ transport, address }: ToolServer): string {
  if (address === null) return transport === "stdio" ? "a program" : "over HTTP";
  return transport === "stdio" ? (address.split("/").at(-1) ?? address) : address;
}

function ServerDetails({ server }: { server: ToolServer }): JSX.Element {
  const [trying, setTrying] = useState<string | undefined>(undefined);
  return (
    <section class="panel" aria-label={server.name}>
      <header class="panel-h">
        <h2>{server.name}</h2>
        <ServerStateWord server={server} pill />
        <span class="dim cut mono" title={server.address ?? undefined}>
          {server.address}
        </span>
        <span class="grow" />
        <span class="num dim latency">{server.latency_ms === null ? "" : `answers in ${server.latency_ms} ms`}</span>
      </header>
      <Slow calls={server.calls} />
      {server.last_error ? (
        <p class="alert" data-st="failed">
          <Icon name="warn" />
          <span>
            <b>{`Last error at ${clock(server.last_error.at)}.`}</b> {exact(server.last_error.message)}
          </span>
        </p>
      ) : null}
      <Statistics calls={server.calls} />
      {server.tools
        .filter((one) => one.changed)
        .map((one) => (
          <p class="alert" data-st="approval">
            <Icon name="warn" />
            <span>
              <b>{`The definition of ${exact(one.name)} changed.`}</b> Each call asks first until a person allows one.
            </span>
          </p>
        ))}
      {server.tools.length === 0 ? (
        <p class="none dim">{server.state === "connected" ? "The server has no tools." : "Its tools are known once it is connected."}</p>
      ) : (
        <div class="th" aria-hidden="true">
          <span>Tool</span>
          <span>Effect</span>
          <span>Approval</span>
          <span>Median</span>
          <span />
        </div>
      )}
      <ul class="tools" aria-label="Tools">
        {server.tools.map((one) => (
          <li class="trow" key={one.name}>
            <span class="what">
              <code class="cut">{exact(one.name)}</code>
              <span class="dim">{exact(one.title ?? one.description)}</span>
              <span class="chips">
                <Claims claims={one.claims} />
              </span>
            </span>
            <span class="eff">
              <span class="chip flat">{one.effect}</span>
            </span>
            <span class="m dim">{one.requires_approval || one.changed ? "asks first" : "runs at once"}</span>
            <span class="m dim num">{took(one.p50_ms)}</span>
            <button type="button" class="btn sm" aria-label={`Try ${exact(one.name)}`} aria-expanded={trying === one.name} onClick={() => setTrying(trying === one.name ? undefined : one.name)}>
              Try
            </button>
            {trying === one.name ? <Try server={server.name} tool={one} /> : null}
          </li>
        ))}
      </ul>
      {server.left_out ? <p class="none dim">{leftOutWords(server.name, server.left_out)}</p> : null}
    </section>
  );
}

function Slow({ calls }: { calls: ServerCalls }): JSX.Element | null {
  const slow = slownessOf(calls, serverNow());
  if (!slow) return null;
  return (
    <p class="alert" data-st="timeout">
      <Icon name="clock" />
      <span>
        <b>{`Calls take ${duration(slow.ms)}, usually ${took(slow.usualMs)}.`}</b> {`Since ${clock(slow.since)}.`}
      </span>
    </p>
  );
}

/** How the calls of the last day went. */
function Statistics({ calls }: { calls: ServerCalls }): JSX.Element {
  const bars = barsOf(calls, serverNow());
  const facts: [string, string, string][] = [
    [`Calls ${windowOf(calls, serverNow())}`, count(calls.total), ""],
    ["Failed", count(calls.failed), share(calls.failed, calls.total)],
    ["Median", took(calls.p50_ms) || "–", ""],
    ["Slowest 5 %", took(calls.p95_ms) || "–", ""],
  ];
  return (
    <>
      <dl class="stats">
        {facts.map(([name, value, more]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="num">
              {value} {more ? <small>{more}</small> : null}
            </dd>
          </div>
        ))}
      </dl>
      {calls.total > 0 ? (
        <figure class="day">
          <svg role="img" aria-label={wordsOfBars(bars, calls)} viewBox="0 0 480 28" preserveAspectRatio="none">
            {bars.map((bar, n) => {
              const height = bar.look === "none" ? 2 : 5 + 23 * bar.height;
              return <rect key={bar.start} class={bar.look} x={n * 10} width={7.5} y={28 - height} height={height} />;
            })}
          </svg>
          <figcaption class="dim">
            <span>24 hours ago</span>
            <span>now</span>
          </figcaption>
        </figure>
      ) : null}
    </>
  );
}

/** Runs one tool for real, as a run of its own, with the approvals that it has. */
function Try({ server, tool }: { server: string; tool: ServerTool }): JSX.Element {
  const fields = useMemo(() => fieldsOf(tool.input_schema), [tool]);
  const [draft, setDraft] = useState(() => draftOf(fields, tool.input_schema));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState("");
  const run = async (event: Event) => {
    event.preventDefault();
    const read = readDraft(fields, draft);
    setProblems(read.problems);
    if (Object.keys(read.problems).length > 0) return;
    try {
      const path = `/v1/mcp_servers/${encodeURIComponent(server)}/tools/${encodeURIComponent(tool.name)}/try`;
      const { run_id: runId } = await request<{ run_id: string }>(path, { body: { arguments: read.values } });
      go(to.run(runId));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <form class="try" onSubmit={(event) => void run(event)}>
      <h3>
        Try <code>{exact(`${server}/${tool.name}`)}</code>
      </h3>
      {fields.length === 0 ? <p class="dim">It takes no arguments.</p> : null}
      <SchemaForm fields={fields} draft={draft} problems={problems} onChange={(next) => (setDraft(next), setProblems({}))} idPrefix={`try-${tool.name}`} />
      <Problem text={problem} />
      <p class="acts">
        <button type="submit" class="btn primary">
          <Icon name="play" />
          Run tool
        </button>
        <span class="dim">{tool.requires_approval || tool.changed ? "Runs for real, as a run of its own, once you approve it there." : "Runs for real, as a run of its own."}</span>
      </p>
    </form>
  );
}
