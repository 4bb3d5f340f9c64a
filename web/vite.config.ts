// The page is built into `dist`, which the gateway embeds. `npm run dev` serves it with reloading
// and passes everything else on to a gateway (TURNWIRE_URL).

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const client = fileURLToPath(new URL("../clients/typescript/src", import.meta.url));
const gateway = process.env.TURNWIRE_URL ?? "http://127.0.0.1:7878";
const proxy = Object.fromEntries(["/v1", "/chat", "/ai-sdk", "/healthz", "/readyz"].map((path) => [path, { target: gateway, changeOrigin: false }]));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^turnwire$/, replacement: `${client}/index.ts` },
      { find: /^turnwire\/(.*)$/, replacement: `${client}/$1` },
    ],
  },
  build: {
    target: "es2022",
    // Nothing inline: the content security policy allows no `data:` style sheets or scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy },
  preview: { proxy },
});
