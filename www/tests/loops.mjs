// Tests training in a page that awaits nothing between its steps, in Chromium, on the GPU's core and on the CPU's. The result
// must match 64-bit numbers, and memory and counters must not grow. `WARPWEFT_STEPS=10000` takes 10,000 steps.

import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { finish, launch, open, serve } from "./support/browser.js";

const STEPS = Number(process.env.WARPWEFT_STEPS ?? 2000);

const { address, close } = await serve({ "/dist/": join(root, "www", "dist") });
const browser = await launch(["--js-flags=--expose-gc"]);
const results = [];

/** Takes `STEPS` steps in a separate page. Returns measurements after each tenth of them. */
async function train(prefer, way) {
  const { page, errors } = await open(browser, address);
  const seen = await page.evaluate(async ([prefer, way, steps]) => {
    const { Device, Variable } = await import("/dist/index.js");
    const gpu = (await Device.isAvailable()) ? "gpu" : "software";
    const device = await Device.new({ prefer: prefer === "webgpu" ? gpu : prefer });
    const wave = (count, scale) => Float32Array.from({ length: count }, (_, i) => scale * Math.sin(1 + 2.3 * i));
    const [x, y] = [device.tensor(wave(64, 1), [16, 4]), device.tensor(wave(16, 0.5), [16, 1])];
    const first = new Variable(device.tensor(wave(32, 0.5), [4, 8]));
    const second = new Variable(device.tensor(wave(8, 0.5), [8, 1]));
    const rate = 0.05;
    const lossOf = (a, b) => x.matmul(a).tanh().matmul(b).sub(y).square().mean();
    function step() {
      const loss = lossOf(first.value, second.value);
      loss.backward([first, second]);
      for (const variable of [first, second]) variable.assign(variable.value.sub(variable.takeGradient().mul(rate)));
      return loss;
    }
    const program = way === "program" && device.compile([{ shape: [4, 8] }, { shape: [8, 1] }], (a, b) => {
      const loss = lossOf(a, b);
      const [da, db] = loss.grad([a, b]);
      return [loss, a.sub(da.mul(rate)), b.sub(db.mul(rate))];
    });
    if (program) {
      await program.ready();
      const { pipelines } = device.stats();
      program.run(first.value, second.value);
      const later = device.stats().pipelines;
      if (later !== pipelines) throw new Error(`${later - pipelines} pipelines when a program ran that was ready`);
    }
    const ways = {
      plain: () => void step(),
      scope: () => device.scope(() => void step()),
      yielding: () => void step(),
      program: () => device.scope(() => {
        const [, a, b] = program.run(first.value, second.value);
        first.assign(a);
        second.assign(b);
      }),
    };
    let ticks = 0;
    let latest = performance.now();
    let longest = 0;
    const timer = setInterval(() => {
      ticks++;
      longest = Math.max(longest, performance.now() - latest);
      latest = performance.now();
    }, 50);
    // Creates all plans and pipelines.
    for (let n = 0; n < 20; n++) ways[way]();
    await lossOf(first.value, second.value).item();
    latest = performance.now();
    [ticks, longest] = [0, 0];
    const rounds = [];
    const start = performance.now();
    for (let round = 0; round < 10; round++) {
      const began = performance.now();
      for (let n = 0; n < steps / 10; n++) {
        ways[way]();
        if (way !== "yielding" || n % 50 !== 49) continue;
        // The browser decides when handles are collected. Here, the test requests it.
        if (n % 200 === 199) gc();
        await new Promise((resolve) => setTimeout(resolve));
      }
      const ms = performance.now() - began;
      const { nodes, usedBytes, plans, pipelines } = device.stats();
      rounds.push({ ms, nodes, usedBytes, plans, pipelines, heap: performance.memory?.usedJSHeapSize });
    }
    const whole = performance.now() - start;
    clearInterval(timer);
    const loss = await lossOf(first.value, second.value).item();
    const waited = performance.now() - start;
    device.dispose();
    return { rounds, loss, whole, waited, ticks, longest };
  }, [prefer, way, STEPS]).catch((error) => ({ error: String(error) }));
  await page.close();
  return { ...seen, errors };
}

/** Returns the loss after `steps` steps in 64-bit numbers. */
function wanted(steps) {
  const wave = (count, scale) => Array.from({ length: count }, (_, i) => scale * Math.sin(1 + 2.3 * i));
  const [x, y, first, second] = [wave(64, 1), wave(16, 0.5), wave(32, 0.5), wave(8, 0.5)];
  for (let step = 0; ; step++) {
    const [da, db] = [new Float64Array(32), new Float64Array(8)];
    let loss = 0;
    for (let row = 0; row < 16; row++) {
      const at = (k) => x[4 * row + k];
      const hidden = second.map((_, j) => Math.tanh([0, 1, 2, 3].reduce((sum, k) => sum + at(k) * first[8 * k + j], 0)));
      const off = hidden.reduce((sum, h, j) => sum + h * second[j], 0) - y[row];
      loss += off ** 2 / 16;
      for (let j = 0; j < 8; j++) {
        db[j] += (off / 8) * hidden[j];
        for (let k = 0; k < 4; k++) da[8 * k + j] += (off / 8) * second[j] * (1 - hidden[j] ** 2) * at(k);
      }
    }
    if (step === steps) return loss;
    first.forEach((_, i) => (first[i] -= 0.05 * da[i]));
    second.forEach((_, i) => (second[i] -= 0.05 * db[i]));
  }
}

