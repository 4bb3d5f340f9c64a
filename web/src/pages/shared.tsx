/** A run behind a link: the same view without a rail, without a key, and with nothing to press. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { moment, titleOf } from "../model/words";
import { type SharedLink, readSharedLink, sharedFeed } from "../server/run_feed";
import { useStore } from "../server/store";
import { Banner } from "../ui/banner";
import { Empty } from "../ui/controls";
import { Icon, Mark } from "../ui/icons";
import { Scroller } from "../ui/scroller";
import { RunTranscript } from "../ui/transcript";
import { useLost } from "../ui/use_lost";
import { RunDetails } from "./run";

const VIEWS = [
  ["timeline", "Timeline"],
  ["answer", "Answer"],
] as const;

export function SharedPage({ token }: { token: string }): JSX.Element {
  const feed = useMemo(() => sharedFeed(token), [token]);
  const state = useStore(feed.state);
  const [shown, setShown] = useState<"timeline" | "answer">("timeline");
  const [link, setLink] = useState<SharedLink | undefined>(undefined);
  const isLost = useLost();
  // If it fails the feed fails too, and says why.
  useEffect(() => void readSharedLink(token).then(setLink, () => undefined), [token, isLost]);
  useEffect(() => feed.hold(), [feed]);
  if (state.error) return <NotShared why={state.error.message} />;
  return (
    <>
      <header class="sharebar">
        <Brand />
        {link?.redact ? <span class="dim">Messages, arguments and results are redacted by its owner.</span> : null}
        <span class="grow" />
        {link ? <span class="dim num">{`Link ends ${moment(link.expires_at)}`}</span> : null}
        {link?.redact === false ? (
          <div class="seg" role="radiogroup" aria-label="View">
            {VIEWS.map(([name, label]) => (
              <label>
                <input type="radio" name="view" checked={shown === name} onChange={() => setShown(name)} />
                <span>{label}</span>
              </label>
            ))}
          </div>
        ) : null}
      </header>
      {shown === "timeline" ? (
        <RunDetails feed={feed} call={undefined} readOnly isRedacted={link?.redact ?? false} />
      ) : (
        <main class="main chat" id="main" tabIndex={-1}>
          <h1 class="sr">{titleOf(state.view)}</h1>
          <Banner />
          <Scroller isLive={!state.view.outcome}>
            <RunTranscript feed={feed} state={state} isLost={isLost} readOnly onNewRun={() => undefined} />
          </Scroller>
        </main>
      )}
    </>
  );
}

function Brand(): JSX.Element {
  return (
    <>
      <Mark />
      <strong>Turnwire</strong>
      <span class="chip">
        <Icon name="lock" />
        Shared, read-only
      </span>
    </>
  );
}

/** A link that was revoked is the same to the server as one that never was. */
function NotShared({ why }: { why: string }): JSX.Element {
  return (
    <>
      <header class="sharebar">
        <Brand />
      </header>
      <main class="main" id="main" tabIndex={-1}>
        <Empty title="This link shows nothing">
          <p>{why}</p>
          <p class="dim">Whoever gave it to you can make a new one.</p>
        </Empty>
      </main>
    </>
  );
}
