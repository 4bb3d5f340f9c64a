/** The chat: the runs of one conversation, what waits for the person, and the composer. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { waitsForPerson } from "../model/calls";
import { toolTitle } from "../model/run";
import { questionText, titleOf } from "../model/words";
import { go, replace, route, to } from "../router";
import { request, sentence } from "../server/api";
import { choiceOf, moveChoice } from "../server/choices";
import { type Attachment, itemsOf, questionFromEnd, startRun, stopRun } from "../server/commands";
import { type RunFeed, feedOf, useFeeds } from "../server/run_feed";
import { Store, useStore } from "../server/store";
import { type RunLine, type RunPage, noteRun, runs, setTitle, titles } from "../server/threads";
import { Composer } from "../ui/composer";
import { Icon } from "../ui/icons";
import { Dock, type Waiting } from "../ui/dock";
import { useKey } from "../ui/keys";
import { Picker } from "../ui/picker";
import { Scroller } from "../ui/scroller";
import { ShareButton } from "../ui/share";
import { TopBar } from "../ui/top_bar";
import { useLost } from "../ui/use_lost";
import { RunTranscript, Sending, SendingStatus, Status } from "../ui/transcript";
import { ThreadMenu } from "../ui/thread_menu";
import { Problem } from "../ui/controls";

const DRAFT = "turnwire.draft.";
const SHOWN_RUNS = 12;

export function ChatPage({ conversationId }: { conversationId: string | undefined }): JSX.Element {
  const list = useStore(runs);
  const [known, setKnown] = useState<RunLine[]>([]);
  const [shown, setShown] = useState(SHOWN_RUNS);
  const [replaced, setReplaced] = useState<ReadonlySet<string>>(new Set());
  const [sending, setSending] = useState("");
  const [problem, setProblem] = useState("");
  const isLost = useLost();
  useEffect(() => {
    setKnown([]);
    setShown(SHOWN_RUNS);
    if (conversationId) void readThread(conversationId).then(setKnown, () => undefined);
  }, [conversationId]);
  const thread = useMemo(() => linesOf(list, known, conversationId), [list, known, conversationId]);
  const feeds = thread.slice(-shown).map((run) => feedOf(run.run_id));
  useFeeds(feeds);
  useReplaced(conversationId, feeds, setReplaced);
  const visible = feeds.filter((feed) => !replaced.has(feed.runId));
  const last = visible.at(-1);
  const active = last && !last.state.value.view.outcome && !last.state.value.error ? last : undefined;
  const waiting = visible.flatMap(waitingIn);

  const send = async (text: string, files: readonly Attachment[] = [], replaces?: string) => {
    setSending(text || files.map((file) => file.name).join(", "));
    setProblem("");
    try {
      const started = await startRun({ text, files, conversationId, choice: choiceOf(conversationId).value, replaces });
      if (!conversationId && started.conversationId) {
        moveChoice(started.conversationId);
        setTitle(started.conversationId, text.slice(0, 120));
        if (route.value.page === "chat") replace(to.chat(started.conversationId));
      }
    } catch (error) {
      setProblem(sentence(error));
      drafts(conversationId).set(text);
      return false;
    } finally {
      setSending("");
    }
    return true;
  };
  /** Asks again, in place of this run and everything after it. */
  const again = async (feed: RunFeed, text: string) => {
    if (!conversationId) return;
    const from = visible.indexOf(feed);
    const n = visible.slice(from).filter((one) => one.state.value.view.input.length > 0).length;
    setReplaced(new Set([...replaced, ...visible.slice(from).map((one) => one.runId)]));
    try {
      const isSent = await send(text, [], await questionFromEnd(conversationId, n));
      if (!isSent) setReplaced(replaced);
    } catch (error) {
      setProblem(sentence(error));
      setReplaced(replaced);
    }
  };
  const first = visible[0]?.state.value.view;
  const title = useStore(titles)[conversationId ?? ""] ?? (first && first.input.length > 0 ? titleOf(first) : undefined);
  const lastRun = last?.runId;
  useKey("t", () => lastRun && go(to.run(lastRun)), lastRun !== undefined);
  return (
    <main class="main chat" id="main" tabIndex={-1}>
      <TopBar title={conversationId ? (title ?? "Chat") : "New chat"} menu={conversationId ? <ThreadMenu id={conversationId} /> : null}>
        {last ? (
          <>
            <a class="btn quiet" href={to.run(last.runId)} aria-label="Timeline">
              <Icon name="runs" />
              <span class="txt">Timeline</span>
            </a>
            <ShareButton key={last.runId} runId={last.runId} isQuiet />
          </>
        ) : null}
      </TopBar>
      {!conversationId && !sending ? (
        <Welcome onPick={(text) => void send(text)} />
      ) : (
        <Scroller key={conversationId} isLive={active !== undefined}>
          {thread.length > shown ? (
            <button type="button" class="btn quiet" onClick={() => setShown(shown + SHOWN_RUNS)}>
              {`Show ${thread.length - shown} earlier`}
            </button>
          ) : null}
          {visible.map((feed) => (
            <OneRun
              key={feed.runId}
              feed={feed}
              isLost={isLost}
              isLast={feed === last}
              onEdit={active ? undefined : (text) => setEditing({ feed, text })}
              onRetry={active ? undefined : () => void again(feed, questionText(feed.state.value.view))}
            />
          ))}
          {sending && !active ? <Sending text={sending} /> : null}
        </Scroller>
      )}
      <Bottom
        conversationId={conversationId}
        active={active}
        waiting={waiting}
        isLost={isLost}
        problem={problem}
        isSending={sending !== ""}
        onSend={(text, files) => void send(text, files)}
        editing={editing.value}
        onEdited={(feed, text) => void again(feed, text)}
      />
    </main>
  );
}

