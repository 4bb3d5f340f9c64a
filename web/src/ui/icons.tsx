/** Icons, drawn on a grid of 16 with one stroke. They are decoration: a word always says the same. */

import type { JSX } from "preact";
import type { Look } from "../model/words";

const PATHS: Record<string, string> = {
  chat: "M2.5 3.5h11v7.5h-6L4.5 13.5V11h-2z",
  runs: "M2.5 4h5M5 8h6M8.5 12h5",
  server: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  file: "M4 1.8h5l3 3v9.4H4zM9 1.8v3h3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.4 10.4l3.1 3.1",
  pen: "M3 13l.7-2.8 7-7 2.1 2.1-7 7zM9.4 4.5l2.1 2.1",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  gear: "M3 4.5h6M12 4.5h1M3 11.5h1M7 11.5h6M10.5 3v3M5.5 10v3",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h7",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  left: "M10 3.5L5.5 8l4.5 4.5",
  up: "M8 13V3.5M4 7.2l4-4 4 4",
  arrowDown: "M8 3v9.5M4 8.8l4 4 4-4",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  share: "M8 9.5V2M5 4.5L8 1.8l3 2.7M4 7.5H3v6.5h10V7.5h-1",
  clip: "M12.5 7.2L7.6 12a2.9 2.9 0 0 1-4.1-4.1l5.3-5.2a1.9 1.9 0 0 1 2.7 2.7L6.3 10.6a.9.9 0 0 1-1.3-1.3l4.6-4.5",
  cube: "M8 1.8l5.4 3.1v6.2L8 14.2l-5.4-3.1V4.9zM2.8 5L8 8l5.2-3M8 8v6",
  wrench: "M13.4 4.4a3.4 3.4 0 0 1-4.5 4.2l-4.7 4.7a1.2 1.2 0 0 1-1.7-1.7L7.2 7a3.4 3.4 0 0 1 4.3-4.4L9.6 4.5l.4 1.5 1.5.4z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2.2v2.6h-2.6",
  check: "M3.5 8.5l3 3 6-6.5",
  skip: "M4 3.5l5.5 4.5L4 12.5zM12 3.5v9",
  warn: "M8 2.2l6.2 11H1.8zM8 6.3v3.2M8 11.4h.01",
  think: "M8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M12.2 3.8l-1.4 1.4M5.2 10.8l-1.4 1.4",
  wifi: "M2 6.5a8.7 8.7 0 0 1 12 0M4.3 9a5.4 5.4 0 0 1 7.4 0M6.6 11.3a2 2 0 0 1 2.8 0M8 13.2h.01",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2 3v10M14 3v10M4.5 8h7M6.5 6l-2 2 2 2M9.5 6l2 2-2 2",
  download: "M8 2v8M4.8 7L8 10.2 11.2 7M3 13.5h10",
  lock: "M3.5 7.5h9v6h-9zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  key: "M10.5 2.5a3 3 0 1 1-2 5.3L3 13.3V11H5V9h2l1-1a3 3 0 0 1 2.5-5.5z",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  stop: "M5 5h6v6H5z",
  play: "M4.5 3l8 5-8 5z",
  clock: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM8 4.6V8l2.3 1.6",
  flag: "M4 14V2.5h8l-1.6 2.6L12 7.7H4",
  keyboard: "M1.8 4h12.4v8H1.8zM4.5 6.5h.01M7 6.5h.01M9.5 6.5h.01M12 6.5h.01M5 9.5h6",
};

export function Icon({ name, class: extra = "" }: { name: string; class?: string }): JSX.Element {
  return (
    <svg class={`ic ${extra}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name] ?? ""} />
    </svg>
  );
}

const RING = <circle cx="8" cy="8" r="6.25" />;
const LOOKS: Record<Look, JSX.Element> = {
  preparing: (
    <>
      <circle cx="8" cy="8" r="6" stroke-dasharray="1.6 2.6" />
      <path d="M5.6 8h.01M8 8h.01M10.4 8h.01" />
    </>
  ),
  approval: (
    <>
      {RING}
      <path d="M6.4 5.7v4.6M9.6 5.7v4.6" />
    </>
  ),
  question: (
    <>
      <path d="M2.5 3h11v8h-6L4.5 13.7V11h-2z" />
      <path d="M6.8 5.7c.2-.8.7-1.1 1.3-1.1.7 0 1.3.4 1.3 1.1 0 .9-1.3.9-1.3 1.7M8.1 9.1h.01" />
    </>
  ),
  running: (
    <>
      <circle cx="8" cy="8" r="6" opacity=".25" />
      <path d="M8 2a6 6 0 0 1 6 6" />
    </>
  ),
  done: (
    <>
      {RING}
      <path d="m5.2 8.2 1.9 1.9 3.7-4" />
    </>
  ),
  failed: (
    <>
      {RING}
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9l-4.2 4.2" />
    </>
  ),
  denied: (
    <>
      {RING}
      <path d="m3.7 3.7 8.6 8.6" />
    </>
  ),
  stopped: (
    <>
      {RING}
      <rect x="5.6" y="5.6" width="4.8" height="4.8" rx=".9" class="fill" />
    </>
  ),
  timeout: (
    <>
      {RING}
      <path d="M8 4.6V8l2.3 1.6" />
    </>
  ),
  unknown: (
    <>
      <path d="M8 1.5 14.5 8 8 14.5 1.5 8z" />
      <path d="M6.6 6.6c.1-.8.7-1.2 1.4-1.2s1.4.5 1.4 1.2c0 .9-1.4 1-1.4 1.9M8 10.5h.01" />
    </>
  ),
};

export function LookIcon({ look }: { look: Look }): JSX.Element {
  return (
    <svg class={`ic ${look === "running" ? "spin" : ""}`} viewBox="0 0 16 16" aria-hidden="true">
      {LOOKS[look]}
    </svg>
  );
}

/** Icon and word of a state. */
export function State({ look, word, class: extra = "" }: { look: Look; word: string; class?: string }): JSX.Element {
  return (
    <span class={`st ${extra}`} data-st={look}>
      <LookIcon look={look} />
      <span>{word}</span>
    </span>
  );
}

/** The mark of the product. */
export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6" class="mark-bg" />
      <path d="M5.5 8H10a3 3 0 0 1 3 3v2a3 3 0 0 0 3 3h2.5" class="mark-wire" />
      <circle cx="5.5" cy="8" r="1.8" class="mark-a" />
      <circle cx="18.5" cy="16" r="1.8" class="mark-b" />
    </svg>
  );
}
