// Puts a compressed copy beside every file of a built page that gains from it, and says how large
// the page is: `node compress.mjs FOLDER`. The gateway sends the copy to whoever accepts it and
// never compresses by itself.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 120_000;
const [dist = "dist"] = process.argv.slice(2);

let total = 0;
for (const name of readdirSync(dist, { recursive: true })) {
  if (!/\.(html|js|css|svg)$/.test(name)) continue;
  const file = join(dist, name);
  const compressed = gzipSync(readFileSync(file), { level: 9 });
  writeFileSync(`${file}.gz`, compressed);
  total += compressed.length;
}
console.log(`bundle: ${total} bytes gzipped, at most ${LIMIT}`);
if (total > LIMIT) process.exit(1);
