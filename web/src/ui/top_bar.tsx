/** The head of a page: its title and what can be done with it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Store } from "../server/store";
import { Banner } from "./banner";
import { Icon } from "./icons";

/** Whether the rail is open on a narrow screen. */
export const railOpen = new Store(false);

export function Burger(): JSX.Element {
  return (
    <button type="button" class="btn quiet icon burger" aria-label="Open the menu" onClick={() => railOpen.set(true)}>
      <Icon name="menu" />
    </button>
  );
}

export function TopBar({ title, menu, children }: { title: string; menu?: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  useEffect(() => {
    document.title = `${title} · Turnwire`;
  }, [title]);
  return (
    <>
      <header class="top">
        <Burger />
        <h1 class="cut">{title}</h1>
        {menu}
        <span class="grow" />
        {children}
      </header>
      <Banner />
    </>
  );
}
