// Tests the sources of language models, and rejected calls: files, servers that break off, hashes, cancellation, and bad
// arguments, in Node; files that the browser keeps, in Chromium. On the CPU.

import { createHash } from "node:crypto";
import { createReadStream, openAsBlob, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import { deleteModel, Device, keptModels, LanguageModel } from "../dist/models.js";
import { same } from "./cases/harness.js";
import { finish, launch } from "./support/browser.js";

const path = join(modelFolder, "SmolLM2-135M-Instruct.Q4_1.gguf");
const { size } = statSync(path);
const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
const device = await Device.new({ prefer: "cpu" });
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

function says(text, ...words) {
  for (const word of words) if (!text.includes(word)) throw new Error(`no ${word} in ${text}`);
}

/** Returns the error that `work` throws, or with which it rejects. */
async function thrown(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

/** Fails unless the error has this code and these words. */
async function refused(work, code, ...words) {
  const error = await thrown(work);
  for (const word of words) {
    const is = error.code === code && error.message.includes(word);
    if (!is) throw new Error(`no ${code}, ${word}: ${error.code}, ${error.message}`);
  }
}

/** Returns the answer of a model that is loaded from a source. */
async function answer(source, options = {}) {
  const model = await LanguageModel.load(source, { device, context: 256, ...options });
  const text = await model.chat([{ role: "user", content: "What is the capital of France?" }]).text();
  model.dispose();
  return text;
}

/** Returns the bytes of tensors and variables of the device. */
function held() {
  const { tensors, variables, constants } = device.memory();
  return tensors + variables + constants;
}

const right = "The capital of France is Paris.";

/**
 * Starts a server with the model, the package and an empty page. `handle` may answer for the model, and returns whether it did.
 */
async function serve(handle) {
  const asked = [];
  const server = createServer((request, response) => {
    if (request.url === "/") {
      return response.writeHead(200, { "content-type": "text/html" }).end('<!doctype html><link rel="icon" href="data:,">');
    }
    if (request.url.startsWith("/dist/")) {
      const type = request.url.endsWith(".wasm") ? "application/wasm" : "text/javascript";
      response.writeHead(200, { "content-type": type }).end(readFileSync(join(root, "www", request.url)));
      return;
    }
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    const [start, end] = [Number(from ?? 0), Math.min(Number(to ?? size), size - 1)];
    asked.push([start, end]);
    if (handle({ response, start, end, count: asked.length })) return;
    response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}`, etag: '"1"' });
    createReadStream(path, { start, end }).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => (server.closeAllConnections(), server.close());
  const address = `http://127.0.0.1:${server.address().port}`;
  return { address, url: `${address}/model.gguf`, asked, close };
}

const sources = {
  "a path": () => path,
  "an address of a file": () => pathToFileURL(path),
  "a blob": () => openAsBlob(path),
  bytes: () => readFileSync(path),
  "a response": async () => new Response(await openAsBlob(path)),
};
/** Returns files as a page's `<input type="file">` does. */
function picked(...files) {
  return Object.assign(Object.create({ [Symbol.toStringTag]: "FileList", [Symbol.iterator]: () => files.values() }), files);
}

await test("from the list of files of an input", async () => {
  const file = new File([await openAsBlob(path)], "model.gguf");
  same(await answer(picked(file)), right, "the answer");
  same(await answer(picked(file), { sha256: [sha256] }), right, "the answer of a file with a hash");
  await refused(() => answer(picked(file), { sha256: [] }), "InvalidArgument", "hash of each of the 1 parts, got 0");
});

for (const [name, source] of Object.entries(sources)) {
  await test(`from ${name}`, async () => same(await answer(await source()), right, "the answer"));
}

await test("from a server that knows of ranges", async () => {
  const { url, asked, close } = await serve(() => false);
  same(await answer(url), right, "the answer");
  const bytes = asked.reduce((sum, [start, end]) => sum + end + 1 - start, 0);
  if (asked.length > 30 || bytes > 1.15 * size) throw new Error(`${asked.length} requests for ${bytes} bytes`);
  close();
});

await test("from a server that knows of none", async () => {
  const { url, asked, close } = await serve(({ response }) => {
    response.writeHead(200, { "content-length": size });
    createReadStream(path).pipe(response);
    return true;
  });
  same([await answer(url), asked.length], [right, 1], "the answer, and requests");
  close();
});

await test("from a server that does not tell the length of a range", async () => {
  const { url, close } = await serve(({ response, start, end }) => {
    const isRange = end < size - 1;
    response.writeHead(isRange ? 206 : 200);
    createReadStream(path, isRange ? { start, end } : {}).pipe(response);
    return true;
  });
  same(await answer(url), right, "the answer");
  close();
});

/** Breaks off a third of the responses in the middle, some of them before they begin. */
function breakOff({ response, start, end, count }) {
  if (count % 3) return false;
  if (count % 2) return response.destroy() || true;
  const range = `bytes ${start}-${end}/${size}`;
  response.writeHead(206, { "content-range": range, etag: '"1"', "content-length": end + 1 - start });
  const half = createReadStream(path, { start, end: start + Math.floor((end - start) / 2) });
  half.on("data", (data) => response.write(data)).on("end", () => setTimeout(() => response.destroy(), 20));
  return true;
}

await test("a connection that breaks off is taken up again", async () => {
  const { url, asked, close } = await serve(breakOff);
  same(await answer(url), right, "the answer");
  if (!asked.some(([start]) => start % (1 << 22))) throw new Error("nothing was taken up in the middle");
  close();
});

await test("a file that changes on the way is refused", async () => {
  const { url, close } = await serve(({ response, start, end, count }) => {
    response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}`, etag: `"${count > 3}"` });
    createReadStream(path, { start, end }).pipe(response);
    return true;
  });
  await refused(() => answer(url), "Format", "must stay the same");
  close();
});

await test("another range than the requested one is refused", async () => {
  // As from a cache that ignores ranges.
  const { url, close } = await serve(({ response, start, end }) => {
    const length = end + 1 - start;
    response.writeHead(206, { "content-range": `bytes 0-${length - 1}/${size}`, etag: '"1"' });
    createReadStream(path, { start: 0, end: length - 1 }).pipe(response);
    return true;
  });
  await refused(() => answer(url), "Format", `/${size}, got bytes 0-`);
  close();
});

await test("a context that fits no memory is refused", async () => {
  const load = () => LanguageModel.load(path, { device, context: 8_000_000 });
  await refused(load, "Memory", "the model must fit into the free memory of ");
});

await test("arguments of loadAdapter are checked", async () => {
  const model = await LanguageModel.load(path, { device, context: 64 });
  const { config, weights } = await model.createAdapter({ rank: 2 }).save();
  for (const wrong of [{}, 5, null, undefined, new Uint8Array(1)]) {
    await refused(() => model.loadAdapter(wrong, weights), "InvalidArgument", "loadAdapter: config must be a string, got ");
  }
  for (const wrong of [{ length: -1 }, { length: 1e9 }, "weights", undefined]) {
    await refused(() => model.loadAdapter(config, wrong), "InvalidArgument", "loadAdapter: weights must be a Uint8Array");
  }
  for (const wrong of [{}, 5, null, undefined, model, device]) {
    await refused(() => model.withAdapter(wrong), "InvalidArgument", "withAdapter: adapter must be a LoraAdapter, got ");
  }
  // The core still works.
  const adapter = model.loadAdapter(config, weights.slice().buffer);
  same(model.withAdapter(adapter).encode("A").length, 1, "the tokens");
  model.dispose();
});

await test("what is no model is refused", async () => {
  const whole = readFileSync(path);
  const page = () => new Response("<!doctype html><html></html>");
  await refused(() => answer(page()), "Format", "load: at byte 0", "an HTML page");
  await refused(() => answer(whole.subarray(0, 1000)), "Format", "load: at byte ");
  await refused(() => answer(whole.subarray(0, size - 1)), "Format", "incomplete");
  await refused(() => answer(new Uint8Array(0)), "Format", "load: at byte 0");
  await refused(() => answer("/nowhere.gguf"), "Format", "load: /nowhere.gguf must be readable");
  await refused(() => answer([path, path]), "Format", "all parts of one model");
  await refused(() => answer([]), "InvalidArgument", "at least one part");
  for (const odd of [5, null, undefined, {}, Symbol("x")]) {
    await refused(() => answer(odd), "InvalidArgument", "load: the source must be");
  }
  const { url, close } = await serve(({ response }) => response.writeHead(404).end() && true);
  await refused(() => answer(url), "Format", "404");
  close();
  await refused(() => answer(path, { cache: "i8" }), "InvalidArgument", "cache must be one of f16, f32");
  await refused(() => answer(path, { contxt: 5 }), "InvalidArgument", "contxt");
  await refused(() => answer(path, { signal: 5 }), "InvalidArgument", "signal must be an AbortSignal");
  for (const context of [0, -1, 1.5, NaN, "64"]) {
    await refused(() => answer(path, { context }), "InvalidArgument", "load: context must be an integer of at least 1, got ");
  }
  const tensor = device.tensor([1]);
  await refused(() => answer(path, { device: tensor }), "InvalidArgument", "load: device must be a Device");
  await refused(() => answer(path, { device: 5 }), "InvalidArgument", "load: device must be a Device, got 5");
  tensor.dispose();
});

await test("a file has the hash that it must have", async () => {
  const { url, asked, close } = await serve(breakOff);
  const all = { ...sources, "an address": () => url };
  const other = "0".repeat(64);
  for (const [name, source] of Object.entries(all)) {
    same(await answer(await source(), { sha256 }), right, `the answer from ${name}`);
    await refused(async () => answer(await source(), { sha256: other }), "Format", `SHA-256 ${other}, got ${sha256}`, "load: ");
  }
  const bytes = asked.reduce((sum, [start, end]) => sum + end + 1 - start, 0);
  if (bytes > 3 * size) throw new Error(`the server was asked for ${bytes} bytes for two loads`);
  same(await answer([path], { sha256: [sha256.toUpperCase()] }), right, "the answer of a list");
  await refused(() => answer(path, { sha256: other }), "Format", `load: ${path} must have the SHA-256`);
  await refused(() => answer(readFileSync(path), { sha256: other }), "Format", "load: the file must have the SHA-256");
  await refused(() => answer(path, { sha256: "5" }), "InvalidArgument", "load: sha256 must be 64 hexadecimal digits");
  await refused(() => answer(path, { sha256: [sha256] }), "InvalidArgument", "load: sha256 must be 64 hexadecimal digits");
  await refused(() => answer([path], { sha256 }), "InvalidArgument", "load: sha256 must be a list");
  await refused(() => answer([path], { sha256: [sha256, sha256] }), "InvalidArgument", "each of the 1 parts, got 2 hashes");
  const digits = "load: sha256[0] must be 64 hexadecimal digits";
  await refused(() => answer([path], { sha256: [undefined] }), "InvalidArgument", digits);
  close();
});

await test("progress tells the seconds that are left", async () => {
  const { url, close } = await serve(({ response, start, end }) => {
    setTimeout(() => {
      response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}`, etag: '"1"' });
      createReadStream(path, { start, end }).pipe(response);
    }, 200);
    return true;
  });
  const reports = [];
  await answer(url, { sha256, onProgress: (progress) => reports.push({ ...progress, time: performance.now() }) });
  close();
  same([...new Set(reports.map(({ total }) => total))], [size], "totals");
  if (reports.some(({ done }, at) => at > 0 && done <= reports[at - 1].done)) throw new Error("the progress does not grow");
  const [first, last] = [reports[0], reports.at(-1)];
  same([first.seconds, last.seconds, last.done], [undefined, undefined, size], "the first and the last");
  const end = last.time;
  const half = reports[Math.floor(reports.length / 2)];
  const apart = half.seconds / ((end - half.time) / 1000);
  if (!(apart > 0.5 && apart < 2)) throw new Error(`${half.seconds} s were told when ${(end - half.time) / 1000} were left`);
});

