// openai-node, 6 and 7, over every recorded and every random run: its own types, made into a JSON Schema, judge
// each event and each response; its own stream reader and its helper go through to the end.

import Ajv from "ajv";
import OpenAI from "openai";
import OpenAI6 from "openai-6";
import { createGenerator } from "ts-json-schema-generator";
import { fileURLToPath } from "node:url";

import { Fold, plain, same } from "./fold.mjs";
import { goldenOf, GOLDENS, streaming, whole } from "./goldens.mjs";
import { assert, equal, main, test } from "./harness.mjs";
import { testRandom } from "./runs.mjs";

const CLIENTS = [
  { name: "openai 7", Client: OpenAI, package: "openai" },
  { name: "openai 6", Client: OpenAI6, package: "openai-6" },
];

// Where we differ from the types on purpose. One that is never met is taken out.
const EXCEPTIONS = [
  {
    why: "`output_text` is added by the client itself",
    is: ({ params }) => params.missingProperty === "output_text",
  },
  {
    why: "Open Responses wants `usage` at all times, and OpenAI sends null until it is known",
    is: ({ instancePath, data }) => instancePath.endsWith("/usage") && data === null,
  },
  {
    why: "limits and cancels of ours have reasons of their own",
    is: ({ instancePath }) => /\/incomplete_details(\/reason)?$/.test(instancePath),
  },
  {
    why: "OpenAI sends `context_length_exceeded` itself, and clients look for it",
    is: ({ instancePath, data }) =>
      (instancePath.endsWith("/error/code") && data === "context_length_exceeded") ||
      (instancePath.endsWith("/error") && data?.code === "context_length_exceeded"),
  },
  {
    why: "the action of a web search is known when the search is over",
    is: ({ data, params }) => data?.type === "web_search_call" && params.missingProperty === "action",
  },
  {
    why: "the error of an MCP call is an object since openai 7; 6 has a text",
    is: ({ data, instancePath }) => instancePath.endsWith("/error") && data?.type?.startsWith("mcp_"),
    package: "openai-6",
  },
].map((exception) => ({ ...exception, met: new Set() }));

/** Says what the types of `package` think of a value. */
class Judge {
  #schema;
  #ajv = new Ajv({ strict: false, allErrors: true, verbose: true });
  #names = new Map();

  constructor(packageName) {
    this.package = packageName;
    const path = fileURLToPath(import.meta.resolve(`${packageName}/resources/responses/responses`)).replace(/\.m?js$/, ".d.ts");
    const options = { path, type: "ResponseStreamEvent", skipTypeCheck: true, additionalProperties: true };
    this.#schema = createGenerator(options).createSchema("ResponseStreamEvent");
    this.#ajv.addSchema(this.#schema, "types");
    this.#name("ResponseStreamEvent");
    this.#name("ResponseOutputItem");
  }

  /** Notes which definition stands for which `type`. */
  #name(union) {
    for (const { $ref } of this.#schema.definitions[union].anyOf) {
      const name = decodeURIComponent($ref.split("/").at(-1));
      const { const: type, enum: types } = this.#schema.definitions[name].properties.type;
      for (const one of types ?? [type]) this.#names.set(one, name);
    }
  }

  knows(event) {
    return this.#names.has(event.type);
  }

  event(event) {
    // Unions are judged by the member that the `type` names: what the others miss tells nothing.
    const { item, response, ...rest } = event;
    const mistakes = [];
    if (item) mistakes.push(...this.value(this.#names.get(item.type), item));
    if (response) mistakes.push(...this.response(response));
    const shell = item ? { ...rest, item: STAND_IN } : response ? undefined : rest;
    return shell ? [...mistakes, ...this.value(this.#names.get(event.type), shell)] : mistakes;
  }

  response({ output, ...rest }) {
    const items = output.flatMap((item) => this.value(this.#names.get(item.type), item));
    return [...items, ...this.value("Response", { ...rest, output: [] })];
  }

  value(name, value) {
    assert(name, "there is no type for", value);
    const validate = this.#ajv.getSchema(`types#/definitions/${encodeURIComponent(name)}`);
    if (validate(value)) return [];
    return validate.errors.filter((error) => !this.#isException(error)).map(({ instancePath, message, params, data }) =>
      `${name}${instancePath}: ${message} ${JSON.stringify(params)}, is ${JSON.stringify(data)?.slice(0, 200)}`);
  }

  #isException(error) {
    // What a union says once all its members are refused says nothing new.
    if (error.keyword === "anyOf" || (error.keyword === "type" && error.params.type === "null")) return true;
    const exception = EXCEPTIONS.find((it) => (it.package ?? this.package) === this.package && it.is(error));
    exception?.met.add(this.package);
    return Boolean(exception);
  }
}

/** An item that nobody can object to. */
const STAND_IN = { type: "message", id: "msg_0", role: "assistant", status: "completed", content: [] };

/** Reads a stream event by event; a failed run must throw what it says at its end. */
async function readRaw(client, golden) {
  const { response } = golden;
  const fold = new Fold();
  const stream = await client(streaming(golden)).responses.create({ model: "m", input: "?", stream: true });
  try {
    for await (const event of stream) fold.add(event);
  } catch (error) {
    assert(response.status === "failed" && error.message.includes(response.error.message), error);
    return;
  }
  assert(response.status !== "failed", "it raised nothing");
  equal(fold.response(), response);
}

for (const { name: sdk, Client, package: packageName } of CLIENTS) {
  const judge = new Judge(packageName);
  const client = (fetch) => new Client({ apiKey: "test", maxRetries: 0, fetch });

  for (const golden of GOLDENS) {
    const { name, profile, events, response } = golden;
    const isFailed = response.status === "failed";

    test(`${sdk}: types of ${name}, ${profile}`, async () => {
      const official = events.filter((event) => judge.knows(event));
      if (profile === "strict") equal(official.length, events.length, "official events");
      equal(official.flatMap((event) => judge.event(event)), [], "mistakes");
    });

    test(`${sdk}: raw stream of ${name}, ${profile}`, () => readRaw(client, golden));

    test(`${sdk}: response of ${name}, ${profile}`, async () => {
      same(await client(whole(golden)).responses.retrieve(response.id), response);
    });

    // The helper throws on events that it does not know.
    if (profile !== "strict") continue;

    test(`${sdk}: helper stream of ${name}`, async () => {
      const stream = client(streaming(golden)).responses.stream({ model: "m", input: "?" });
      try {
        for await (const _ of stream);
      } catch (error) {
        assert(isFailed && error.message.includes(response.error.message), error);
        return;
      }
      equal(plain(await stream.finalResponse()), plain(response));
    });
  }

  testRandom(`${sdk}: types and raw stream of`, async (run) => {
    const golden = goldenOf(run, "strict");
    equal(golden.events.flatMap((event) => judge.event(event)), [], "mistakes");
    await readRaw(client, golden);
  });

  test(`${sdk}: every exception is needed`, async () => {
    const unmet = EXCEPTIONS.filter((it) => (it.package ?? packageName) === packageName && !it.met.has(packageName));
    equal(unmet.map(({ why }) => why), [], "exceptions that nobody needs");
  });
}

await main("judges openai");
