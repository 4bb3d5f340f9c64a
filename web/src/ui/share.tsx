/** Shares one run by a link that anybody can read, until it ends or is taken back. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { moment } from "../model/words";
import { request, sentence } from "../server/api";
import { CopyButton, Dialog, Problem } from "./controls";
import { Icon } from "./icons";

/** A link in the list. */
interface Share {
  share_id: string;
  created_at: string;
  expires_at: string;
  redact: boolean;
}

/** A link that was made; only here is its address known. */
interface MadeShare extends Omit<Share, "created_at"> {
  path: string;
}

const TIMES: [string, number][] = [
  ["1 hour", 3600],
  ["1 day", 86_400],
  ["1 week", 604_800],
  ["30 days", 2_592_000],
];

export function ShareButton({ runId, isQuiet = false }: { runId: string; isQuiet?: boolean }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={`btn ${isQuiet ? "quiet" : ""}`} aria-label="Share" onClick={() => setOpen(true)}>
        <Icon name="share" />
        <span class="txt">Share</span>
      </button>
      {open ? <ShareDialog runId={runId} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function ShareDialog({ runId, onClose }: { runId: string; onClose: () => void }): JSX.Element {
  const path = `/v1/runs/${encodeURIComponent(runId)}`;
  const [shares, setShares] = useState<Share[] | undefined>(undefined);
  const [seconds, setSeconds] = useState(86_400);
  const [redact, setRedact] = useState(true);
  const [made, setMade] = useState<MadeShare | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const failed = (error: unknown) => setProblem(sentence(error));
  const read = () => request<{ data: Share[] }>(`${path}/shares`).then(({ data }) => setShares(data), failed);
  useEffect(() => void read(), []);
  const share = async (event: Event) => {
    event.preventDefault();
    setProblem("");
    try {
      setMade(await request<MadeShare>(`${path}/share`, { body: { expires_in_sec: seconds, redact } }));
      await read();
    } catch (error) {
      failed(error);
    }
  };
  const revoke = async (id: string) => {
    try {
      await request(`${path}/shares/${encodeURIComponent(id)}`, { method: "DELETE" });
      if (made?.share_id === id) setMade(undefined);
      await read();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Dialog title="Share this run" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void share(event)}>
        <p class="dim">Whoever has the link sees this run, live or finished, without a key, and can do nothing with it.</p>
        <label class="check">
          <input type="checkbox" checked={redact} onChange={(event) => setRedact(event.currentTarget.checked)} />
          <span>Redact messages, arguments and results, and everything made from them</span>
        </label>
        <div class="inline-fields">
          <label for="share-time">The link ends after</label>
          <select id="share-time" class="inp" value={String(seconds)} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
            {TIMES.map(([label, value]) => (
              <option value={String(value)}>{label}</option>
            ))}
          </select>
          <button type="submit" class="btn primary">
            Make a link
          </button>
        </div>
        {made ? <MadeLink made={made} /> : null}
        <Problem text={problem} />
      </form>
      <section class="shares" aria-label="Links of this run">
        <h3>Links of this run</h3>
        {shares?.length === 0 ? <p class="dim">None. Nobody else can see it.</p> : null}
        <ul>
          {shares?.map((one) => (
            <li key={one.share_id}>
              <Icon name={one.redact ? "lock" : "share"} />
              <span class="what">
                <span>{one.redact ? "redacted" : "with all texts"}</span>
                <span class="dim">{`made ${moment(one.created_at)}, ends ${moment(one.expires_at)}`}</span>
              </span>
              <button type="button" class="btn sm danger" onClick={() => void revoke(one.share_id)}>
                Revoke
              </button>
            </li>
          ))}
        </ul>
      </section>
    </Dialog>
  );
}

function MadeLink({ made }: { made: MadeShare }): JSX.Element {
  const link = location.origin + made.path;
  return (
    <div class="made">
      <div class="link-row">
        <input class="inp mono" readOnly value={link} aria-label="Link" onFocus={(event) => event.currentTarget.select()} />
        <CopyButton text={link} what="the link" />
      </div>
      <p class="dim">It is shown only now. Copy it, or make another one later.</p>
    </div>
  );
}