await test("Node keeps no models", async () => {
  const { url, close } = await serve(() => false);
  await refused(() => answer(url, { keep: true }), "Unsupported", "load: the origin private file system must be available");
  await refused(() => LanguageModel.estimate(url, { device, keep: true }), "Unsupported", "estimate: the origin private");
  await refused(() => keptModels(), "Unsupported", "keptModels: the origin private file system");
  await refused(() => deleteModel(url), "Unsupported", "deleteModel: the origin private file system");
  await refused(() => deleteModel(5), "InvalidArgument", "deleteModel: the model must be a name or an address, got 5");
  await refused(() => answer(url, { keep: 1 }), "InvalidArgument", "load: keep must be a boolean");
  for (const source of [path, readFileSync(path)]) {
    const must = "load: the source must be an address";
    await refused(() => answer(source, { keep: true }), "InvalidArgument", must, "because keep is set");
  }
  close();
});

await test("loading is cancelled, and leaves nothing behind", async () => {
  const before = held();
  for (const part of [0, 0.3, 0.9]) {
    const stop = new AbortController();
    const onProgress = ({ done, total }) => done / total > part && stop.abort(new Error("enough"));
    const error = await thrown(() => answer(path, { onProgress, signal: stop.signal }));
    same(error.message, "enough", "the reason");
    same(held(), before, "bytes that tensors hold");
  }
});