interface Editing {
  feed: RunFeed;
  text: string;
}

/** The message that the person changes, in place of a new one. */
const editing = new Store<Editing | undefined>(undefined);

function setEditing(value: Editing | undefined): void {
  editing.set(value);
}

function OneRun(props: { feed: RunFeed; isLost: boolean; isLast: boolean; onEdit?: ((text: string) => void) | undefined; onRetry?: (() => void) | undefined }): JSX.Element {
  const { feed } = props;
  const state = useStore(feed.state);
  if (state.error) return <p class="nothing">{`Run ${feed.runId} cannot be shown: ${state.error.message}`}</p>;
  return <RunTranscript {...props} state={state} readOnly={false} onNewRun={followNew} />;
}

/** The same function each time, so that cards that did not change are not drawn. */
function followNew(runId: string): void {
  feedOf(runId);
}

function waitingIn(feed: RunFeed): Waiting[] {
  const { view } = feed.state.value;
  const open = Object.values(view.calls).filter(waitsForPerson);
  return open.map((call) => ({ feed, call, effect: view.effects[toolTitle(call.tool.server, call.tool.name)] }));
}

interface BottomProps {
  conversationId: string | undefined;
  active: RunFeed | undefined;
  waiting: Waiting[];
  isLost: boolean;
  problem: string;
  isSending: boolean;
  onSend: (text: string, files: readonly Attachment[]) => void;
  editing: Editing | undefined;
  onEdited: (feed: RunFeed, text: string) => void;
}

function Bottom(props: BottomProps): JSX.Element {
  const { conversationId, active, waiting, isLost, onSend } = props;
  const draft = useStore(drafts(conversationId));
  const edited = useStore(editing);
  const [queued, setQueued] = useState("");
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const pending = active?.state.value.pending["run"];
  const isBusy = active !== undefined || props.isSending;
  useEffect(() => {
    if (edited) drafts(conversationId).set(edited.text);
    document.getElementById("composer")?.focus();
  }, [edited]);
  // What was written while the run worked is sent when it is over.
  useEffect(() => {
    if (isBusy || queued === "") return;
    setQueued("");
    onSend(queued, []);
  }, [isBusy, queued]);
  const submit = () => {
    const text = draft.trim();
    if (text === "" && files.length === 0) return;
    // Files wait for the end of the run in the composer.
    if (isBusy && files.length > 0) return;
    drafts(conversationId).set("");
    if (edited) {
      setEditing(undefined);
      props.onEdited(edited.feed, text);
    } else if (isBusy) setQueued(queued ? `${queued}\n\n${text}` : text);
    else {
      setFiles([]);
      onSend(text, files);
    }
  };
  const stop = () => {
    if (active) void stopRun(active).catch(() => undefined);
  };
  useKey("Escape", (event) => {
    if (edited) setEditing(undefined);
    else if (active) {
      event.preventDefault();
      stop();
    }
  });
  const view = active?.state.value.view;
  const lastModel = useLastModel();
  const focusComposer = () => document.getElementById("composer")?.focus();
  return (
    <div class="dock">
      <div class="status-place">
        {active ? <Status view={active.state.value.view} isLost={isLost} isStopping={pending === "stop"} /> : props.isSending ? <SendingStatus /> : null}
      </div>
      <Dock waiting={waiting} isLost={isLost} onAnswered={focusComposer} />
      <Problem text={props.problem} />
      {edited ? (
        <p class="editing">
          <Icon name="pen" />
          <span>Sending again replaces this message and everything after it.</span>
          <button type="button" class="btn quiet sm" onClick={() => setEditing(undefined)}>
            Leave it
          </button>
        </p>
      ) : null}
      <Composer
        draft={draft}
        onDraft={(text) => drafts(conversationId).set(text)}
        onSend={submit}
        onStop={stop}
        isRunning={active !== undefined}
        isStopping={pending === "stop"}
        queued={queued}
        files={files}
        onFiles={setFiles}
        onUnqueue={() => {
          drafts(conversationId).set(queued);
          setQueued("");
        }}
        picker={<Picker conversationId={conversationId} model={view?.model || lastModel} />}
        placeholder={isBusy ? "Queue a message for after this run" : conversationId ? "Reply" : "Ask anything"}
      />
    </div>
  );
}

