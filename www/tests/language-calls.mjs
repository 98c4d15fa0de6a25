// Where language models come from, and what is refused: files, servers that break off, cancellation, and bad arguments. In
// Node, on the CPU.

import { createReadStream, openAsBlob, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { modelFolder } from "../tools/models.mjs";
import { Device, LanguageModel } from "../dist/models.js";
import { finish } from "./support/browser.js";

const path = join(modelFolder, "SmolLM2-135M-Instruct.Q4_1.gguf");
const { size } = statSync(path);
const device = await Device.new({ prefer: "cpu" });
const results = [];

/** One more result: passed unless `body` throws. */
async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

function same(actual, expected, what) {
  const [have, want] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (have !== want) throw new Error(`${what}: ${have} instead of ${want}`);
}

/** What something throws, or is rejected with. */
async function thrown(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

/** Refuses whatever is not the error of this code and these words. */
async function refused(work, code, ...words) {
  const error = await thrown(work);
  for (const word of words) {
    const is = error.code === code && error.message.includes(word);
    if (!is) throw new Error(`no ${code}, ${word}: ${error.code}, ${error.message}`);
  }
}

/** The answer of a model that is loaded from somewhere. */
async function answer(source, options = {}) {
  const model = await LanguageModel.load(source, { device, context: 256, ...options });
  const text = await model.chat([{ role: "user", content: "What is the capital of France?" }]).text();
  model.dispose();
  return text;
}

/** Bytes that tensors and variables of the device hold. */
function held() {
  const { tensors, variables, constants } = device.memory();
  return tensors + variables + constants;
}

const right = "The capital of France is Paris.";

/** A server of the model; `handle` may answer by itself, and returns whether it did. */
async function serve(handle) {
  const asked = [];
  const server = createServer((request, response) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    const [start, end] = [Number(from ?? 0), Math.min(Number(to ?? size), size - 1)];
    asked.push([start, end]);
    if (handle({ response, start, end, count: asked.length })) return;
    response.writeHead(206, { "content-range": `bytes ${start}-${end}/${size}`, etag: '"1"' });
    createReadStream(path, { start, end }).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => (server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${server.address().port}/model.gguf`, asked, close };
}

const sources = {
  "a path": () => path,
  "an address of a file": () => pathToFileURL(path),
  "a blob": () => openAsBlob(path),
  bytes: () => readFileSync(path),
  "a response": async () => new Response(await openAsBlob(path)),
};
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

await test("a connection that breaks off is taken up again", async () => {
  const { url, asked, close } = await serve(({ response, start, end, count }) => {
    if (count % 3) return false;
    // A third of the answers end in the middle, and some of these before they begin.
    if (count % 2) return response.destroy() || true;
    const range = `bytes ${start}-${end}/${size}`;
    response.writeHead(206, { "content-range": range, etag: '"1"', "content-length": end + 1 - start });
    const half = createReadStream(path, { start, end: start + Math.floor((end - start) / 2) });
    half.on("data", (data) => response.write(data)).on("end", () => setTimeout(() => response.destroy(), 20));
    return true;
  });
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
  await refused(() => answer(url), "Data", "must stay the same");
  close();
});

await test("what is no model is refused", async () => {
  const whole = readFileSync(path);
  const page = () => new Response("<!doctype html><html></html>");
  await refused(() => answer(page()), "Data", "load: at byte 0", "an HTML page");
  await refused(() => answer(whole.subarray(0, 1000)), "Data", "load: at byte ");
  await refused(() => answer(whole.subarray(0, size - 1)), "Data", "incomplete");
  await refused(() => answer(new Uint8Array(0)), "Data", "load: at byte 0");
  await refused(() => answer("/nowhere.gguf"), "Data", "load: /nowhere.gguf must be readable");
  await refused(() => answer([path, path]), "Data", "all parts of one model");
  await refused(() => answer([]), "Data", "at least one part");
  for (const odd of [5, null, undefined, {}, Symbol("x")]) await refused(() => answer(odd), "Data", "load: the source must be");
  const { url, close } = await serve(({ response }) => response.writeHead(404).end() && true);
  await refused(() => answer(url), "Data", "404");
  close();
  await refused(() => answer(path, { cache: "i8" }), "Data", "cache must be one of f16, f32");
  await refused(() => answer(path, { contxt: 5 }), "Data", "contxt");
  await refused(() => answer(path, { signal: 5 }), "Data", "signal must be an AbortSignal");
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

await test("calls that mean nothing are refused", async () => {
  const generate = (prompt, options) => () => model.generate(prompt, options);
  await refused(generate(5), "Data", "generate: prompt must be a text or a list of tokens");
  await refused(generate([1.5]), "Data", "generate: prompt must be");
  await refused(generate([]), "Data", "at least one token");
  await refused(generate([49152]), "Data", "tokens must be below 49152");
  await refused(generate(new Array(65).fill(1)), "Limit", "at most 64 tokens");
  const odd = { temperature: "a", maxTokens: -1, topP: 2, stop: 5, logitBias: [[1]], seed: -1, likeliest: 1.5, ignoreEnd: 1 };
  for (const [name, value] of Object.entries(odd)) {
    const error = await thrown(generate("x", { [name]: value }));
    if (!["Data", "Shape"].includes(error.code) || !/generate|sampling/.test(error.message)) throw error;
  }
  await refused(generate("x", { stop: [""] }), "Data", "must have characters");
  await refused(generate("x", { temprature: 1 }), "Data", "temprature");
  await refused(generate("x", { signal: {} }), "Data", "signal must be an AbortSignal");
  const chat = (messages) => () => model.chat(messages);
  await refused(chat("x"), "Data", "chat: messages must be a list");
  await refused(chat([{ role: 5 }]), "Data", "chat: messages must be messages with a role and a content");
  const ring = [];
  ring.push(ring);
  await refused(chat(ring), "Data", "chat: messages must be plain data");
  await refused(() => model.decode(["a"]), "Data", "decode");
  await refused(() => model.encode(5), "Data", "encode: text must be a string");
  await refused(() => new LanguageModel(), "Data", "LanguageModel");
});

await test("a text whose model began another one ends", async () => {
  const first = model.generate("Once upon a time");
  await first.nextToken();
  const second = model.generate("The capital of France is", { maxTokens: 3 });
  await refused(() => first.nextToken(), "Data", "an earlier one");
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
  await refused(() => model.generate("x"), "Data", "used after dispose()");
  generation.dispose();
  await refused(() => generation.nextToken(), "Data", "used after dispose()");
  same([String(model), String(generation)], ["LanguageModel(disposed)", "Generation(disposed)"], "how they show themselves");
  // Texts that were left to the garbage collector may have their last logits.
  if (held() > 4e6) throw new Error(`${held()} bytes are held`);
});

finish(results);
