/**
 * The model and the tools of a thread, if the person picked others than the server's own.
 *
 * They are kept in this browser, by thread. What is picked for a new thread goes with it.
 */

import { request } from "./api";
import { Store } from "./store";

export interface Choice {
  /** Empty for the default of the server. */
  model: string;
  /** As `server/tool`; `undefined` for all. */
  tools: readonly string[] | undefined;
}

/** What there is to choose from. */
export interface Offer {
  models: string[];
  servers: { name: string; tools: { name: string; title: string }[] }[];
}

const KEY = "turnwire.choice.";
const DEFAULT: Choice = { model: "", tools: undefined };
const stores = new Map<string, Store<Choice>>();

/** What was picked for a thread; `undefined` is the one that does not exist yet. */
export function choiceOf(conversationId: string | undefined): Store<Choice> {
  const key = KEY + (conversationId ?? "new");
  const known = stores.get(key);
  if (known) return known;
  const store = new Store(stored(key));
  store.watch(() => (isDefault(store.value) ? localStorage.removeItem(key) : localStorage.setItem(key, JSON.stringify(store.value))));
  stores.set(key, store);
  return store;
}

function stored(key: string): Choice {
  try {
    return { ...DEFAULT, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Choice>) };
  } catch {
    return DEFAULT;
  }
}

/** A thread that has just been made takes what was picked for it. */
export function moveChoice(conversationId: string): void {
  choiceOf(conversationId).set(choiceOf(undefined).value);
  choiceOf(undefined).set(DEFAULT);
}

export function isDefault({ model, tools }: Choice): boolean {
  return model === "" && tools === undefined;
}

export async function readOffer(): Promise<Offer> {
  const [models, servers] = await Promise.all([
    request<{ data: { id: string }[] }>("/v1/models"),
    request<{ data: { name: string; tools: { name: string; title: string | null; description: string }[] }[] }>("/v1/mcp_servers"),
  ]);
  return {
    models: models.data.map(({ id }) => id),
    servers: servers.data.map(({ name, tools }) => ({ name, tools: tools.map((tool) => ({ name: tool.name, title: tool.title ?? tool.description })) })),
  };
}