const model = await LanguageModel.load(path, { device, context: 64 });

await test("an estimate is what is then allocated", async () => {
  const { weights, cache, temporaries, total } = await LanguageModel.estimate(path, { device, context: 64 });
  same(total, weights + cache + temporaries, "the total");
  const before = device.memory().allocated;
  const other = await LanguageModel.load(path, { device, context: 64 });
  await other.generate("The", { maxTokens: 2 }).text();
  const apart = (device.memory().allocated - before) / total;
  if (!(apart > 0.9 && apart < 1.1)) throw new Error(`${apart} of the estimate`);
  other.dispose();
});

await test("a text is stopped, and the conversation goes on", async () => {
  const stop = new AbortController();
  const messages = [{ role: "user", content: "Count to a hundred." }];
  let count = 0;
  const error = await thrown(async () => {
    for await (const _ of model.chat(messages, { signal: stop.signal })) if (++count === 3) stop.abort(new Error("enough"));
  });
  same([error.message, count], ["enough", 3], "the reason, and pieces");
  same(await model.chat([{ role: "user", content: "What is the capital of France?" }]).text(), right, "the next answer");
  for await (const _ of model.chat(messages)) break;
  if (!(model.contextUsed > 0 && model.contextUsed <= model.contextLength)) throw new Error(`${model.contextUsed} tokens`);
});

