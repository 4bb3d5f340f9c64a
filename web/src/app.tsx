/** The frame of the page: the rail, the page in it, and what lies over both. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lineState } from "./model/words";
import { ChatPage } from "./pages/chat";
import { FilesPage } from "./pages/files";
import { KeyPrompt } from "./pages/key";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { ServersPage } from "./pages/servers";
import { SharedPage } from "./pages/shared";
import { type Route, go, route, to } from "./router";
import { alerts, polite } from "./server/announcer";
import { keyNeeded, line } from "./server/api";
import { unseen, watchEnds } from "./server/away";
import { chatOf, uidOf, unnamed, watchChats } from "./server/chats";
import { useStore } from "./server/store";
import { type Thread, hasOlder, learnTitle, listed, readOlder, runs, searchThreads, titles, useThreads, watchRuns } from "./server/threads";
import { IconButton } from "./ui/controls";
import { Icon, Mark, State } from "./ui/icons";
import { useEscapeFromFields, useKey } from "./ui/keys";
import { KeySheet, Palette, Settings, nextTheme, useTheme } from "./ui/overlays";
import { railOpen } from "./ui/top_bar";

export function App(): JSX.Element {
  const here = useStore(route);
  const key = useStore(keyNeeded);
  const [over, setOver] = useState<"none" | "keys" | "palette" | "settings">("none");
  useTheme();
  const isShared = here.page === "shared";
  useEffect(() => {
    if (isShared) return;
    watchEnds();
    watchRuns();
    watchChats();
  }, [isShared]);
  useEffect(() => railOpen.set(false), [here]);
  useEscapeFromFields(() => railOpen.set(false));
  useKey("?", () => setOver("keys"));
  useKey("ctrl+k", (event) => {
    event.preventDefault();
    setOver(over === "palette" ? "none" : "palette");
  });
  useKey("n", () => go(to.chat()), !isShared);
  const close = () => setOver("none");
  if (isShared) {
    return (
      <div class="app alone">
        <div class="stage">
          <SharedPage token={here.token} />
        </div>
        <Announcer />
      </div>
    );
  }
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the page
      </a>
      <Rail here={here} onOver={setOver} />
      <div class="stage">
        {key === "no" ? <Page here={here} /> : <KeyPrompt wrong={key === "wrong"} />}
      </div>
      {over === "keys" ? <KeySheet onClose={close} /> : null}
      {over === "palette" ? <Palette onClose={close} onOver={setOver} /> : null}
      {over === "settings" ? <Settings onClose={close} /> : null}
      <Announcer />
    </div>
  );
}

function Page({ here }: { here: Route }): JSX.Element {
  switch (here.page) {
    case "runs":
      return <RunsPage query={here.query} />;
    case "run":
      return <RunPage key={here.runId} runId={here.runId} call={here.call} />;
    case "servers":
      return <ServersPage />;
    case "files":
      return <FilesPage />;
    case "chat":
      return <ChatPage key={uidOf(here.chat)} id={here.chat} />;
    default:
      return <ChatPage key={uidOf("new")} id="new" />;
  }
}

/** Screen readers hear the boundaries of a run here, and nothing else. */
function Announcer(): JSX.Element {
  return (
    <>
      <div class="sr" role="status" aria-live="polite">
        {useStore(polite)}
      </div>
      <div class="sr" role="alert">
        {useStore(alerts)}
      </div>
    </>
  );
}

function Rail({ here, onOver }: { here: Route; onOver: (what: "keys" | "palette" | "settings") => void }): JSX.Element {
  const open = useStore(railOpen);
  const [search, setSearch] = useState("");
  const list = useStore(runs);
  const { state } = useStore(line);
  const theme = useTheme();
  const needsInput = list.filter((run) => run.status === "needs_input").length;
  useKey("/", (event) => {
    event.preventDefault();
    railOpen.set(true);
    document.getElementById("thread-search")?.focus();
  });
  useKey("Escape", () => railOpen.set(false), open);
  const page = here.page === "run" ? "runs" : here.page;
  const item = (name: string, address: string, icon: string, label: string, n = 0) => (
    <a class="navi" href={address} aria-current={page === name ? "page" : undefined}>
      <Icon name={icon} />
      <span class="grow">{label}</span>
      {n > 0 ? <span class="badge num" role="img" aria-label={`${n} ${n === 1 ? "needs" : "need"} input`}>{n}</span> : null}
    </a>
  );
  return (
    <>
      {open ? <div class="veil" onClick={() => railOpen.set(false)} /> : null}
      <nav class={`rail ${open ? "open" : ""}`} aria-label="Turnwire">
        <header class="brand">
          <Mark />
          <strong class="grow">Turnwire</strong>
          <IconButton name="search" label="Go anywhere" onClick={() => onOver("palette")} />
          <a class="btn quiet icon" href={to.chat()} aria-label="New chat" title="New chat">
            <Icon name="pen" />
          </a>
        </header>
        <div class="navis">
          {item("chat", to.chat(), "chat", "Chat")}
          {item("runs", to.runs, "runs", "Runs", needsInput)}
          {item("servers", to.servers, "server", "Servers")}
          {item("files", to.files, "file", "Files")}
        </div>
        <div class="search">
          <Icon name="search" />
          <input id="thread-search" type="search" placeholder="Search chats" aria-label="Search chats" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </div>
        <Threads search={search} current={here.page === "chat" ? here.chat : undefined} />
        <footer class="rail-foot">
          <span class={`lamp ${state === "lost" ? "off" : ""}`}>{state === "lost" ? "reconnecting" : "live"}</span>
          <span class="grow" />
          <IconButton name="keyboard" label="Keys" onClick={() => onOver("keys")} />
          <IconButton name={theme === "dark" ? "sun" : "moon"} label="Change the theme" onClick={nextTheme} />
          <IconButton name="gear" label="Settings" onClick={() => onOver("settings")} />
        </footer>
      </nav>
    </>
  );
}

