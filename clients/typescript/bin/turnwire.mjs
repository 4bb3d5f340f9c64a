#!/usr/bin/env node
// `npx turnwire …`: starts the program of Turnwire.
//
// The program is a package of its own for each platform, so that whoever installs this package for its
// client does not download it. If it is not installed beside this one, npm fetches it into its cache.

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

const PLATFORMS = ["linux-x64", "linux-arm64"];

const platform = `${process.platform}-${process.arch}`;
if (!PLATFORMS.includes(platform)) {
  console.error(`turnwire: there is no package for ${platform}, only for ${PLATFORMS.join(" and ")}.`);
  console.error("Build it with `cargo install turnwire-cli`, or use the container image.");
  process.exit(1);
}

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const packageName = `turnwire-cli-${platform}`;

function installed() {
  try {
    return createRequire(import.meta.url).resolve(`${packageName}/turnwire`);
  } catch {
    return undefined;
  }
}

/** Where npm keeps the program, after fetching it. */
function fetched() {
  const question = ["exec", "--yes", `--package=${packageName}@${version}`, "--call", `command -v turnwire-${platform}`];
  try {
    return execFileSync("npm", question, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
  } catch {
    console.error(`turnwire: npm could not fetch ${packageName}@${version}; install it beside turnwire.`);
    process.exit(1);
  }
}

const program = spawn(installed() ?? fetched(), process.argv.slice(2), { stdio: "inherit" });
// Ctrl-C reaches both; the program decides what it means. Other signals are passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => program.kill(signal));
program.on("error", (error) => {
  console.error(`turnwire: ${error.message}`);
  process.exit(1);
});
program.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
