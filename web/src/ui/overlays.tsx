/** What lies over the page: the sheet of keys, the palette, the settings of this browser. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { STATES, lineState, runName } from "../model/words";
import { go, to } from "../router";
import { forgetKey, hasKey, keyNeeded } from "../server/api";
import { forgetChats } from "../server/chats";
import { forgetFeeds } from "../server/run_feed";
import { Store, useStore } from "../server/store";
import { forgetThreads, runs, titles, useThreads } from "../server/threads";
import { Dialog } from "./controls";
import { Icon, State } from "./icons";
import { KEYS, isComposing } from "./keys";

const THEME = "turnwire.theme";
type Theme = "system" | "light" | "dark";
const theme = new Store<Theme>((localStorage.getItem(THEME) as Theme | null) ?? "system");

/** The theme that is shown: what the person chose, else what the device prefers. */
export function useTheme(): "light" | "dark" {
  const chosen = useStore(theme);
  useEffect(() => {
    if (chosen === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = chosen;
  }, [chosen]);
  return chosen === "system" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : chosen;
}

function setTheme(chosen: Theme): void {
  localStorage.setItem(THEME, chosen);
  theme.set(chosen);
}

export function nextTheme(): void {
  const isDark = theme.value === "dark" || (theme.value === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(isDark ? "light" : "dark");
}

export function KeySheet({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div>
            <dt>
              {keys.split(" ").map((one) => (one === "/" && keys !== "/" ? <span> / </span> : <kbd>{one}</kbd>))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p class="dim">Letters do nothing while you write.</p>
      <h3>States of a call</h3>
      <ul class="marks" aria-label="States of a call">
        {STATES.map(([word, look]) => (
          <li>
            <State look={look} word={word} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export function Settings({ onClose }: { onClose: () => void }): JSX.Element {
  const chosen = useStore(theme);
  return (
    <Dialog title="Settings" onClose={onClose}>
      <div class="stack">
        <span id="theme-label">Theme</span>
        <div class="seg" role="radiogroup" aria-labelledby="theme-label">
          {(["system", "light", "dark"] as const).map((one) => (
            <label>
              <input type="radio" name="theme" checked={one === chosen} onChange={() => setTheme(one)} />
              <span>{one}</span>
            </label>
          ))}
        </div>
        <p class="dim">Kept in this browser only.</p>
        {hasKey() ? (
          <button
            type="button"
            class="btn"
            onClick={() => {
              forgetKey();
              forgetFeeds();
              forgetChats();
              keyNeeded.set("missing");
              forgetThreads();
              onClose();
            }}
          >
            <Icon name="key" />
            Forget the key of this server
          </button>
        ) : null}
      </div>
    </Dialog>
  );
}

interface Place {
  label: string;
  hint: string;
  icon: string;
  open: () => void;
}

export function Palette({ onClose, onOver }: { onClose: () => void; onOver: (what: "keys" | "settings") => void }): JSX.Element {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const list = useStore(runs);
  const names = useStore(titles);
  const threads = useThreads();
  const jump = (address: string) => () => (go(address), onClose());
  const places: Place[] = [
    { label: "New chat", hint: "N", icon: "pen", open: jump(to.chat()) },
    { label: "Runs", hint: "", icon: "runs", open: jump(to.runs) },
    { label: "Servers", hint: "", icon: "server", open: jump(to.servers) },
    { label: "Files", hint: "", icon: "file", open: jump(to.files) },
    { label: "Change the theme", hint: "", icon: "moon", open: () => (nextTheme(), onClose()) },
    { label: "Keys", hint: "?", icon: "keyboard", open: () => onOver("keys") },
    { label: "Settings", hint: "", icon: "gear", open: () => onOver("settings") },
    ...threads.map((thread) => ({ label: names[thread.id] ?? "Chat", hint: "chat", icon: "chat", open: jump(to.chat(thread.id)) })),
    ...list.slice(0, 50).map((run) => ({ label: run.title || runName(run.run_id), hint: `run, ${lineState(run).word}`, icon: "runs", open: jump(to.run(run.run_id)) })),
  ];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = places.filter((place) => words.every((word) => `${place.label} ${place.hint}`.toLowerCase().includes(word))).slice(0, 12);
  const chosen = Math.min(at, found.length - 1);
  return (
    <Dialog title="Go anywhere" onClose={onClose} class="palette">
      <input
        ref={field}
        class="inp"
        role="combobox"
        aria-expanded="true"
        aria-controls="places"
        aria-activedescendant={found[chosen] ? `place-${chosen}` : undefined}
        aria-label="Go to"
        placeholder="Chats, runs, pages, actions"
        value={text}
        onInput={(event) => (setText(event.currentTarget.value), setAt(0))}
        onKeyDown={(event) => {
          if (isComposing(event)) return;
          const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (by !== 0 && found.length > 0) {
            event.preventDefault();
            setAt((chosen + by + found.length) % found.length);
          } else if (event.key === "Enter") {
            event.preventDefault();
            found[chosen]?.open();
          }
        }}
      />
      <ul id="places" role="listbox" aria-label="Places" class="places">
        {found.map((place, n) => (
          <li id={`place-${n}`} role="option" aria-selected={n === chosen} onClick={place.open} onMouseMove={() => setAt(n)}>
            <Icon name={place.icon} />
            <span class="cut grow">{place.label}</span>
            <span class="dim">{place.hint}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