function Threads({ search, current }: { search: string; current: string | undefined }): JSX.Element {
  const names = useStore(titles);
  const isListed = useStore(listed);
  const isMore = useStore(hasOlder);
  const fresh = useStore(unseen);
  const threads = useThreads();
  const wanted = search.trim().toLowerCase();
  const matches = useMatches(wanted);
  const nameOf = (thread: Thread) => names[thread.id] ?? thread.runs[0]?.title ?? "Chat";
  const shown = threads.filter((thread) => nameOf(thread).toLowerCase().includes(wanted) || matches.has(thread.id));
  useEffect(() => shown.forEach(learnTitle), [shown.map((thread) => thread.id).join()]);
  useEffect(() => {
    if (isListed && threads.length < FEW_CHATS) void readOlder(FIRST_PAGES).catch(() => undefined);
  }, [isListed]);
  const days = byDay(shown);
  return (
    <div class="threads">
      <Unnamed current={current} />
      {[...days].map(([day, of]) => (
        <section>
          <h2>{day}</h2>
          <ul>
            {of.map((thread) => {
              const last = thread.runs.at(-1);
              const state = last && lineState(last);
              const isLoud = state && state.look !== "done" && state.look !== "stopped";
              return (
                <li key={thread.id}>
                  <a class="thread" href={to.chat(thread.id)} aria-current={thread.id === current ? "page" : undefined}>
                    <span class="cut grow">{nameOf(thread)}</span>
                    {isLoud ? <State look={state.look} word={state.word} /> : null}
                    {thread.runs.some((run) => fresh.has(run.run_id)) ? <span class="fresh" role="img" aria-label="finished while you were away" /> : null}
                  </a>
                </li>
              );
            })}
          </ul>
        </section>
      ))}
      {isMore && !wanted ? (
        <button type="button" class="btn quiet sm" onClick={() => void readOlder().catch(() => undefined)}>
          Older chats
        </button>
      ) : null}
      {isListed && shown.length === 0 ? <p class="dim none">{wanted ? "No chat has this name." : "No chats yet."}</p> : null}
    </div>
  );
}

/** With fewer chats among the newest runs, older ones are looked for at once, in so many pages of runs. */
const FEW_CHATS = 20;
const FIRST_PAGES = 3;
const TYPING_MS = 250;

/** The chats in which a message has the text, as the server knows. */
function useMatches(text: string): ReadonlySet<string> {
  const [matches, setMatches] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    setMatches(new Set());
    if (text.length < 2) return undefined;
    let isWanted = true;
    const search = () => void searchThreads(text).then((ids) => isWanted && setMatches(ids), () => undefined);
    const timer = setTimeout(search, TYPING_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [text]);
  return matches;
}

/** New chats whose first message the server does not have yet. */
function Unnamed({ current }: { current: string | undefined }): JSX.Element | null {
  const ids = useStore(unnamed);
  if (ids.length === 0) return null;
  return (
    <section>
      <h2>Not sent yet</h2>
      <ul>
        {ids.map((id) => {
          const { sending, draft, files } = chatOf(id).value;
          return (
            <li key={id}>
              <a class="thread" href={to.chat(id)} aria-current={id === current ? "page" : undefined}>
                <span class="cut grow">{sending?.text || draft || files[0]?.name || "Chat"}</span>
                {sending ? <State look="running" word="sending" /> : null}
              </a>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function byDay(threads: readonly Thread[]): Map<string, Thread[]> {
  const days = new Map<string, Thread[]>();
  for (const thread of threads) days.set(dayOf(thread.at), [...(days.get(dayOf(thread.at)) ?? []), thread]);
  return days;
}

function dayOf(at: string): string {
  const days = Math.floor((startOfDay(new Date()) - startOfDay(new Date(at))) / 86_400_000 + 0.5);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "Last week" : "Earlier";
}

function startOfDay(date: Date): number {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}
