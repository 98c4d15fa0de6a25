// Tests a long training with the trainer, in Chromium, on the GPU's core and on the CPU's. Its losses are read at every step,
// at every tenth or never. Memory and counters must not grow. `WARPWEFT_STEPS=10000` takes 10,000 steps.

import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { finish, launch, open, serve } from "./support/browser.js";

const STEPS = Number(process.env.WARPWEFT_STEPS ?? 1000);

const { address, close } = await serve({ "/dist/": join(root, "www", "dist"), "/cases/": join(root, "www", "tests", "cases") });
const browser = await launch(["--js-flags=--expose-gc", "--enable-precise-memory-info"]);
const results = [];

/** Takes `STEPS` steps in a separate page. Returns measurements after each tenth of them. */
async function train(prefer, every) {
  const { page, errors } = await open(browser, address);
  const seen = await page.evaluate(async ([prefer, every, steps]) => {
    const { Device, Generator, Layer, Optimizer, Sequential, Trainer } = await import("/dist/nn.js");
    const { randoms } = await import("/cases/harness.js");
    const gpu = (await Device.isAvailable()) ? "gpu" : "software";
    const device = await Device.new({ prefer: prefer === "webgpu" ? gpu : prefer });
    const g = new Generator(device, 1);
    const model = new Sequential(Layer.linear(g, 4, 8), (x) => x.tanh(), Layer.dropout(g, 0.1), Layer.linear(g, 8, 1));
    const data = [device.tensor(randoms(4 * 64), [64, 4]), device.tensor(randoms(64, 2), [64, 1])];
    const forward = (x, y) => {
      const guess = model.forward(x);
      return [guess.mseLoss(y), guess];
    };
    const options = { batchSize: 16, shuffle: 2, epochs: steps / 4, validation: data, metrics: ["meanAbsoluteError"] };
    const trainer = new Trainer(model, Optimizer.adam(model), data, forward, options);
    const rounds = [];
    const losses = [];
    const begun = performance.now();
    for await (const { step, loss } of trainer) {
      if (every && step % every === 0) losses.push(await loss.item());
      if ((step + 1) % (steps / 10) > 0) continue;
      gc();
      await device.synchronize();
      const { nodes, usedBytes, plans, pipelines, buffers } = device.stats();
      rounds.push({ nodes, usedBytes, plans, pipelines, buffers, heap: performance.memory.usedJSHeapSize });
    }
    const ms = performance.now() - begun;
    const { loss } = trainer.history.at(-1);
    device.dispose();
    return { rounds, loss, first: trainer.disposed, ms, read: losses.length };
  }, [prefer, every, STEPS]).catch((error) => ({ error: String(error?.stack ?? error) }));
  await page.close();
  return { ...seen, errors };
}

/** Yields everything that is wrong with the measurements. */
function* wrong({ error, errors, rounds, loss, read }, every) {
  if (error) return yield error;
  if (errors.length) yield `errors on the console: ${errors}`;
  if (!Number.isFinite(loss)) yield `a loss of ${loss}`;
  if (read !== (every ? STEPS / every : 0)) yield `${read} losses`;
  for (const name of ["nodes", "usedBytes", "plans", "pipelines"]) {
    const early = Math.max(...rounds.slice(2, 6).map((round) => round[name]));
    const late = Math.max(...rounds.slice(6).map((round) => round[name]));
    if (late > early) yield `${name} grew from ${early} to ${late}`;
  }
  // The history grows by each epoch, and the browser's records grow, too.
  const [early, late] = [rounds[3].heap, rounds[9].heap];
  if (late > early + 500 * STEPS * 0.6 + 1e6) yield `the heap grew from ${early} to ${late} bytes`;
}

for (const prefer of ["webgpu", "cpu"]) {
  for (const every of [1, 10, 0]) {
    const seen = await train(prefer, every);
    const name = `${STEPS} steps of a trainer, losses read ${every ? `every ${every}` : "never"}, on ${prefer}`;
    results.push({ name, error: [...wrong(seen, every)].join("; ") || undefined });
    const last = JSON.stringify(seen.rounds?.at(-1));
    console.log(`${name}: ${seen.ms?.toFixed(0)} ms; at the end ${last}`);
  }
}
await browser.close();
await close();
finish(results);
