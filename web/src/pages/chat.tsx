/** The chat: the runs of one conversation, what waits for the person, and the composer. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { waitsForPerson } from "../model/calls";
import { type Chat, askAgain, leaveEdit, startEdit, takeBack } from "../model/chat";
import { type RunView, toolTitle } from "../model/run";
import { questionText, titleOf } from "../model/words";
import { go, to } from "../router";
import { request } from "../server/api";
import { attach, chatOf, randomId, replaced, send, sendText, serverId, uidOf } from "../server/chats";
import { choiceOf } from "../server/choices";
import { itemsOf, stopRun } from "../server/commands";
import { type RunFeed, feedOf, useFeeds } from "../server/run_feed";
import { useStore } from "../server/store";
import { type RunLine, type RunPage, deleted, findThread, linesOf, noteRun, runs, titles } from "../server/threads";
import { Composer } from "../ui/composer";
import { CopyButton, Empty, Problem } from "../ui/controls";
import { Dock, type Waiting } from "../ui/dock";
import { Icon } from "../ui/icons";
import { useKey, useStopKey } from "../ui/keys";
import { Picker } from "../ui/picker";
import { Scroller } from "../ui/scroller";
import { ShareButton } from "../ui/share";
import { ThreadMenu } from "../ui/thread_menu";
import { TopBar } from "../ui/top_bar";
import { RunTranscript, Sending, SendingStatus, Status } from "../ui/transcript";
import { useLost } from "../ui/use_lost";

const SHOWN_RUNS = 12;

/** `id`: `new`, `new/…` until the server has named it, or the ID of a conversation. Each has a page of its own. */
export function ChatPage({ id }: { id: string }): JSX.Element {
  const conversationId = serverId(id);
  useEffect(() => {
    if (conversationId) void findThread(conversationId).catch(() => undefined);
  }, [conversationId]);
  return useStore(deleted).has(id) ? <NoChat chat={chatOf(id).value} /> : <OpenChat id={id} />;
}

/** What was written for a chat that is not there is kept for another one. */
function NoChat({ chat }: { chat: Chat }): JSX.Element {
  const unsent = [chat.sending?.text, chat.queue?.text, chat.draft].filter(Boolean).join("\n\n");
  return (
    <main class="main chat" id="main" tabIndex={-1}>
      <TopBar title="No such chat" />
      <Empty title="This chat does not exist">
        <p>
          It was deleted, or this server never had it. What was done in it may be in the <a href={to.runs}>list of runs</a>.
        </p>
        {unsent ? (
          <div class="acts">
            <p class="cut">{`Not sent: ${unsent}`}</p>
            <CopyButton text={unsent} what="what was not sent" />
          </div>
        ) : null}
      </Empty>
    </main>
  );
}

/** The newest runs of a chat that nothing has replaced, followed while they are shown, and how many come before. */
function useThread(conversationId: string | undefined, replacing: string | undefined, shown: number): { visible: RunFeed[]; nEarlier: number } {
  const list = useStore(runs);
  const gone = useStore(replaced);
  const [known, setKnown] = useState<RunLine[]>([]);
  useEffect(() => {
    if (conversationId) void readThread(conversationId).then(setKnown, () => undefined);
  }, [conversationId]);
  const thread = useMemo(() => linesOf(list, known, conversationId), [list, known, conversationId]);
  const feeds = thread.slice(-shown).map((run) => feedOf(run.run_id));
  useFeeds(feeds);
  useReplaced(conversationId, feeds);
  const cut = feeds.findIndex((feed) => feed.runId === replacing);
  const visible = (cut < 0 ? feeds : feeds.slice(0, cut)).filter((feed) => !gone.has(feed.runId));
  return { visible, nEarlier: Math.max(0, thread.length - shown) };
}

function OpenChat({ id }: { id: string }): JSX.Element {
  const conversationId = serverId(id);
  const chat = useStore(chatOf(id));
  const { sending } = chat;
  const [shown, setShown] = useState(SHOWN_RUNS);
  const [sent, setSent] = useState(0);
  const { visible, nEarlier } = useThread(conversationId, sending?.replaces, shown);
  const isLost = useLost();
  const last = visible.at(-1);
  const active = last && !last.state.value.view.outcome && !last.state.value.error ? last : undefined;
  const waiting = visible.flatMap(waitingIn);
  const change = (to: (chat: Chat) => Chat) => chatOf(id).update(to);
  const again = ({ runId, state }: RunFeed) => {
    const message = { key: randomId(), text: questionText(state.value.view), files: [], choice: choiceOf(id).value, replaces: runId };
    change((now) => askAgain(now, message));
  };
  const edit = ({ runId, state }: RunFeed) => {
    change((now) => startEdit(now, runId, questionText(state.value.view)));
    focusComposer();
  };
  return (
    <main class="main chat" id="main" tabIndex={-1}>
      <ChatBar id={conversationId} visible={visible} />
      {!conversationId && !sending ? (
        <Welcome onPick={(text) => sendText(id, text)} />
      ) : (
        <Scroller id={uidOf(id)} isLive={active !== undefined} sent={sent}>
          {nEarlier > 0 ? (
            <button type="button" class="btn quiet" onClick={() => setShown(shown + SHOWN_RUNS)}>
              {`Show ${nEarlier} earlier`}
            </button>
          ) : null}
          {visible.map((feed, place) => (
            <OneRun
              key={feed.runId}
              feed={feed}
              before={visible[place - 1]?.state.value.view}
              isLost={isLost}
              isLast={feed === last}
              onEdit={active || sending ? undefined : () => edit(feed)}
              onRetry={active || sending ? undefined : () => again(feed)}
            />
          ))}
          {sending ? <Sending text={sending.text || sending.files.map((file) => file.name).join(", ")} /> : null}
        </Scroller>
      )}
      <Bottom
        id={id}
        chat={chat}
        change={change}
        active={active}
        waiting={waiting}
        isLost={isLost}
        onSend={() => {
          send(id, active !== undefined);
          setSent(sent + 1);
        }}
      />
    </main>
  );
}