await test("options are those of sampling", async () => {
  const say = (options) => model.generate("Once upon a time", { maxTokens: 8, ...options }).text();
  const plain = await say({});
  same(await say({ temperature: 0 }), plain, "the usual temperature");
  same(await say({ temperature: 1, seed: 3 }), await say({ temperature: 1, seed: 3 }), "equal seeds");
  const drawn = new Set();
  for (let seed = 0; seed < 6; seed++) drawn.add(await say({ temperature: 1.5, seed }));
  if (drawn.size < 4) throw new Error(`${drawn.size} texts of 6 seeds`);
  same(await say({ temperature: 1.5, seed: 1, topK: 1 }), plain, "the likeliest one of one");
  const [first] = model.encode(plain);
  const { id } = await model.generate("Once upon a time", { maxTokens: 1, logitBias: [[first, -100]] }).nextToken();
  if (id === first) throw new Error("the bias does nothing");
  const cut = model.generate("Once upon a time", { stop: plain.slice(4, 8) });
  same([await cut.text(), cut.finish], [plain.slice(0, 4), "stop"], "up to a text");
  const long = model.generate("Once", { ignoreEnd: true });
  await long.text();
  same([long.finish, model.contextUsed], ["contextFull", 64], "the end of the context");
});

await test("tokens may be in a list of any kind", async () => {
  const ids = model.encode("Once upon a time");
  const say = (prompt) => model.generate(prompt, { maxTokens: 3 }).text();
  const want = await say(ids);
  for (const list of [[...ids], Int32Array.from(ids), Float64Array.from(ids), { ...ids, length: ids.length }]) {
    same(await say(list), want, "the text after a list");
    same(model.decode(list), "Once upon a time", "the text of a list");
  }
  same(model.decode(new Uint32Array(70_000).fill(ids[1])).length, 70_000 * model.decode([ids[1]]).length, "a long text");
});

