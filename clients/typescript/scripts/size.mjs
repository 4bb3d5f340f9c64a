// Bundles the client for browsers and checks its size: at most 8 kB, minified and gzipped.

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const MAX_BYTES = 8_000;

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL("../dist/index.js", import.meta.url))],
  bundle: true,
  minify: true,
  format: "esm",
  platform: "browser",
  target: "es2022",
  write: false,
});
const [{ contents }] = outputFiles;
const { length } = gzipSync(contents, { level: 9 });
console.log(`bundle: ${contents.length} bytes, ${length} gzipped, at most ${MAX_BYTES}`);
if (length > MAX_BYTES) process.exit(1);
