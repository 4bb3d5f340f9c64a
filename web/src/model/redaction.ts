/** What the server puts in the place of what a share link withholds; the page only draws it. */

/** In the place of a text. */
export const REDACTED = "[redacted]";
/** In the place of arguments, which are JSON. */
const REDACTED_JSON = '{"redacted":true}';

/** Whether a text is what stands in the place of another. */
export function isPlaceholder(text: string): boolean {
  return text === REDACTED || text.replace(/\s/g, "") === REDACTED_JSON;
}
