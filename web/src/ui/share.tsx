/** Shares one run by a link that anybody can read, until it ends or is taken back. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { request, requestIfThere, sentence } from "../server/api";
import { CopyButton, Dialog, Problem } from "./controls";
import { Icon } from "./icons";

interface Share {
  share_id: string;
  token?: string;
  path?: string;
  expires_at: string;
  redact: boolean;
}

const TIMES: [string, number][] = [
  ["1 hour", 3600],
  ["1 day", 86_400],
  ["1 week", 604_800],
  ["30 days", 2_592_000],
];

export function ShareButton({ runId }: { runId: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="btn" onClick={() => setOpen(true)}>
        <Icon name="share" />
        <span>Share</span>
      </button>
      {open ? <ShareDialog runId={runId} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function ShareDialog({ runId, onClose }: { runId: string; onClose: () => void }): JSX.Element {
  const path = `/v1/runs/${encodeURIComponent(runId)}`;
  const [shares, setShares] = useState<Share[] | undefined>(undefined);
  const [isThere, setIsThere] = useState(true);
  const [seconds, setSeconds] = useState(86_400);
  const [redact, setRedact] = useState(true);
  const [made, setMade] = useState<Share | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const failed = (error: unknown) => setProblem(sentence(error));
  const read = () =>
    requestIfThere<{ data: Share[] }>(`${path}/shares`).then((answer) => {
      setIsThere(answer !== undefined);
      setShares(answer?.data ?? []);
    }, failed);
  useEffect(() => void read(), []);
  const share = () =>
    void request<Share>(`${path}/share`, { body: { expires_in_sec: seconds, redact } }).then((answer) => {
      setMade(answer);
      void read();
    }, failed);
  const end = (id: string) => void request(`${path}/shares/${encodeURIComponent(id)}`, { method: "DELETE" }).then(() => (setMade(undefined), read()), failed);
  const link = made?.path ? location.origin + made.path : undefined;
  return (
    <Dialog title="Share this run" onClose={onClose}>
      {isThere ? (
        <div class="stack">
          <p class="dim">Whoever has the link sees this run, live or finished, and can do nothing with it.</p>
          <label class="check">
            <input type="checkbox" checked={redact} onChange={(event) => setRedact(event.currentTarget.checked)} />
            <span>Redact messages, arguments and results, and everything made from them</span>
          </label>
          <label for="share-time">The link ends after</label>
          <select id="share-time" class="inp" value={String(seconds)} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
            {TIMES.map(([label, value]) => (
              <option value={String(value)}>{label}</option>
            ))}
          </select>
          <button type="button" class="btn primary" onClick={share}>
            Make a link
          </button>
          {link ? (
            <div class="link-row">
              <input class="inp mono" readOnly value={link} aria-label="Link" />
              <CopyButton text={link} what="the link" />
            </div>
          ) : null}
          {(shares ?? []).length > 0 ? (
            <>
              <h3>Links of this run</h3>
              <ul class="shares">
                {shares?.map((one) => (
                  <li>
                    <Icon name="lock" />
                    <span class="grow">{`${one.redact ? "redacted, " : ""}ends ${new Date(one.expires_at).toLocaleString()}`}</span>
                    <button type="button" class="btn sm" onClick={() => end(one.share_id)}>
                      Take back
                    </button>
                  </li>
                ))}
              </ul>
            </>
          ) : null}
          <Problem text={problem} />
        </div>
      ) : (
        <p>This server cannot share runs.</p>
      )}
    </Dialog>
  );
}
