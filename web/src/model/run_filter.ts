/** Which runs a list shows: as fields, as the query of the page and of the API, and as a test. */

export interface RunFilter {
  status: string;
  model: string;
  tool: string;
  conversation: string;
  text: string;
  /** How old a run may be, in seconds; 0 for any age. */
  withinSec: number;
}

/** The filter that an address asks for. */
export function filterOf(query: string): RunFilter {
  const asked = new URLSearchParams(query);
  const text = (name: string) => asked.get(name) ?? "";
  return {
    status: text("status"),
    model: text("model"),
    tool: text("tool"),
    conversation: text("conversation_id"),
    text: text("q"),
    withinSec: Number(text("within")) || 0,
  };
}

/** The query of the filter: of an address, or with the time `now` that of a request. */
export function queryOf(filter: RunFilter, now?: number): string {
  const query = new URLSearchParams();
  if (filter.status) query.set("status", filter.status);
  if (filter.model) query.set("model", filter.model);
  if (filter.tool) query.set("tool", filter.tool);
  if (filter.conversation) query.set("conversation_id", filter.conversation);
  if (filter.text.trim()) query.set("q", now === undefined ? filter.text : filter.text.trim());
  if (filter.withinSec && now === undefined) query.set("within", String(filter.withinSec));
  if (filter.withinSec && now !== undefined) query.set("created_after", new Date(now - filter.withinSec * 1000).toISOString());
  return query.toString();
}

interface Listed {
  created_at: string;
  model: string;
  conversation_id: string | null;
  status: string;
  title?: string;
  tools?: string[];
}

/** Whether a run that has just changed belongs into the list. */
export function fits(run: Listed, filter: RunFilter, now: number): boolean {
  return (
    (!filter.status || run.status === filter.status) &&
    (!filter.model || run.model === filter.model) &&
    (!filter.conversation || run.conversation_id === filter.conversation) &&
    (!filter.tool || (run.tools ?? []).includes(filter.tool)) &&
    (!filter.text.trim() || (run.title ?? "").toLowerCase().includes(filter.text.trim().toLowerCase())) &&
    (!filter.withinSec || Date.parse(run.created_at) >= now - filter.withinSec * 1000)
  );
}