await test("half of a surrogate pair in a message is replaced", async () => {
  const say = (content) => model.chat([{ role: "user", content }], { maxTokens: 3 }).text();
  same(await say("Hi \ud83d"), await say("Hi \ufffd"), "the answer");
});

await test("the last token is returned, also if a signal is aborted meanwhile", async () => {
  const stop = new AbortController();
  const options = { maxTokens: 2, ignoreEnd: true, signal: stop.signal };
  const finished = model.generate("Once upon a time", options);
  await finished.nextToken();
  const last = finished.nextToken();
  stop.abort(new Error("enough"));
  same([typeof (await last).id, await finished.nextToken(), finished.finish], ["number", undefined, "maxTokens"], "the end");
  const other = new AbortController();
  const open = model.generate("Once upon a time", { ...options, signal: other.signal });
  await open.nextToken();
  other.abort(new Error("enough"));
  same((await thrown(() => open.nextToken())).message, "enough", "the reason");
});

await test("calls that mean nothing are refused", async () => {
  const generate = (prompt, options) => () => model.generate(prompt, options);
  await refused(generate(5), "InvalidArgument", "generate: prompt must be a text or a list of tokens");
  await refused(generate([1.5]), "InvalidArgument", "generate: prompt must be");
  await refused(generate([]), "InvalidArgument", "at least one token");
  await refused(generate([49152]), "InvalidArgument", "tokens must be below 49152");
  await refused(generate(new Array(65).fill(1)), "Limit", "at most 64 tokens");
  const odd = { temperature: "a", maxTokens: -1, topP: 2, stop: 5, logitBias: [[1]], seed: -1, likeliest: 1.5, ignoreEnd: 1 };
  for (const [name, value] of Object.entries(odd)) {
    const error = await thrown(generate("x", { [name]: value }));
    if (!["InvalidArgument", "Shape"].includes(error.code) || !/generate|sampling/.test(error.message)) throw error;
  }
  await refused(generate("x", { topP: 2 }), "InvalidArgument", "generate: topP must be from 0 to 1, got 2");
  for (const more of [NaN, Infinity]) {
    const must = `generate: logitBias must have numbers below infinity, got ${more === Infinity ? "inf" : more} for token 5`;
    await refused(generate("x", { logitBias: [[5, more]] }), "InvalidArgument", must);
  }
  await refused(generate("x", { stop: [""] }), "InvalidArgument", "`stop` texts must not be empty");
  await refused(generate("x", { temprature: 1 }), "InvalidArgument", "temprature");
  await refused(generate("x", { signal: {} }), "InvalidArgument", "signal must be an AbortSignal");
  const chat = (messages) => () => model.chat(messages);
  await refused(chat("x"), "InvalidArgument", "chat: messages must be a list");
  await refused(chat([{ role: 5 }]), "InvalidArgument", "chat: messages must be messages with a role and a content");
  const ring = [];
  ring.push(ring);
  await refused(chat(ring), "InvalidArgument", "chat: messages must be plain data");
  await refused(() => model.decode(["a"]), "InvalidArgument", "decode");
  await refused(() => model.encode(5), "InvalidArgument", "encode: text must be a string");
  await refused(() => new LanguageModel(), "InvalidArgument", "LanguageModel");
});

await test("a text whose model began another one ends", async () => {
  const first = model.generate("Once upon a time");
  await first.nextToken();
  const second = model.generate("The capital of France is", { maxTokens: 3 });
  await refused(() => first.nextToken(), "InvalidState", "an earlier one");
  const both = [second.nextToken(), second.nextToken()];
  const ends = (await Promise.allSettled(both)).map(({ status }) => status);
  if (!ends.includes("fulfilled")) throw new Error(String(ends));
  await second.text();
});

