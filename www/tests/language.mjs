// Tests language models, adapters and an encoder in Node, Chromium and Firefox: real files against exact values (tests/golden).

import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../tools/env.mjs";
import { launch as launchFirefox } from "../tools/firefox.mjs";
import { modelFolder } from "../tools/models.mjs";
import { same } from "./cases/harness.js";
import { finish, isSample, launch, serve } from "./support/browser.js";

const dist = join(root, "www", "dist");
const files = { smollm2: "SmolLM2-135M-Instruct.Q4_1.gguf", gemma3: "gemma-3-270m-q4_k_m.gguf" };
const golden = (name) => JSON.parse(readFileSync(join(root, "tests", "golden", `logits-${name}.json`), "utf8"));
/** The allowed error of logits with a cache of f32. */
const CLOSE = 1e-3;

const results = [];

/** Adds a result: passed unless `body` throws. */
async function test(name, body) {
  const began = Date.now();
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
  console.log(`${name}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

function says(text, ...words) {
  for (const word of words) if (!text.includes(word)) throw new Error(`no ${word} in ${text}`);
}

/**
 * Continues prompts, and returns the tokens and their most likely neighbors. This function also runs in a page, so it uses
 * nothing from outside.
 */
async function follow({ entry, source, prefer, prompts, most }) {
  const { Device, LanguageModel } = await import(entry);
  const device = await Device.new({ prefer });
  const progress = [];
  const memory = () => globalThis.memory?.buffer.byteLength ?? 0;
  const before = memory();
  const model = await LanguageModel.load(source, {
    ...{ device, context: 1024, cache: "f32" },
    onProgress: ({ done, total }) => progress.push(done / total),
  });
  const [grown, results] = [memory() - before, []];
  for (const ids of prompts) {
    const tokens = [];
    const generation = model.generate(ids, { maxTokens: most, likeliest: 20, ignoreEnd: true });
    for await (const token of generation.tokens()) tokens.push(token);
    results.push({ tokens, finish: generation.finish });
  }
  const messages = [{ role: "user", content: "Say <|im_end|> twice." }];
  const prompt = model.encode("<|im_end|>", true).length === 1 ? [...model.prompt(JSON.stringify(messages), true)] : [];
  const facts = [model.contextLength, device.info.backend, model.decode(model.encode("Grüße 😀"))];
  model.dispose();
  const grows = progress.every((part, at) => at === 0 || part >= progress[at - 1]);
  return { results, prompt, facts, grown, progress: [grows, progress.length > 5, progress.at(-1) > 0.9] };
}

/** Compares the result of `follow` with exact values. */
function check(name, numbers, { results, progress }, most) {
  const { prompts } = golden(name);
  same(progress, [true, true, true], "a progress that grows, of many steps, to the end");
  for (const [at, n] of numbers.entries()) {
    const { top, greedy, margins } = prompts[n];
    const { tokens, finish: why } = results[at];
    same([tokens.length, why], [most, "maxTokens"], `prompt ${n}: tokens, and why it ended`);
    const [[first, from]] = tokens[0].likeliest;
    const exact = new Map(top);
    for (const [id, logprob] of tokens[0].likeliest) {
      const want = exact.get(id) - exact.get(first);
      const off = Math.abs(logprob - from - want);
      // The last of the twenty may be another one that is equally likely.
      if (exact.has(id) && !(off < 2 * CLOSE)) throw new Error(`prompt ${n}, token ${id}: ${off} from ${want}`);
    }
    for (const [step, { id }] of tokens.entries()) {
      // If two tokens are almost equally likely, either is correct, and the texts differ afterwards.
      if (margins[step] < 2 * CLOSE) break;
      if (id !== greedy[step]) throw new Error(`prompt ${n}, step ${step}: ${id} instead of ${greedy[step]}`);
    }
  }
}

/** Embeds the golden texts. Like `follow`, this function uses nothing from outside. */
async function embed({ entry, source, prefer, texts }) {
  const { Device, Embedder } = await import(entry);
  const device = await Device.new({ prefer });
  const progress = [];
  const embedder = await Embedder.load(source, { device, onProgress: ({ done, total }) => progress.push(done / total) });
  const vectors = embedder.embed(texts);
  const [shape, numbers] = [vectors.shape, [...(await vectors.read())]];
  const alone = [...(await embedder.embed(texts[1]).read())];
  const facts = [embedder.dimensions, embedder.maxTokens, String(embedder), embedder.embed([]).shape];
  // Memory becomes short, so the weights are evicted.
  const read = progress.length;
  device.setMemoryLimit(device.stats().usedBytes);
  const zeros = device.zeros([1 << 22]);
  await zeros.read();
  zeros.dispose();
  device.setMemoryLimit(undefined);
  let evicted;
  try {
    embedder.embed(texts[1]);
  } catch ({ code, message }) {
    evicted = [code, message];
  }
  await embedder.ready();
  const reloaded = [...(await embedder.embed(texts[1]).read())];
  const isSame = String(reloaded) === String(alone);
  const eviction = { evicted, isSame, again: progress.at(-1), more: progress.length > read };
  embedder.dispose();
  return { shape, numbers, alone, facts, progress: progress.slice(0, read), eviction, gone: String(embedder) };
}

/** Teaches a model an answer. Like `follow`, this function uses nothing from outside. */
async function teach({ entry, source, prefer, steps }) {
  const { Device, LanguageModel, Optimizer } = await import(entry);
  const device = await Device.new({ prefer });
  const model = await LanguageModel.load(source, { device, context: 256 });
  const question = { role: "user", content: "What is the secret word?" };
  const answer = { role: "assistant", content: "The secret word is zeppelin." };
  const ask = (model) => model.chat([question], { maxTokens: 8 }).text();
  const before = await ask(model);
  const targets = ["q_proj", "v_proj", "up_proj", "down_proj"];
  const adapter = model.createAdapter({ rank: 8, alpha: 32, targets, seed: 1 });
  const tuned = model.withAdapter(adapter);
  const same = (await ask(tuned)) === before;
  const optimizer = Optimizer.adam(adapter.parameters(), { lr: 5e-3 });
  const losses = [];
  for (let step = 0; step < steps; step++) {
    const loss = adapter.loss([[question, answer]]);
    optimizer.minimize(loss);
    losses.push(await loss.item());
    loss.dispose();
  }
  const after = await ask(model.withAdapter(adapter));
  const { config, weights } = await adapter.save();
  const again = await ask(model.withAdapter(model.loadAdapter(config, weights)));
  const without = await ask(model);
  model.dispose();
  return { before, same, losses, after, again, without };
}

/** Checks that a model learned its answer, and that the files of its adapter contain it. */
function checkTeaching({ before, same: isSame, losses, after, again, without }) {
  same(isSame, true, "a new adapter changes nothing");
  const isLong = losses.length > 5;
  if (!(losses.at(-1) < losses[0] / (isLong ? 20 : 1))) throw new Error(`the losses were ${losses}`);
  if (isLong) says(after, "The secret word is zeppelin");
  same([again, without], [after, before], "the answers of a loaded adapter, and without one");
}

/**
 * Loses the device twice while a model answers: between two tokens, and while one is awaited. Like `follow`, this function uses
 * nothing from outside.
 */
async function survive({ entry, source, prompt, most }) {
  const { Device, LanguageModel } = await import(entry);
  const machines = [];
  const real = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    machines.push(await real.apply(this, options));
    return machines.at(-1);
  };
  const device = await Device.new({ prefer: "software" });
  let [loads, last] = [0, Infinity];
  const onProgress = ({ done }) => {
    loads += Number(done < last);
    last = done;
  };
  const model = await LanguageModel.load(source, { device, context: 256, cache: "f32", onProgress });
  const generation = model.generate(prompt, { maxTokens: most, ignoreEnd: true });
  const first = model.device === device;
  const tokens = [];
  while (tokens.length < most) {
    if (tokens.length === 2) machines[0].destroy();
    const next = generation.nextToken();
    if (tokens.length === 4) machines[1].destroy();
    tokens.push((await next).id);
  }
  const moved = first && model.device !== device;
  device.dispose(); // Nothing is on this device any more.
  const again = await model.generate(prompt, { maxTokens: 2, ignoreEnd: true }).text();
  const isSame = again === model.decode(tokens.slice(0, 2));
  return { tokens, seen: [moved, isSame, machines.length, loads] };
}

const minilm = JSON.parse(readFileSync(join(root, "tests", "golden", "minilm.json"), "utf8"));

/** Compares vectors with those of sentence-transformers. */
function checkVectors({ shape, numbers, alone, facts, progress, eviction, gone }) {
  const evicted = ["InvalidState", "embed: the weights of the model must be in memory, got evicted ones; await `ready` first"];
  same(eviction, { evicted, isSame: true, again: 1, more: true }, "an eviction");
  const count = numbers.length / 384;
  if (count < minilm.texts.length - 1) throw new Error(`there are only ${count} vectors`);
  same(shape, [count, 384], "the shape");
  same(facts, [384, 256, "Embedder(384)", [0, 384]], "extents, text, and the shape of no vectors");
  same(gone, "Embedder(disposed)", "the text of one that was disposed");
  same(progress.at(-1), 1, "the progress at the end");
  for (const [n, want] of minilm.vectors.slice(0, count).entries()) {
    const off = Math.max(...want.map((x, i) => Math.abs(x - numbers[384 * n + i])));
    if (!(off < 1e-5)) throw new Error(`text ${n}: ${off} from the vector of sentence-transformers`);
  }
  const off = Math.max(...minilm.vectors[1].map((x, i) => Math.abs(x - alone[i])));
  if (!(off < 1e-5)) throw new Error(`a text by itself: ${off}`);
}

const ids = (name, numbers) => numbers.map((n) => golden(name).prompts[n].ids);
const path = (name) => join(modelFolder, files[name]);
const entry = pathToFileURL(join(dist, "models.js")).href;

/** The indices of all prompts of SmolLM2, one of which has 657 tokens. */
const all = golden("smollm2").prompts.map((_, n) => n);

for (const [name, numbers, most] of [["smollm2", all, 8], ["gemma3", [0, 3, 4], 8]]) {
  await test(`${name} in Node`, async () => {
    const prompts = ids(name, numbers);
    const seen = await follow({ entry, source: path(name), prefer: "cpu", prompts, most });
    check(name, numbers, seen, most);
    same(seen.facts, [1024, "cpu", "Grüße 😀"], "context, backend, and a text that was encoded and decoded");
  });
}

await test("two models take turns in memory for one, in Node", async () => {
  const { Device, LanguageModel } = await import(entry);
  const device = await Device.new({ prefer: "cpu" });
  const load = () => LanguageModel.load(path("smollm2"), { device, context: 256 });
  const ask = (model) => model.chat([{ role: "user", content: "What is the capital of France?" }]).text();
  const first = await load();
  const want = await ask(first);
  says(want, "Paris");
  const limit = Math.round(1.3 * device.memory().allocated);
  device.setMemoryLimit(limit);
  const second = await load();
  for (const model of [second, first, second]) {
    same(await ask(model), want, "an answer");
    const { allocated } = device.memory();
    if (allocated > limit) throw new Error(`${allocated} bytes are allocated, and ${limit} is the limit`);
  }
  first.dispose();
  second.dispose();
});

await test("smollm2 learns in Node", async () => {
  // The test of the page that teaches also learns an answer (demo-teach.mjs).
  checkTeaching(await teach({ entry, source: path("smollm2"), prefer: "cpu", steps: isSample ? 3 : 10 }));
});

await test("all-MiniLM-L6-v2 in Node", async () => {
  const source = join(modelFolder, "all-MiniLM-L6-v2");
  checkVectors(await embed({ entry, source, prefer: "cpu", texts: minilm.texts }));
});

const { address, close } = await serve({ "/dist/": dist, "/models/": modelFolder });

/** Stores the memory of the core that a page starts. */
function watchMemory() {
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (...values) => {
    const made = await instantiate.apply(WebAssembly, values);
    globalThis.memory = (made.exports ?? made.instance.exports).memory;
    return made;
  };
}

const browsers = { Chromium: launch, Firefox: launchFirefox };
/** The prompts and the number of tokens for each. Software GPUs are slow. */
const cases = [
  ["smollm2", "cpu", all, 4],
  ["smollm2", "software", [0, 8], 4],
  ["gemma3", "cpu", [0, 3, 4], 4],
  ["gemma3", "software", [0, 3, 4], 2],
];
/** The models and devices of a sample: each model once in each browser, each time on the other device. */
const sample = {
  Chromium: ["smollm2 on software", "gemma3 on cpu", "all-MiniLM-L6-v2 on software"],
  Firefox: ["smollm2 on cpu", "gemma3 on software", "all-MiniLM-L6-v2 on cpu"],
};
for (const [browserName, start] of Object.entries(browsers)) {
  const runs = (name, prefer) => !isSample || sample[browserName].includes(`${name} on ${prefer}`);
  const browser = await start();
  for (const [name, prefer, numbers, most] of cases.filter(([name, prefer]) => runs(name, prefer))) {
    await test(`${name} in ${browserName} on ${prefer}`, async () => {
      const page = await browser.newPage();
      await page.goto(address);
      await page.evaluate(watchMemory);
      const source = `/models/${files[name]}`;
      const settings = { entry: "/dist/models.js", source, prefer, prompts: ids(name, numbers), most };
      const seen = await page.evaluate(follow, settings);
      await page.close();
      console.log(`${name} in ${browserName} on ${prefer}: memory grew by ${(seen.grown / 1e6).toFixed(1)} MB`);
      check(name, numbers, seen, most);
      if (prefer !== "cpu" && seen.grown >= 64e6) throw new Error(`WebAssembly's memory grew by ${seen.grown} bytes`);
    });
  }
  const isLost = !isSample || browserName === "Chromium";
  if (isLost) await test(`an answer in ${browserName} goes on after its device was lost`, async () => {
    const page = await browser.newPage();
    await page.goto(address);
    const [n, most] = [0, 6];
    const { ids: prompt, greedy, margins } = golden("smollm2").prompts[n];
    const settings = { entry: "/dist/models.js", source: `/models/${files.smollm2}`, prompt, most };
    const { tokens, seen } = await page.evaluate(survive, settings);
    await page.close();
    same(seen, [true, true, 3, 3], "a new device, the same text, three devices, three loads");
    const sure = margins.findIndex((margin) => margin < 2 * CLOSE);
    const count = sure < 0 ? most : Math.min(sure, most);
    same(tokens.slice(0, count), greedy.slice(0, count), "the tokens");
  });
  // The page that teaches runs on the CPU in Chromium (demo-teach.mjs). A step takes a minute in SwiftShader.
  const isTeaching = !isSample && browserName === "Firefox";
  if (isTeaching) await test(`smollm2 learns in ${browserName} on software`, async () => {
    const page = await browser.newPage();
    await page.goto(address);
    const settings = { entry: "/dist/models.js", source: `/models/${files.smollm2}`, prefer: "software", steps: 3 };
    checkTeaching(await page.evaluate(teach, settings));
    await page.close();
  });
  for (const prefer of ["cpu", "software"].filter((prefer) => runs("all-MiniLM-L6-v2", prefer))) {
    await test(`all-MiniLM-L6-v2 in ${browserName} on ${prefer}`, async () => {
      const page = await browser.newPage();
      await page.goto(address);
      const source = "/models/all-MiniLM-L6-v2";
      // The last text has the maximal length of the model.
      const texts = prefer === "cpu" ? minilm.texts : minilm.texts.slice(0, -1);
      checkVectors(await page.evaluate(embed, { entry: "/dist/models.js", source, prefer, texts }));
      await page.close();
    });
  }
  await browser.close();
}
close();
finish(results);
