// Tests the requests for files of language models, and the conversion of prompts, without a core: retries, progress, optional
// files, and names in errors. The modules of www/src are used directly.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { transformWithOxc } from "vite";
import { root } from "../tools/env.mjs";
import { same } from "./cases/harness.js";
import { finish } from "./support/browser.js";

const compiled = mkdtempSync(join(tmpdir(), "warpweft-src-"));
const src = join(root, "www", "src");
writeFileSync(join(compiled, "package.json"), '{ "type": "module" }');
for (const name of readdirSync(src).filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))) {
  const { code } = await transformWithOxc(readFileSync(join(src, name), "utf8"), join(src, name), { target: "es2022" });
  writeFileSync(join(compiled, name.replace(/ts$/, "js")), code);
}
const load = (name) => import(pathToFileURL(join(compiled, `${name}.js`)).href);
const { Reader } = await load("model-files");
const { filesIn, folderOf } = await load("model-folder");
const { jsonOf, tokensOf } = await load("prompts");
const { prepareLanguage, signals } = await load("prepare-language");
const results = [];

/** Adds a result: passed unless `body` throws. */
async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

/** Returns the error with which `work` rejects. */
async function rejected(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

/** Returns the bytes of a file. Each byte depends on its position. */
const content = (length) => Uint8Array.from({ length }, (_, at) => (at * 7) % 251);

/** Starts a server. `handle` answers the requests. Returns the URL, and the times of the requests. */
async function serve(handle) {
  const asked = [];
  const server = createServer((request, response) => {
    const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    asked.push(performance.now());
    handle({ response, url: request.url, start: Number(start ?? 0), end: Number(end ?? NaN), count: asked.length });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => (server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${server.address().port}/`, asked, close };
}

/** Returns the milliseconds between requests. */
const pauses = (asked) => asked.slice(1).map((time, at) => time - asked[at]);

/** Answers a range request with at most `most` bytes. */
function sendRange({ response, start, end }, bytes, most = Infinity) {
  const last = Math.min(end, bytes.length - 1, start + most - 1);
  response.writeHead(206, { "content-range": `bytes ${start}-${last}/${bytes.length}`, etag: '"1"' });
  response.end(bytes.subarray(start, last + 1));
}

const how = (more = {}) => ({ op: "load", onProgress: () => {}, signal: undefined, keep: false, isWhole: true, ...more });

/** Reads the bytes of a source. */
async function readAll(source) {
  const reader = await Reader.open([source], how());
  try {
    return await reader.read(0, 0, await reader.length(0));
  } finally {
    await reader.close();
  }
}

await test("short answers cost no pause", async () => {
  const bytes = content(50_000);
  const { url, asked, close } = await serve((request) => sendRange(request, bytes, 1000));
  const start = performance.now();
  same(Buffer.compare(await readAll(url), bytes), 0, "the bytes");
  const time = performance.now() - start;
  same(asked.length, 50, "requests");
  if (time > 5000) throw new Error(`50 requests took ${time} ms`);
  close();
});

await test("answers without bytes are retried with pauses, and then refused", async () => {
  const bytes = content(5000);
  const { url, asked, close } = await serve((request) => {
    if (request.start === 0) return sendRange(request, bytes, 1000);
    request.response.writeHead(206, { "content-range": `bytes ${request.start}-4999/5000`, etag: '"1"' }).end();
  });
  const { message } = await rejected(() => readAll(url));
  same(message, `load: ${url} must be readable, got: the connection ended early`, "the error");
  const [, ...apart] = pauses(asked);
  if (!(apart.length === 3 && apart[0] > 450 && apart[1] > 900 && apart[2] > 1900)) throw new Error(String(apart));
  close();
});

for (const status of [429, 500, 503]) {
  await test(`${status} is retried with pauses`, async () => {
    const bytes = content(100);
    const { url, asked, close } = await serve((request) => {
      if (request.count > 2) return sendRange(request, bytes);
      request.response.writeHead(status).end();
    });
    same(Buffer.compare(await readAll(url), bytes), 0, "the bytes");
    const apart = pauses(asked);
    if (!(apart.length === 2 && apart[0] > 450 && apart[1] > 950)) throw new Error(String(apart));
    close();
  });
}

await test("a server can ask for a longer pause", async () => {
  const { url, asked, close } = await serve((request) => {
    if (request.count > 1) return sendRange(request, content(10));
    request.response.writeHead(429, { "retry-after": "2" }).end();
  });
  await readAll(url);
  const [apart] = pauses(asked);
  if (!(apart > 1950 && apart < 6000)) throw new Error(`${apart} ms`);
  close();
});

await test("a server that stays busy is an error, and a pause can be aborted", async () => {
  const { url, asked, close } = await serve(({ response }) => response.writeHead(503, { "retry-after": "9999" }).end());
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("enough")), 200);
  const start = performance.now();
  const aborted = await rejected(() => Reader.open([url], how({ signal: stop.signal })));
  same([aborted.message, asked.length, performance.now() - start < 5000], ["enough", 1, true], "the reason, requests, in time");
  close();
  const busy = await serve(({ response }) => response.writeHead(429).end());
  const { message, code } = await rejected(() => readAll(busy.url));
  const want = `load: ${busy.url} must load, got 429 Too Many Requests in 4 attempts`;
  same([message, code, busy.asked.length], [want, "Format", 4], "the error, its code, and requests");
  busy.close();
});

await test("the progress of a folder only grows", async () => {
  const files = { "config.json": 300, "tokenizer.json": 20_000, "a.safetensors": 90_000, "b.safetensors": 70_000 };
  for (const [isRange, hasLength] of [[true, true], [true, false], [false, true], [false, false]]) {
    const { url, close } = await serve((request) => {
      const bytes = content(files[request.url.slice(1)]);
      if (isRange && !Number.isNaN(request.end)) return sendRange(request, bytes);
      request.response.writeHead(200, hasLength ? { "content-length": bytes.length } : {});
      request.response.write(bytes.subarray(0, 100));
      request.response.end(bytes.subarray(100));
    });
    const reports = [];
    const onProgress = ({ done, total }) => reports.push(done / total);
    const { names, files: sources } = await filesIn(folderOf("load", url, undefined), Object.keys(files));
    const reader = await Reader.open(sources, how({ onProgress }), names);
    for (const [part, name] of names.entries()) {
      same(await reader.length(part), files[name], "the length");
      const bytes = await reader.read(part, 0, files[name]);
      same(Buffer.compare(bytes, content(files[name])), 0, "the bytes");
    }
    await reader.close();
    close();
    const what = `ranges: ${isRange}, lengths: ${hasLength}, ${reports.map((part) => part.toFixed(2))}`;
    if (reports.some((part, at) => part < reports[at - 1])) throw new Error(`the progress falls: ${what}`);
    if (reports.at(-1) !== 1) throw new Error(`the progress does not end at 1: ${what}`);
    if ((hasLength || isRange) && reports[0] > 0.5) throw new Error(`the progress begins late: ${what}`);
  }
});

await test("optional files may be refused, and others not", async () => {
  for (const status of [403, 404, 410]) {
    const { url, close } = await serve(({ response, url }) => {
      const isThere = ["/config.json", "/tokenizer.json"].includes(url);
      response.writeHead(isThere ? 200 : status).end("{}");
    });
    const wanted = ["config.json", "generation_config.json", "tokenizer.json", "special_tokens_map.json"];
    const { names } = await filesIn(folderOf("load", url, undefined), wanted);
    same(names, ["config.json", "tokenizer.json"], `the files that are there with ${status}`);
    close();
    const none = await serve(({ response }) => response.writeHead(status).end());
    const { message } = await rejected(() => filesIn(folderOf("load", none.url, undefined), wanted));
    if (!message.startsWith(`load: ${none.url}config.json must load, got ${status} `)) throw new Error(message);
    none.close();
  }
});

await test("errors name the file in a folder", async () => {
  const hidden = new Blob([content(10)]);
  hidden.slice = () => ({ arrayBuffer: () => Promise.reject(new Error("gone")) });
  const reader = await Reader.open([hidden, content(5)], how(), ["tokenizer.json", "config.json"]);
  const { message } = await rejected(() => reader.read(0, 0, 5));
  same(message, "load: tokenizer.json must be readable, got: gone", "the error");
  const broken = new Response(null, { status: 500 });
  const { message: answer } = await rejected(() => Reader.open([broken], how(), ["config.json"]));
  same(answer, "load: config.json must load, got 500", "the error of a response");
});

await test("lists of tokens are of any kind", () => {
  const lists = [[1, 2], new Uint32Array([1, 2]), new Int32Array([1, 2]), new Float64Array([1, 2]), { length: 2, 0: 1, 1: 2 }];
  for (const list of lists) same([...tokensOf(list)], [1, 2], "the tokens");
  same(tokensOf(new Uint32Array(100_000)).length, 100_000, "the tokens of a long text");
  const odd = [5, null, undefined, "12", {}, { length: 1e9 }, new BigInt64Array(1)];
  for (const value of [...odd, [1.5], [-1], [2 ** 32], ["1"], new Array(2)]) same(tokensOf(value), undefined, "no tokens");
});

await test("half of a surrogate pair becomes U+FFFD", () => {
  const half = "\ud83d";
  const messages = [{ role: "user", content: `a${half} \\ud83d \\\\ 😀 \u0001`, [half]: "\udc00" }];
  const [{ content: text, ...rest }] = JSON.parse(jsonOf("chat", messages));
  same(text, "a\ufffd \\ud83d \\\\ 😀 \u0001", "the text");
  same(rest, { role: "user", "\ufffd": "\ufffd" }, "the other fields");
});

await test("a signal ends a generation between two tokens, unless the text is finished", async () => {
  class Generation {
    left = 2;
    get finish() {
      return this.left === 0 ? "maxTokens" : undefined;
    }
    async nextToken() {
      return this.left === 0 ? undefined : { id: this.left-- };
    }
  }
  class LanguageModel {
    decode(tokens) {
      return [...tokens].join();
    }
  }
  prepareLanguage({ classes: { Generation, LanguageModel } });
  same(new LanguageModel().decode([3, 4]), "3,4", "the tokens");
  const { message } = await rejected(async () => new LanguageModel().decode(5));
  same(message, "decode: tokens must be a list of tokens, got 5", "the error");
  const [generation, stop] = [new Generation(), new AbortController()];
  signals.set(generation, stop.signal);
  same(await generation.nextToken(), { id: 2 }, "the first token");
  const last = generation.nextToken();
  stop.abort(new Error("enough"));
  same([await last, await generation.nextToken()], [{ id: 1 }, undefined], "the last token, and the end");
  generation.left = 1;
  same((await rejected(() => generation.nextToken())).message, "enough", "the reason");
});

rmSync(compiled, { recursive: true, force: true });
finish(results);