await test("what was disposed of says so, and gives its memory back", async () => {
  const generation = model.generate("Once");
  const next = generation.nextToken();
  model.dispose();
  await next;
  await refused(() => model.generate("x"), "InvalidState", "the object must not be disposed");
  generation.dispose();
  await refused(() => generation.nextToken(), "InvalidState", "the object must not be disposed");
  same([String(model), String(generation)], ["LanguageModel(disposed)", "Generation(disposed)"], "how they show themselves");
  // Generated texts that are not collected yet may hold their last logits.
  if (held() > 4e6) throw new Error(`${held()} bytes are held`);
});

const browser = await launch();

/** Runs a test with a server, which may get a `handle`, and with a function that opens a page of it. */
async function testPage(name, body) {
  await test(name, async () => {
    const server = await serve((request) => server.handle?.(request) ?? false);
    const context = await browser.newContext();
    try {
      await body(server, () => newPage(context, server.address));
    } finally {
      await context.close();
      server.close();
    }
  });
}

/** Opens a page, with functions of the package that it runs. */
async function newPage(context, address) {
  const page = await context.newPage();
  await page.goto(address);
  await page.evaluate(() => {
    globalThis.attempt = async (work) => {
      try {
        return await work(await import("/dist/models.js"));
      } catch ({ code, message }) {
        return { code, message };
      }
    };
  });
  return {
    page,
    kept: () => page.evaluate(() => attempt(({ keptModels }) => keptModels())),
    remove: (model) => page.evaluate((model) => attempt(({ deleteModel }) => deleteModel(model)), model),
    load: (url, options = {}) => page.evaluate(loadInPage, [url, options]),
  };
}

/** Loads a model and returns some tokens of a text, or the error. Stops at a part of the file if `stopAt` is given. */
function loadInPage([url, { stopAt = 2, ...options }]) {
  return attempt(async ({ Device, LanguageModel }) => {
    const device = await Device.new({ prefer: "cpu" });
    const stop = new AbortController();
    const onProgress = ({ done, total }) => done / total >= stopAt && stop.abort(new Error("enough"));
    try {
      const settings = { ...{ device, context: 64, keep: true, onProgress, signal: stop.signal }, ...options };
      const model = await LanguageModel.load(url, settings);
      return await model.generate("The capital of France is", { maxTokens: 3 }).text();
    } finally {
      device.dispose();
    }
  });
}

const short = await LanguageModel.load(path, { device, context: 64 });
const begun = await short.generate("The capital of France is", { maxTokens: 3 }).text();
short.dispose();
const isDown = ({ response }) => response.destroy() || true;
const bytesOf = (asked) => asked.reduce((sum, [start, end]) => sum + end + 1 - start, 0);

await testPage("a kept model needs no server", async (server, newPage) => {
  const { url } = server;
  const { page, load, kept, remove } = await newPage();
  same(await kept(), [], "what is kept at first");
  same(await load(url), begun, "the first text");
  if (bytesOf(server.asked) > 1.1 * size) throw new Error(`the server was asked for ${bytesOf(server.asked)} bytes`);
  const facts = { name: "model.gguf", url, bytes: size, total: size };
  same(await kept(), [facts], "what is kept");
  server.handle = isDown;
  const count = server.asked.length;
  await page.reload();
  const other = await newPage();
  same(await other.load("/model.gguf"), begun, "the text in another page");
  const estimate = (url) => attempt(({ LanguageModel }) => LanguageModel.estimate(url, { keep: true }));
  const { total } = await other.page.evaluate(estimate, url);
  if (!(total > 1e8)) throw new Error(`the estimate is ${total}`);
  same(server.asked.length, count, "requests");
  same([await other.remove("model.gguf"), await other.remove(url)], [true, false], "whether there was one to delete");
  same(await other.kept(), [], "what is kept after it was deleted");
  same((await other.load(url)).code, "Format", "the error of a load afterwards");
});