function ChatBar({ id, visible }: { id: string | undefined; visible: readonly RunFeed[] }): JSX.Element {
  const [first, last] = [visible[0]?.state.value.view, visible.at(-1)?.runId];
  const title = useStore(titles)[id ?? ""] ?? (first && first.input.length > 0 ? titleOf(first) : undefined);
  useKey("t", () => last && go(to.run(last)), last !== undefined);
  return (
    <TopBar title={id ? (title ?? "Chat") : "New chat"} menu={id ? <ThreadMenu id={id} /> : null}>
      {last ? (
        <>
          <a class="btn quiet" href={to.run(last)} aria-label="Timeline">
            <Icon name="runs" />
            <span class="txt">Timeline</span>
          </a>
          <ShareButton key={last} runId={last} isQuiet />
        </>
      ) : null}
    </TopBar>
  );
}

function focusComposer(): void {
  document.getElementById("composer")?.focus();
}

function OneRun(props: { feed: RunFeed; before: RunView | undefined; isLost: boolean; isLast: boolean; onEdit?: (() => void) | undefined; onRetry?: (() => void) | undefined }): JSX.Element {
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
  id: string;
  chat: Chat;
  change: (to: (chat: Chat) => Chat) => void;
  active: RunFeed | undefined;
  waiting: Waiting[];
  isLost: boolean;
  onSend: () => void;
}

function Bottom({ id, chat, change, active, waiting, isLost, onSend }: BottomProps): JSX.Element {
  const pending = active?.state.value.pending["run"];
  const isBusy = active !== undefined || chat.sending !== undefined;
  const stop = () => {
    if (active) void stopRun(active).catch(() => undefined);
  };
  const { isArmed, press } = useStopKey(stop, active !== undefined && !chat.edit);
  useKey("Escape", () => change(leaveEdit), chat.edit !== undefined);
  const escape = () => {
    if (chat.edit) change(leaveEdit);
    else if (active && chat.draft === "") press();
  };
  const view = active?.state.value.view;
  return (
    <div class="dock">
      <div class="status-place">
        {view ? <Status view={view} isLost={isLost} isStopping={pending === "stop"} isArmed={isArmed} /> : chat.sending ? <SendingStatus /> : null}
      </div>
      <Dock waiting={waiting} isLost={isLost} onIdle={focusComposer} />
      <Problem text={chat.problem} />
      {chat.edit ? (
        <p class="editing">
          <Icon name="pen" />
          <span>Sending again replaces this message and everything after it.</span>
          <button type="button" class="btn quiet sm" onClick={() => change(leaveEdit)}>
            Leave it
          </button>
        </p>
      ) : null}
      <Composer
        draft={chat.draft}
        onDraft={(draft) => change((now) => ({ ...now, draft }))}
        onSend={onSend}
        onStop={stop}
        onEscape={escape}
        isRunning={active !== undefined}
        isStopping={pending === "stop"}
        queued={chat.queue}
        files={chat.files}
        onFile={(name, mediaType, url) => attach(id, name, mediaType, url)}
        onRemove={(file) => change((now) => ({ ...now, files: now.files.filter((one) => one.id !== file) }))}
        onUnqueue={() => change(takeBack)}
        picker={<Picker id={id} model={view?.model || (runs.value[0]?.model ?? "")} />}
        placeholder={isBusy ? "Queue a message for after this run" : serverId(id) ? "Reply" : "Ask anything"}
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

/** All runs of a thread that the server lists. Older servers ignore the filter. */
async function readThread(id: string): Promise<RunLine[]> {
  const page = await request<RunPage>(`/v1/runs?limit=100&conversation_id=${encodeURIComponent(id)}`).catch(() => request<RunPage>("/v1/runs?limit=100"));
  const own = page.data.filter((run) => run.conversation_id === id);
  if (own.length > 0) own.forEach(noteRun);
  return own;
}

/** Runs whose items are no longer in the conversation were replaced by an edited message. */
function useReplaced(id: string | undefined, feeds: readonly RunFeed[]): void {
  const done = feeds.filter((feed) => feed.state.value.view.outcome?.status === "completed").map((feed) => feed.runId).join();
  const busy = feeds.some((feed) => !feed.state.value.view.outcome);
  useEffect(() => {
    if (!id || busy || done === "") return;
    void itemsOf(id)
      .then((items) => {
        const kept = new Set(items.map((item) => item.id));
        const gone = feeds.filter(({ state: { value } }) => {
          const said = value.view.steps.filter((step) => step.kind === "message" && step.state === "complete");
          return value.view.outcome?.status === "completed" && said.length > 0 && !said.some((step) => kept.has(step.id));
        });
        if (gone.length > 0) replaced.update((all) => new Set([...all, ...gone.map((feed) => feed.runId)]));
      })
      .catch(() => undefined);
  }, [id, done, busy]);
}