const STARTS = ["What tools do you have?", "Summarise what changed this week"];
/** What the scripted model of `serve --demo` can do. */
const DEMO_STARTS = ["Check the release and clean the old branch", "multiply 5 and 4"];

function Welcome({ onPick }: { onPick: (text: string) => void }): JSX.Element {
  const [starts, setStarts] = useState<string[]>([]);
  useEffect(() => {
    void request<{ data: { id: string }[] }>("/v1/models").then(
      ({ data }) => setStarts(data.every(({ id }) => id === "scripted") ? DEMO_STARTS : STARTS),
      () => undefined,
    );
  }, []);
  return (
    <div class="welcome">
      <h2>What should be done?</h2>
      <p class="dim">Every step of the answer is shown here, can be stopped, and is kept if you close this page.</p>
      <div class="starts">
        {starts.map((text) => (
          <button type="button" class="btn start" onClick={() => onPick(text)}>
            {text}
          </button>
        ))}
      </div>
    </div>
  );
}

/** The runs of a conversation, oldest first, from both lists. */
function linesOf(list: readonly RunLine[], known: readonly RunLine[], id: string | undefined): RunLine[] {
  if (!id) return [];
  const byId = new Map<string, RunLine>();
  for (const run of [...known, ...list]) if (run.conversation_id === id) byId.set(run.run_id, run);
  return [...byId.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
}

/** All runs of a thread that the server lists. Older servers ignore the filter. */
async function readThread(id: string): Promise<RunLine[]> {
  const page = await request<RunPage>(`/v1/runs?limit=100&conversation_id=${encodeURIComponent(id)}`).catch(() => request<RunPage>("/v1/runs?limit=100"));
  const own = page.data.filter((run) => run.conversation_id === id);
  if (own.length > 0) own.forEach(noteRun);
  return own;
}

/** Runs whose items are no longer in the conversation were replaced by an edited message. */
function useReplaced(id: string | undefined, feeds: readonly RunFeed[], set: (ids: ReadonlySet<string>) => void): void {
  const done = feeds.filter((feed) => feed.state.value.view.outcome?.status === "completed").map((feed) => feed.runId).join();
  const busy = feeds.some((feed) => !feed.state.value.view.outcome);
  useEffect(() => {
    if (!id || busy || done === "") return undefined;
    let isCurrent = true;
    void itemsOf(id)
      .then((items) => {
        const kept = new Set(items.map((item) => item.id));
        const gone = feeds.filter(({ state: { value } }) => {
          const said = value.view.steps.filter((step) => step.kind === "message" && step.state === "complete");
          return value.view.outcome?.status === "completed" && said.length > 0 && !said.some((step) => kept.has(step.id));
        });
        if (isCurrent) set(new Set(gone.map((feed) => feed.runId)));
      })
      .catch(() => undefined);
    return () => {
      isCurrent = false;
    };
  }, [id, done, busy]);
}

function useLastModel(): string {
  return runs.value[0]?.model ?? "";
}

const draftStores = new Map<string, Store<string>>();

/** What was written and not sent, kept over a reload. */
function drafts(id: string | undefined): Store<string> {
  const key = DRAFT + (id ?? "new");
  const known = draftStores.get(key);
  if (known) return known;
  const store = new Store(sessionStorage.getItem(key) ?? "");
  store.watch(() => (store.value ? sessionStorage.setItem(key, store.value) : sessionStorage.removeItem(key)));
  draftStores.set(key, store);
  return store;
}