await testPage("a worker keeps models, too", async (server, newPage) => {
  const { page, kept } = await newPage();
  const text = await page.evaluate(async (url) => {
    const script = `import { Device, LanguageModel } from "${location.origin}/dist/models.js";
      const device = await Device.new({ prefer: "cpu" });
      const model = await LanguageModel.load("${url}", { device, context: 64, keep: true });
      postMessage(await model.generate("The capital of France is", { maxTokens: 3 }).text());`;
    const file = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const worker = new Worker(file, { type: "module" });
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => resolve(message);
    });
  }, server.url);
  same([text, (await kept())[0].bytes], [begun, size], "the text, and bytes that the page finds");
});

await testPage("a download that breaks off is taken up again", async (server, newPage) => {
  const { load, kept } = await newPage();
  server.handle = breakOff;
  same(await load(server.url, { sha256 }), begun, "the text");
  if (!server.asked.some(([start]) => start % (1 << 22))) throw new Error("nothing was taken up in the middle");
  same((await kept()).map(({ bytes }) => bytes), [size], "bytes that are kept");
});

await testPage("an interrupted download is continued", async (server, newPage) => {
  const { url, asked } = server;
  const { page, load, kept, remove } = await newPage();
  same((await load(url, { stopAt: 0.5 })).message, "enough", "the reason");
  const [{ bytes, total }] = await kept();
  if (!(bytes > 0.45 * size && bytes < 0.7 * size && total === size)) throw new Error(`${bytes} of ${total} bytes are kept`);
  server.handle = isDown;
  same((await load(url)).code, "Format", "the error of a load without the server");
  server.handle = undefined;
  asked.length = 0;
  same(await load(url, { sha256 }), begun, "the text of the load that continued");
  if (bytesOf(asked) > 0.7 * size) throw new Error(`the server was asked for ${bytesOf(asked)} bytes`);

  await remove(url);
  asked.length = 0;
  // The second half never arrives.
  server.handle = ({ count }) => count >= 14;
  const pending = load(url).catch(() => {});
  while (asked.length < 14) await new Promise((resolve) => setTimeout(resolve, 50));
  const busy = await remove(url);
  says(busy.message, "deleteModel: the model must not be loading");
  await page.close();
  await pending;
  server.handle = undefined;
  const next = await newPage();
  const [left] = await next.kept();
  if (!(left.bytes > 0 && left.bytes < size)) throw new Error(`${left.bytes} bytes are kept after the page was closed`);
  asked.length = 0;
  same(await next.load(url, { sha256 }), begun, "the text in the next page");
  if (bytesOf(asked) > size - left.bytes + (2 << 22)) throw new Error(`the server was asked for ${bytesOf(asked)} bytes`);
});

await testPage("another version is downloaded from its beginning", async (server, newPage) => {
  const { load, kept } = await newPage();
  await load(server.url, { stopAt: 0.5 });
  server.handle = ({ response, start, end }) => {
    response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}`, etag: '"2"' });
    createReadStream(path, { start, end }).pipe(response);
    return true;
  };
  server.asked.length = 0;
  same(await load(server.url, { sha256 }), begun, "the text");
  if (bytesOf(server.asked) < size) throw new Error(`the server was asked for ${bytesOf(server.asked)} bytes`);
  same((await kept()).map(({ bytes }) => bytes), [size], "bytes that are kept");
});

await testPage("a kept file with another hash is deleted", async (server, newPage) => {
  const { url } = server;
  const { load, kept } = await newPage();
  const other = "f".repeat(64);
  const message = `load: ${url} must have the SHA-256 ${other}, got ${sha256}`;
  same(await load(url, { sha256: other }), { code: "Format", message }, "the error of a download");
  same(await kept(), [], "what is kept of it");
  same(await load(url, { sha256 }), begun, "the text");
  same(await load(url, { sha256: other }), { code: "Format", message }, "the error of a kept file");
  same(await kept(), [], "what is kept then");
  // Neither load leaves a lock.
  same(await Promise.all([load(url), load(url)]), [begun, begun], "the texts of two loads at once");
});

await browser.close();
finish(results);
