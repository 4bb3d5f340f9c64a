/**
 * The model and the tools of a thread, if the person picked others than the server's own.
 *
 * They are kept in this browser, by thread. What is picked for a new thread goes with it.
 */

import type { Choice } from "../model/chat";
import { request } from "./api";
import { Store } from "./store";

/** What there is to choose from. */
export interface Offer {
  models: string[];
  servers: { name: string; tools: { name: string; title: string }[] }[];
}

const KEY = "turnwire.choice.";
const DEFAULT: Choice = { model: "", tools: undefined };
const stores = new Map<string, Store<Choice>>();

/** What was picked for a thread. */
export function choiceOf(id: string): Store<Choice> {
  const key = KEY + id;
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

/** A thread that has just been named takes what was picked for it. */
export function moveChoice(from: string, id: string): void {
  choiceOf(id).set(choiceOf(from).value);
  choiceOf(from).set(DEFAULT);
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
