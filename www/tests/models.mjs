// Tests models and trainings that move between a page and a native program. The names of a model's parts are the same in both
// languages. A page saves weights, predictions and a checkpoint, `native/tests/page_models.rs` reads them and writes other
// weights, and the page reads those.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nativeTestEnv, root, run } from "../tools/env.mjs";
import { finish, launch, open, serve } from "./support/browser.js";

const folder = join(root, "out", "page-models");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const names = ["mlp", "cnn", "transformer"];
const www = (name) => join(root, "www", name);
const folders = { "/dist/": www("dist"), "/demo/": www("demo"), "/cases/": join(www("tests"), "cases") };
const { address, close } = await serve(folders);
const browser = await launch();
const results = [];

async function test(name, body) {
  await body().then(() => results.push({ name }), (error) => results.push({ name, error: String(error.stack) }));
}

/** Runs a page that creates models from this seed, or reads models from files. Bytes are passed as text. */
async function inPage(files) {
  const { page, errors } = await open(browser, address);
  const made = await page.evaluate(async (files) => {
    const { Device, Generator, Optimizer, Trainer } = await import("/dist/nn.js");
    const { Mlp } = await import("/demo/mlp.js");
    const { cnn } = await import("/demo/cnn.js");
    const { Transformer } = await import("/demo/transformer.js");
    const { randoms } = await import("/cases/harness.js");
    const device = await Device.new({ prefer: "cpu" });
    const texts = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const g = new Generator(device, 5);
    const text = [0, 1, 2, 3, 4, 0, 4, 3, 2, 1, 0, 4];
    const options = { characters: 5, length: 6, width: 8, heads: 2, layers: 2 };
    const models = {
      mlp: [new Mlp(device, { layers: 2, units: 8, activation: "tanh", seed: 5 }), device.tensor(randoms(20), [10, 2])],
      cnn: [cnn(g), device.tensor(randoms(3 * 64), [3, 1, 8, 8])],
      transformer: [new Transformer(g, options), device.tensor(text, [2, 6], "i32")],
    };
    const out = {};
    const off = {};
    for (const [name, [model, input]] of Object.entries(models)) {
      model.eval();
      if (files) {
        model.loadStateDict((await device.loadSafetensors(bytes(files[`${name}.native`]))).tensors);
        const { prediction } = (await device.loadSafetensors(bytes(files[`${name}.predicted`]))).tensors;
        const [have, want] = [await model.forward(input).read(), await prediction.read()];
        off[name] = Math.max(...Array.from(have, (value, n) => Math.abs(value - want[n])));
      } else {
        out[`${name}.page`] = texts(await device.saveSafetensors(model.stateDict()));
        out[`${name}.values`] = texts(await device.saveSafetensors({ input, prediction: model.forward(input) }));
      }
    }
    if (files) return { off };
    const model = cnn(new Generator(device, 5));
    const labels = randoms(24).map((n) => Math.floor(5 + 5 * n));
    const [x, y] = [device.tensor(randoms(24 * 64), [24, 1, 8, 8]), device.tensor(labels, [24], "i32")];
    const forward = (x, y) => model.forward(x).crossEntropy(y);
    const training = { batchSize: 8, shuffle: 3, epochs: 3 };
    const trainer = new Trainer(model, Optimizer.adam(model, { lr: 0.002 }), [x, y], forward, training);
    while (trainer.steps < 4) await trainer.nextStep();
    out["training.page"] = texts(await trainer.save({ by: "a page" }));
    const next = (await trainer.nextStep()).loss.reshape([1]);
    const epoch = device.tensor([trainer.history[0].loss]);
    out["training.values"] = texts(await device.saveSafetensors({ x, y, next, epoch }));
    return { out };
  }, files);
  await page.close();
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
  return made;
}

const path = (name) => join(folder, `${name}.safetensors`);

await test("a page saves models and a training", async () => {
  const { out } = await inPage();
  for (const [name, text] of Object.entries(out)) writeFileSync(path(name), Buffer.from(text, "base64"));
});

await test("a native program reads them, goes on, and writes models of its own", () =>
  // With the same build settings as all tests, so nothing is compiled again.
  run("cargo", ["test", "--workspace", "--test", "page_models"], {
    env: { ...nativeTestEnv(), WARPWEFT_PAGE_MODELS: folder },
  }));

await test("the page reads those, and predicts the same", async () => {
  const files = names.flatMap((name) => [`${name}.native`, `${name}.predicted`]);
  const { off } = await inPage(Object.fromEntries(files.map((name) => [name, readFileSync(path(name), "base64")])));
  for (const name of names) if (!(off[name] < 1e-5)) throw new Error(`${name}: ${off[name]} off`);
});

await test("what is made without a device says that it waits for one", async () => {
  const { page, errors } = await open(browser, address);
  const printed = await page.evaluate(async () => {
    const { Device, Schedule } = await import("/dist/nn.js");
    const make = () => {
      try {
        return `${Schedule.cosineAnnealing(0.1, 10)}`;
      } catch (error) {
        return `${error.code}: ${error.message}`;
      }
    };
    const before = make();
    await Device.new({ prefer: "cpu" });
    return [before, make()].join("; ");
  });
  await page.close();
  const wanted = "InvalidState: cosineAnnealing: there must be a device, got none; call `await Device.new()` first; Schedule";
  if (printed !== wanted || errors.length) throw new Error(`${printed}; ${errors.join("; ")}`);
});

await browser.close();
close();
finish(results);
