/** Small controls that several pages use. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { serverNow } from "../server/clock";
import { Icon } from "./icons";

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, what, label }: { text: string; what: string; label?: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <button type="button" class="btn quiet sm" onClick={copy} aria-label={copied ? "Copied" : (label ?? `Copy ${what}`)}>
      <Icon name={copied ? "check" : "copy"} />
      <span>{copied ? "Copied" : (label ?? "Copy")}</span>
    </button>
  );
}

/** A window over the page. Esc and a click outside close it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }): JSX.Element {
  const { title, onClose, children, class: extra = "" } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`sheet ${extra}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="btn quiet icon" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="sheet-body">{children}</div>
    </dialog>
  );
}

/** The time now, once a second or oftener; stands still if `on` is false. */
export function useNow(on: boolean, everyMs = 1000): number {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    if (!on) return undefined;
    setNow(serverNow());
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [on, everyMs]);
  return now;
}

/** A command that the server has not answered for so long is said to be without an answer. */
const LATE_MS = 2500;

/** Whether `on` has been so for longer than an answer should take. */
export function useLate(on: boolean): boolean {
  const [isLate, setIsLate] = useState(false);
  useEffect(() => {
    setIsLate(false);
    if (!on) return undefined;
    const timer = setTimeout(() => setIsLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, [on]);
  return on && isLate;
}

export const NO_ANSWER = "No answer from the server yet.";

/** A command that is on its way, in words. */
export function OnItsWay({ on, word }: { on: boolean; word: string }): JSX.Element | null {
  const isLate = useLate(on);
  const text = isLate ? NO_ANSWER : word;
  return on && text ? (
    <p class="why" role="status">
      {text}
    </p>
  ) : null;
}

/** A button with an icon that is explained to everybody. */
export function IconButton(props: { name: string; label: string; onClick: () => void; class?: string }): JSX.Element {
  return (
    <button type="button" class={`btn quiet icon ${props.class ?? ""}`} aria-label={props.label} title={props.label} onClick={props.onClick}>
      <Icon name={props.name} />
    </button>
  );
}

/** What a page shows while it has nothing. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="nothing">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What went wrong, said to everybody; nothing if all is well. */
export function Problem({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? (
    <p class="problem" role="alert">
      {text}
    </p>
  ) : null;
}
