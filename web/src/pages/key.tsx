/** Asks for the key of the server, once. It is kept in the browser and never in an address. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError } from "turnwire";
import { errorOf } from "turnwire/errors";
import { keyNeeded, saveKey, sentence, watchedFetch } from "../server/api";
import { forgetFeeds } from "../server/run_feed";
import { forgetThreads } from "../server/threads";
import { Icon } from "../ui/icons";
import { Problem } from "../ui/controls";

const REFUSED = "The key was not accepted: it is unknown, has expired or was revoked.";
/** What `/v1/models` needs, and with it everything that the page shows first. */
const NEEDED = "runs:read";
const TOO_WEAK = `The key is valid, but lacks the scope ${NEEDED}, without which this page can show nothing. It was not kept.`;

/** Why a key cannot be used, in a sentence for a person. */
function whyNot(error: unknown): string {
  if (!(error instanceof ApiError)) return sentence(error);
  if (error.status === 401) return REFUSED;
  return error.code === "missing_scope" ? TOO_WEAK : error.message;
}

export function KeyPrompt({ wrong }: { wrong: boolean }): JSX.Element {
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const [problem, setProblem] = useState(wrong ? REFUSED : "");
  const submit = async (event: Event) => {
    event.preventDefault();
    const typed = key.trim();
    if (typed === "") return;
    setProblem("");
    try {
      const answer = await watchedFetch("/v1/models", { headers: { authorization: `Bearer ${typed}` } });
      if (!answer.ok) throw await errorOf(answer);
      saveKey(typed, keep);
      forgetFeeds();
      forgetThreads();
      keyNeeded.set("no");
    } catch (error) {
      setProblem(whyNot(error));
    }
  };
  return (
    <main class="main key-page" id="main" tabIndex={-1}>
      <form class="card stack" onSubmit={(event) => void submit(event)}>
        <h1>
          <Icon name="key" /> This server wants a key
        </h1>
        <p class="dim">
          An API key of this server: from its settings, or made with <code>turnwire keys create</code>. It is sent in a header, only to this server.
        </p>
        <label for="api-key">API key</label>
        <input id="api-key" class="inp mono" type="password" autocomplete="current-password" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>Keep it in this browser</span>
        </label>
        <Problem text={problem} />
        <button type="submit" class="btn primary">
          Continue
        </button>
      </form>
    </main>
  );
}
