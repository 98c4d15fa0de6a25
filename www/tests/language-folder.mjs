// Tests language models from folders with safetensors files from any source, against the logits of Hugging Face's
// `transformers` (tests/golden/decoders.py).

import { openAsBlob, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { root } from "../tools/env.mjs";
import { launch as launchFirefox } from "../tools/firefox.mjs";
import { finish, launch, serve } from "./support/browser.js";

const golden = join(root, "tests", "golden");
const dist = join(root, "www", "dist");
const entry = pathToFileURL(join(dist, "models.js")).href;
const families = ["llama", "gemma3"];
const folder = (family) => join(golden, `decoder-${family}`);
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

/** Returns the tokens, and the log-probabilities of the token after the last one. */
function expected(family) {
  const [first, ...rows] = readFileSync(join(folder(family), "logits.txt"), "utf8").trim().split("\n");
  const logits = rows.at(-1).split(" ").map(Number);
  const total = Math.log(logits.reduce((sum, x) => sum + Math.exp(x), 0));
  return { tokens: first.split(" ").map(Number), logprobs: logits.map((x) => x - total) };
}

/** Returns a model's most likely next tokens. This function also runs in a page, so it uses nothing from outside. */
async function ask({ entry, source, prefer, tokens }) {
  const { Device, LanguageModel } = await import(entry);
  const device = await Device.new({ prefer });
  const progress = [];
  const options = { device, cache: "f32", onProgress: ({ done, total }) => progress.push(done / total) };
  const { weights, total } = await LanguageModel.estimate(source, { device, cache: "f32" });
  const model = await LanguageModel.load(source, options);
  const generation = model.generate(tokens, { maxTokens: 1, likeliest: 20, ignoreEnd: true });
  const { likeliest } = await generation.nextToken();
  const text = model.decode([3, 0]);
  model.dispose();
  if (progress.some((part, at) => part < progress[at - 1])) throw new Error(`the progress falls: ${progress}`);
  return { likeliest, text, end: progress.at(-1), isEstimated: weights > 1000 && total > weights };
}

/** Compares the answer of `ask` with the logits of a family. */
function check(family, { likeliest, text, end, isEstimated }) {
  const { logprobs } = expected(family);
  const off = Math.max(...likeliest.map(([id, logprob]) => Math.abs(logprob - logprobs[id])));
  if (!(off < 1e-4) || likeliest.length !== 20) throw new Error(`${likeliest.length} tokens, ${off} from the exact values`);
  const facts = JSON.stringify([text, end, isEstimated]);
  if (facts !== '["DA",1,true]') throw new Error(`text, progress at the end, estimate: ${facts}`);
}

/** Returns the files in a folder, by name. */
async function filesByName(family, change) {
  const files = {};
  for (const name of readdirSync(folder(family))) {
    if (name !== "logits.txt") files[name] = await change(join(folder(family), name), name);
  }
  return files;
}

const sources = {
  "a path": folder,
  "an address of a folder": (family) => pathToFileURL(folder(family)),
  "blobs by their names": (family) => filesByName(family, (path) => openAsBlob(path)),
  "bytes by their names": (family) => filesByName(family, (path) => readFileSync(path)),
  "a list of files": async (family) =>
    Object.values(await filesByName(family, (path, name) => new File([readFileSync(path)], name))),
};
for (const family of families) {
  for (const [name, source] of Object.entries(sources)) {
    await test(`${family} from ${name}`, async () => {
      const { tokens } = expected(family);
      check(family, await ask({ entry, source: await source(family), prefer: "cpu", tokens }));
    });
  }
}

const { Device, LanguageModel } = await import(entry);
const device = await Device.new({ prefer: "cpu" });

/** Fails unless the error has this code and these words. */
async function refused(source, options, code, words) {
  const error = await LanguageModel.load(source, { device, ...options }).catch((error) => error);
  if (error?.code !== code || !error.message.includes(words)) throw new Error(`no ${code}, ${words}: ${error}`);
}

await test("what is no folder of a model is refused", async () => {
  const files = await filesByName("llama", (path) => readFileSync(path));
  const { "tokenizer.json": _, ...without } = files;
  await refused(without, {}, "Format", 'load: the file "tokenizer.json" must be given, got none');
  const { "model-00002-of-00004.safetensors": __, ...partial } = files;
  await refused(partial, {}, "Format", '"model-00002-of-00004.safetensors" must be given');
  const index = Buffer.from('{"weight_map": {"x": "../secret"}}');
  const changed = (name, text) => refused({ ...files, [name]: Buffer.from(text) }, {}, "Format", `load: ${name}: `);
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"]) {
    await changed(name, "[");
  }
  await changed("model-00002-of-00004.safetensors", "123456789");
  const outside = { ...files, "model.safetensors.index.json": index };
  await refused(outside, {}, "Format", "must name files that are beside it");
  await refused(files, { keep: true }, "InvalidArgument", "the address of a GGUF file, because keep is set");
  await refused(files, { sha256: "0".repeat(64) }, "InvalidArgument", "a GGUF file, because sha256 is set");
  await refused({}, {}, "InvalidArgument", "load: the source must be");
});

await test("two models from folders take turns in memory for one", async () => {
  const source = folder("llama");
  const { tokens } = expected("llama");
  const device = await Device.new({ prefer: "cpu" });
  const open = () => LanguageModel.load(source, { device, cache: "f32" });
  const next = async (model) => (await model.generate(tokens, { maxTokens: 2, ignoreEnd: true }).tokens().next()).value.id;
  const models = [await open()];
  const want = await next(models[0]);
  device.setMemoryLimit(device.stats().usedBytes + 45_000);
  models.push(await open());
  for (const model of [...models, ...models]) {
    const got = await next(model);
    if (got !== want) throw new Error(`${got} instead of ${want}`);
  }
  device.dispose();
});

await test("a text goes on whose model nothing holds", async () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const { tokens } = expected("llama");
  const begin = async () => {
    const model = await LanguageModel.load(folder("llama"), { device, cache: "f32" });
    return model.generate(tokens, { maxTokens: 5, ignoreEnd: true }).tokens();
  };
  const text = await begin();
  for (let n = 0; n < 5; n++) {
    gc();
    // Finalizers run between two tasks.
    await new Promise((resolve) => setTimeout(resolve, 20));
    if ((await text.next()).done) throw new Error(`the text ended after ${n} tokens`);
  }
});

const { address, close } = await serve({ "/dist/": dist, "/golden/": golden });
for (const [name, start] of Object.entries({ Chromium: launch, Firefox: launchFirefox })) {
  const browser = await start();
  for (const family of families) {
    for (const prefer of ["cpu", "software"]) {
      await test(`${family} in ${name} on ${prefer}`, async () => {
        const page = await browser.newPage();
        await page.goto(address);
        const { tokens } = expected(family);
        const source = `/golden/decoder-${family}/`;
        check(family, await page.evaluate(ask, { entry: "/dist/models.js", source, prefer, tokens }));
        await page.close();
      });
    }
  }
  await browser.close();
}
close();
finish(results);
