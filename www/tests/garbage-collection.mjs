// Tests programs that never dispose of tensors, in Node, on the CPU's core. The tensors are collected before memory runs out.
// If they cannot be collected, an error says so and the device still works.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Device } from "../dist/index.js";
import { finish } from "./support/browser.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc");

const results = [];

async function test(name, body) {
  try {
    await body(await Device.new({ prefer: "cpu" }));
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error.stack ?? error) });
  }
}

const check = (condition, message) => {
  if (!condition) throw new Error(message);
};

await test("graphs that are forgotten are collected without being asked for", async (device) => {
  const matrix = device.uniform([32, 32], { seed: 1 });
  let most = 0;
  for (let n = 0; n < 100; n++) {
    matrix.add(n).eigh(); // About 17,000 operations behind four small objects, which give the collector no reason to run.
    await new Promise((resolve) => setTimeout(resolve));
    most = Math.max(most, device.stats().nodes);
  }
  check(most > 100_000 && most < 1_000_000, `${most} nodes at once`);
});

await test("a loop that holds all it records ends in an error, and the device goes on", async (device) => {
  let [x, error] = [device.ones([2])];
  for (let n = 0; n < 5_000_000 && !error; n++) {
    try {
      x = x.mul(0.5).add(0.25);
    } catch (thrown) {
      error = thrown;
    }
  }
  check(error?.code === "Limit", `${error?.code}: ${error?.message}`);
  check(/(add|mul): held tensors and operations must be fewer, got \d+/.test(error.message), error.message);
  x = undefined;
  // Each error starts a collection, which needs some turns.
  const again = () => device.ones([4]).sum().item();
  let sum;
  for (let tries = 0; tries < 500 && sum === undefined; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    sum = await Promise.resolve().then(again).catch(() => undefined);
  }
  check(sum === 4, `the device does not compute: ${sum}`);
});

/** Runs the garbage collector, and the finalizers of what it found. */
async function collect() {
  for (let tries = 0; tries < 3; tries++) {
    collectGarbage();
    await new Promise((resolve) => setTimeout(resolve)); // Finalizers run in a turn of their own.
  }
}

/** Returns a layer of a network with this weight. */
function layer(device, w) {
  let h = device.uniform([16, 16], { seed: 2 });
  for (let n = 0; n < 4; n++) h = h.matmul(w).mul(0.1).tanh();
  return h;
}

/** Programs that read intermediate tensors, drop them, and return a loss. `read` reads a tensor, or does nothing. */
const programs = {
  "reads of other results": async (device, w, read) => {
    const h = layer(device, w);
    const loss = h.square().mean();
    await read(loss);
    for (let n = 1; n < 5; n++) await read(h.mul(n).mean());
    return loss;
  },
  "a read of a layer": async (device, w, read) => {
    const h = layer(device, w);
    await read(h);
    const loss = h.square().mean();
    await read(loss);
    return loss;
  },
  "a read of a gradient": async (device, w, read) => {
    const loss = layer(device, w).square().mean();
    const [slope] = loss.grad([w]);
    await read(slope);
    return loss.add(slope.square().sum());
  },
  "a read in each step of a sequence": async (device, w, read) => {
    let [state, total] = [layer(device, w), device.zeros([])];
    for (let n = 0; n < 12; n++) {
      state = state.matmul(w).tanh();
      const loss = state.square().mean();
      await read(loss);
      await read(state);
      total = total.add(loss);
    }
    return total;
  },
};

for (const [name, program] of Object.entries(programs)) {
  await test(`a collection changes no gradient: ${name}`, async (device) => {
    const w = device.uniform([16, 16], { seed: 1 });
    const wanted = await (await program(device, w, () => {})).grad([w])[0].read();
    check(wanted.some((slope) => Math.abs(slope) > 1e-4), `the gradients are ${wanted}`);
    const eager = async (tensor) => {
      await tensor.read();
      await collect();
    };
    for (const [when, read] of Object.entries({ "at the end": (tensor) => tensor.read(), "after each read": eager })) {
      const loss = await program(device, w, read);
      const before = device.stats().nodes;
      await collect();
      check(when !== "at the end" || device.stats().nodes < before, "nothing was collected");
      const slopes = await loss.grad([w])[0].read();
      check(slopes.every((slope, n) => slope === wanted[n]), `collected ${when}: ${slopes}`);
    }
  });
}

const SHADER = `
  struct Numbers { size: u32 }
  @group(0) @binding(0) var<uniform> numbers: Numbers;
  @group(0) @binding(1) var<storage, read> x: array<f32>;
  @group(0) @binding(2) var<storage, read_write> y: array<f32>;
  @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < numbers.size) { y[id.x] = x[id.x]; }
  }`;

await test("shaders with a gradient or a fallback are collected", async (device) => {
  const gradient = (inputs, outputs, { y }) => ({ x: y });
  const fallback = ({ x }) => ({ y: x });
  const make = async (options) => new WeakRef(await device.shader(SHADER, options));
  const made = { neither: await make({}), gradient: await make({ gradient }), fallback: await make({ fallback }) };
  await collect();
  const held = Object.keys(made).filter((name) => made[name].deref());
  check(held.length === 0, `shaders that are held: ${held}`);
});

finish(results);