/** Yields everything that is wrong with the measurements. */
function* wrong(way, { error, errors, rounds, loss, ticks }) {
  if (error) return yield error;
  if (errors.length) yield `errors on the console: ${errors}`;
  const want = wanted(STEPS + 20);
  if (!(Math.abs(loss - want) < 1e-3 * want)) yield `a loss of ${loss} instead of ${want}`;
  const [early, late] = [rounds[4], rounds[9]];
  // A collection in the middle of a batch changes its plan.
  const collected = way === "yielding" ? 10 + STEPS / 200 : 0;
  if (late.plans > 4 + collected) yield `${late.plans} plans`;
  if (late.pipelines > early.pipelines) yield `${late.pipelines - early.pipelines} pipelines in the second half`;
  if (way === "yielding" && !ticks) yield "the page's timer had no turn";
  // The most that 2,000 operations of steps leave. Handles are not collected before the loop yields.
  const limits = { plain: [34 * (STEPS + 200), 300 * (STEPS + 200)], yielding: [12_000, 120_000] };
  const [nodes, bytes] = limits[way] ?? [2_600, 120_000];
  for (const round of rounds) {
    if (round.nodes > nodes) yield `${round.nodes} nodes`;
    if (round.usedBytes > bytes) yield `${round.usedBytes} bytes`;
  }
}

/**
 * Runs a loop that never yields and holds each of its tensors until memory runs out. On a GPU, which reports this late, the
 * page's next read must return a memory error. Disposed memory becomes available again.
 */
async function fill(prefer) {
  const { page, errors } = await open(browser, address);
  const seen = await page.evaluate(async (prefer) => {
    // Simulates a GPU with little memory, because a software GPU uses the machine's memory.
    const { createBuffer, pushErrorScope, popErrorScope } = GPUDevice.prototype;
    const scopes = [];
    const sizes = new Map();
    const { destroy } = GPUBuffer.prototype;
    let full = false;
    GPUDevice.prototype.createBuffer = function (wanted) {
      const held = [...sizes.values()].reduce((sum, size) => sum + size, 0);
      if (held + wanted.size <= 32 << 20) {
        const buffer = createBuffer.call(this, wanted);
        sizes.set(buffer, wanted.size);
        return buffer;
      }
      full = true;
      return createBuffer.call(this, { ...wanted, usage: 0 });
    };
    GPUBuffer.prototype.destroy = function () {
      sizes.delete(this);
      destroy.call(this);
    };
    GPUDevice.prototype.pushErrorScope = function (filter) {
      scopes.push(filter);
      pushErrorScope.call(this, filter);
    };
    GPUDevice.prototype.popErrorScope = function () {
      const caught = popErrorScope.call(this);
      if (scopes.pop() !== "out-of-memory" || !full) return caught;
      full = false;
      return caught.then(() => new GPUOutOfMemoryError("there is no room"));
    };
    const { Device } = await import("/dist/index.js");
    const gpu = (await Device.isAvailable()) ? "gpu" : "software";
    const device = await Device.new({ prefer: prefer === "webgpu" ? gpu : prefer });
    const count = prefer === "webgpu" ? 1 << 18 : 1 << 24;
    const kept = [device.ones([count])];
    const codes = [];
    for (let n = 0; n < 100; n++) {
      try {
        kept.push(kept[n].add(1));
        device.submit();
      } catch ({ code }) {
        codes.push(code);
        break;
      }
    }
    kept.push(kept.at(-1).sum());
    codes.push(await kept.at(-1).item().then(() => "", ({ code }) => code));
    for (const tensor of kept) tensor.dispose();
    const mean = device.scope(() => device.ones([count]).add(1).mean());
    const value = await mean.item();
    mean.dispose();
    const { usedBytes } = device.stats();
    device.dispose();
    return { codes, value, usedBytes };
  }, prefer).catch((error) => ({ error: String(error) }));
  await page.close();
  return { ...seen, errors };
}

/** Yields everything that is wrong with that. */
function* unfilled({ error, errors, codes, value, usedBytes }) {
  if (error) return yield error;
  if (errors.length) yield `errors on the console: ${errors}`;
  if (!codes.includes("Memory") || codes.some((code) => code && code !== "Memory")) yield `errors: ${codes}`;
  if (value !== 2) yield `${value} instead of 2 afterwards`;
  if (usedBytes) yield `${usedBytes} bytes are used afterwards`;
}

for (const prefer of ["webgpu", "cpu"]) {
  const error = [...unfilled(await fill(prefer))].join("; ") || undefined;
  results.push({ name: `a loop that fills the memory, on ${prefer}`, error });
  for (const way of ["plain", "scope", "yielding", "program"]) {
    const seen = await train(prefer, way);
    const name = `${STEPS} steps, ${way}, on ${prefer}`;
    const error = [...wrong(way, seen)].join("; ") || undefined;
    results.push({ name, error });
    const { rounds, whole, waited, longest } = seen;
    if (rounds) {
      const list = (of) => rounds.map(of).join(" ");
      const [all, read, tick] = [whole, waited, longest].map((ms) => ms.toFixed(0));
      console.log(`${name}: ${all} ms, until read ${read}; the page's timer waited ${tick}`);
      console.log(`  ms ${list(({ ms }) => ms.toFixed(0))}; nodes ${list(({ nodes }) => nodes)}`);
    }
  }
}
await browser.close();
await close();
finish(results);
