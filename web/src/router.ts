/** Where the person is: the part of the address behind `#`. */

import { Store } from "./server/store";

export type Route =
  /** `new`, `new/…` until the server has named it, or the ID of a conversation. */
  | { page: "chat"; chat: string }
  | { page: "runs"; query: string }
  | { page: "run"; runId: string; call: string | undefined }
  | { page: "servers" }
  | { page: "files" }
  | { page: "shared"; token: string };

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, id] = path.split("/").map(decode);
  if (page === "c" && id) return { page: "chat", chat: id };
  if (page === "new" && id) return { page: "chat", chat: `new/${id}` };
  if (page === "run" && id) return { page: "run", runId: id, call: new URLSearchParams(query).get("call") ?? undefined };
  if (page === "shared" && id) return { page: "shared", token: id };
  if (page === "runs") return { page, query };
  if (page === "servers" || page === "files") return { page };
  return { page: "chat", chat: "new" };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = new Store<Route>(parseRoute(location.hash));
addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

export const to = {
  chat: (id = "new") => (id === "new" ? "#/" : id.startsWith("new/") ? `#/${id}` : `#/c/${encodeURIComponent(id)}`),
  run: (id: string, call?: string) => `#/run/${encodeURIComponent(id)}${call ? `?call=${encodeURIComponent(call)}` : ""}`,
  runs: "#/runs",
  servers: "#/servers",
  files: "#/files",
};

export function go(address: string): void {
  location.hash = address;
}

/** Changes the address without a new entry in the history of the browser. */
export function replace(address: string): void {
  history.replaceState(null, "", address);
  route.set(parseRoute(address));
}
