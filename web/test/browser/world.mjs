// What the page is tried against: a real gateway whose model plays the script in the message, MCP
// tools that work, fail, ask and hang, a line that can be cut, and a browser.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { pageInFront } from "./front.mjs";

const { TURNWIRE_BIN, UPSTREAMS_BIN, MCP_PROPS_BIN, PAGE_FROM, CHROMIUM = "/usr/bin/chromium" } = process.env;
const OPS_SERVER = fileURLToPath(new URL("ops_server.mjs", import.meta.url));
/** Generous, because machines that test are slow and busy. */
export const PATIENCE = 30_000;
/** Whatever was started and has to end, and the folders that are left behind. */
const children = new Set();
const folders = new Set();

export const script = (...turns) => JSON.stringify({ turns });
export const call = (name, args = {}) => ({ name, arguments: args });

/** Starts a program and returns the first line that it prints, as JSON. */
async function start(program, args, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"], ...options });
  children.add(child);
  child.once("exit", () => children.delete(child));
  const lines = createInterface({ input: child.stdout });
  const first = await new Promise((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
  });
  return { child, said: JSON.parse(first) };
}

function ended(child) {
  return child.exitCode !== null || child.signalCode !== null ? undefined : new Promise((resolve) => child.once("exit", resolve));
}

/** Runs `turnwire` in no terminal, without settings or keys of whoever runs the test, to its end. */
export async function turnwire(...args) {
  const folder = mkdtempSync(join(tmpdir(), "web-view-"));
  folders.add(folder);
  const env = { PATH: process.env.PATH, HOME: folder };
  const child = spawn(TURNWIRE_BIN, args, { stdio: ["ignore", "pipe", "pipe"], cwd: folder, env });
  children.add(child);
  child.once("exit", () => children.delete(child));
  let [out, err] = ["", ""];
  child.stdout.on("data", (text) => (out += text));
  child.stderr.on("data", (text) => (err += text));
  const code = await new Promise((resolve) => child.once("close", resolve));
  return { code, out, err };
}

/** A gateway that can be killed and started again at the same address, with the same store. */
export class Gateway {
  #folder = mkdtempSync(join(tmpdir(), "web-view-"));
  #child;
  #args;
  #env;
  #ownPort;
  /** Where clients reach it: its own port, or that of the page in front of it. */
  port;

  static async start(settings, { args = [], env = {} } = {}) {
    const gateway = new Gateway();
    folders.add(gateway.#folder);
    writeFileSync(join(gateway.#folder, "turnwire.toml"), settings);
    gateway.#args = args;
    gateway.#env = env;
    await gateway.restart();
    gateway.port = PAGE_FROM ? await pageInFront(PAGE_FROM, gateway.#ownPort) : gateway.#ownPort;
    return gateway;
  }

  async restart() {
    const listen = `127.0.0.1:${this.#ownPort ?? 0}`;
    const options = { cwd: this.#folder, env: { ...process.env, ...this.#env } };
    const { child, said } = await start(TURNWIRE_BIN, ["serve", "--json", "--listen", listen, ...this.#args], options);
    this.#child = child;
    this.#ownPort = Number(said.listening.split(":").at(-1));
  }

  async kill() {
    const gone = ended(this.#child);
    this.#child.kill("SIGKILL");
    await gone;
  }
}

/** A line to a gateway, that can be cut: connections break, and new ones are refused. */
export class Line {
  #open = true;
  #sockets = new Set();
  #server;
  url;

  static async to(gateway) {
    const line = new Line();
    line.#server = createServer((near) => {
      if (!line.#open) return void near.destroy();
      const far = connect(gateway.port, "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]]) {
        line.#sockets.add(one);
        one.on("error", () => undefined);
        one.on("close", () => {
          line.#sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    await new Promise((resolve) => line.#server.listen(0, "127.0.0.1", resolve));
    line.url = `http://127.0.0.1:${line.#server.address().port}`;
    return line;
  }

  cut() {
    this.#open = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend() {
    this.#open = true;
  }

  close() {
    this.cut();
    this.#server.close();
  }
}

export async function startUpstreams() {
  const { said } = await start(UPSTREAMS_BIN, ["--port", "0"]);
  return said.models;
}

export function settingsFor(models) {
  return `
[models.default]
kind = "chat_completions"
base_url = ${JSON.stringify(models)}
model = "scripted"

[models.other]
kind = "chat_completions"
base_url = ${JSON.stringify(models)}
model = "scripted"

[mcp_servers.props]
command = ${JSON.stringify(MCP_PROPS_BIN)}
tools.add = { require_approval = "always" }

[mcp_servers.ops]
command = ${JSON.stringify(process.execPath)}
args = [${JSON.stringify(OPS_SERVER)}]
tools.drop_table = { require_approval = "always" }
`;
}

const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export function openBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

/** Waits until `what` holds; asks often, and gives up late. */
export async function until(name, what, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const answer = await what();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`it never came true: ${name}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export async function stopEverything() {
  const gone = [...children].map(ended);
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(gone);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
