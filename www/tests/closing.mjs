// Tests a training whose page is closed. It must continue in another page of the same profile, with the same bits as an
// uninterrupted one.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { launchProfile } from "../tools/page.mjs";
import { same } from "./cases/harness.js";
import { finish, serve } from "./support/browser.js";

const { address, close } = await serve({ "/dist/": join(root, "www", "dist"), "/cases/": join(root, "www", "tests", "cases") });
const profile = mkdtempSync(join(tmpdir(), "warpweft-profile-"));
const results = [];

/** Opens a browser with a page that trains up to a number of steps, and saves the training if `keep` is set. */
async function visit(prefer, { until, keep }) {
  const context = await launchProfile(profile);
  try {
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(address);
    const seen = await page.evaluate(async ([wanted, until, keep]) => {
      const { Device, Generator, Layer, Optimizer, Sequential, Trainer } = await import("/dist/nn.js");
      const { randoms } = await import("/cases/harness.js");
      const gpu = (await Device.isAvailable()) ? "gpu" : "software";
      const device = await Device.new({ prefer: wanted === "webgpu" ? gpu : wanted });
      const g = new Generator(device, 3);
      const model = new Sequential(Layer.linear(g, 4, 16), (x) => x.tanh(), Layer.dropout(g, 0.2), Layer.linear(g, 16, 1));
      const data = [device.tensor(randoms(160), [40, 4]), device.tensor(randoms(40, 2), [40, 1])];
      const forward = (x, y) => model.forward(x).mseLoss(y);
      const options = { batchSize: 8, shuffle: 1, epochs: 4, validation: data };
      const trainer = new Trainer(model, Optimizer.adam(model, { lr: 0.01 }), data, forward, options);
      const found = keep && (await trainer.loadFrom(wanted));
      const from = trainer.steps;
      for await (const { step } of trainer) {
        if (keep) await trainer.saveTo(wanted, { at: String(step) });
        if (step + 1 === until) break;
      }
      const bits = await Promise.all(Object.values(model.stateDict()).map(async (x) => [...(await x.bytes())]));
      const losses = trainer.history.map(({ loss, validation }) => [loss, validation.loss]);
      return { found, from, steps: trainer.steps, bits, losses };
    }, [prefer, until, keep]);
    if (errors.length) throw new Error(`errors on the page: ${errors.join("; ")}`);
    return seen;
  } finally {
    await context.close();
  }
}

for (const prefer of ["webgpu", "cpu"]) {
  const name = `a training whose page is closed twice, on ${prefer}`;
  const check = async () => {
    const whole = await visit(prefer, { until: undefined, keep: false });
    const first = await visit(prefer, { until: 7, keep: true });
    const second = await visit(prefer, { until: 13, keep: true });
    const last = await visit(prefer, { until: undefined, keep: true });
    const steps = [first, second, last].map(({ found, from, steps }) => [found?.at, from, steps]);
    same(steps, [[undefined, 0, 7], ["6", 7, 13], ["12", 13, 20]], "notes, steps before, steps after");
    same(last.losses, whole.losses, "losses");
    same(last.bits, whole.bits, "weights");
  };
  await check().then(() => results.push({ name }), (error) => results.push({ name, error: String(error.stack) }));
}

close();
rmSync(profile, { recursive: true, force: true });
finish(results);
