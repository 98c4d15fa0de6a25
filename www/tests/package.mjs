// Tests the package as a plain page uses it, in Chromium: every method on the GPU's core and on the CPU's, rejected calls,
// freeing, programs, a worker, the fallback without WebGPU.

import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { same } from "./cases/harness.js";
import { finish, launch, open, serve } from "./support/browser.js";

/** The number of hostile calls, and their seed. */
const HOSTILE = (process.env.WARPWEFT_HOSTILE ?? "10000,1").split(",").map(Number);

const dist = join(root, "www", "dist");
const { address, close } = await serve({ "/dist/": dist, "/cases/": join(root, "www", "tests", "cases") });
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

const wasm = (name) => `/dist/${name}.wasm`;

/** Runs all cases on one device of a fresh page. */
async function cases(browser, prefer) {
  const { page, errors } = await open(browser, address);
  await test(`cases on ${prefer}`, async () => {
    const done = await page.evaluate(async ([wanted, hostile]) => {
      const { Device } = await import("/dist/nn.js");
      const gpu = (await Device.isAvailable()) ? "gpu" : "software";
      return (await import("/cases/all.js")).run(wanted === "webgpu" ? gpu : wanted, hostile);
    }, [prefer, HOSTILE]);
    console.log(`${prefer}: ${done.info.name} (${done.info.backend}, ${done.info.kind}), ${done.results.length} cases`);
    results.push(...done.results.map(({ name, error }) => ({ name: `${prefer}: ${name}`, error })));
    same(errors, [], "errors on the console");
  });
  await page.close();
}

async function withWebGpu() {
  const browser = await launch(["--js-flags=--expose-gc"]);
  await cases(browser, "webgpu");
  await cases(browser, "cpu");
  const { page, errors } = await open(browser, address);
  await test("discovery loads nothing, and each core is loaded once", async () => {
    const loaded = [];
    page.on("request", (request) => request.url().endsWith(".wasm") && loaded.push(new URL(request.url()).pathname));
    const found = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      return { all: await Device.discover(), available: await Device.isAvailable() };
    });
    same(loaded, [], "wasm loaded by discovery");
    const gpu = found.all.find(({ info }) => info.backend === "webgpu");
    if (!gpu || gpu.bindingBytes < 2 ** 27) throw new Error(`no adapter: ${JSON.stringify(found)}`);
    same(found.available, gpu.info.kind !== "software", "isAvailable");
    same(found.all.filter(({ recommended }) => recommended).length, 1, "recommended devices");
    const reasons = found.all.filter(({ recommended, reason }) => recommended === Boolean(reason));
    same(reasons, [], "those without a reason, and the recommended with one");
    same([gpu.available, typeof gpu.subgroups, typeof gpu.timestamps], [true, "boolean", "boolean"], "features");
    const opened = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const devices = await Promise.all([0, 1, "cpu", "auto"].map((prefer) => Device.new({ prefer })));
      return devices.map(({ info, fallback }) => ({ kind: info.kind, fallback }));
    });
    same(opened.slice(0, 2).map(({ kind }) => kind), found.all.map(({ info }) => info.kind), "by index");
    same(opened[2], { kind: "cpu" }, "the CPU when asked for it is no fallback");
    same(opened[3].kind, found.available ? "gpu" : "cpu", "auto");
    same(Boolean(opened[3].fallback), !found.available, "the fallback is told");
    same(loaded.sort(), ["cpu", "gpu-nn"].map(wasm), "wasm loaded");
  });
  await test("an adapter without a name", async () => {
    const seen = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const real = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "info");
      const none = { vendor: "", architecture: "", device: "", description: "" };
      const seen = [];
      for (const isFallbackAdapter of [undefined, false, true]) {
        const get = () => ({ ...none, isFallbackAdapter });
        Object.defineProperty(GPUAdapter.prototype, "info", { ...real, get });
        const { info } = (await Device.discover()).find(({ info }) => info.backend === "webgpu");
        const device = await Device.new();
        seen.push([info.name, info.kind, device.info.kind, device.fallback]);
      }
      Object.defineProperty(GPUAdapter.prototype, "info", real);
      return seen;
    });
    const name = "WebGPU adapter (the browser does not name it)";
    const gpu = [name, "gpu", "gpu", undefined];
    const why = `${name} is a software GPU; computing on the CPU`;
    same(seen, [gpu, gpu, [name, "software", "cpu", why]], "name, kind, the kind taken, why");
  });
  await test("a worker", async () => {
    for (const prefer of ["webgpu", "cpu"]) {
      const answer = await page.evaluate(async (wanted) => {
        const { Device } = await import("/dist/nn.js");
        const gpu = (await Device.isAvailable()) ? "gpu" : "software";
        const worker = new Worker("/cases/worker.js", { type: "module" });
        const message = new Promise((resolve, reject) => {
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = reject;
        });
        worker.postMessage(wanted === "webgpu" ? gpu : wanted);
        return message;
      }, prefer);
      same(answer.values, [8, 11, 16, 23], `values on ${prefer}: ${answer.error}`);
    }
  });
  await test("two workers at once, each with a device of its own", async () => {
    for (const prefer of ["webgpu", "cpu"]) {
      const answers = await page.evaluate(async (wanted) => {
        const { Device } = await import("/dist/nn.js");
        const gpu = (await Device.isAvailable()) ? "gpu" : "software";
        const work = (scale) => {
          const worker = new Worker("/cases/busy-worker.js", { type: "module" });
          worker.postMessage({ prefer: wanted === "webgpu" ? gpu : wanted, scale, count: 2000 });
          return new Promise((resolve, reject) => {
            worker.onmessage = ({ data }) => resolve(data);
            worker.onerror = reject;
          }).finally(() => worker.terminate());
        };
        return Promise.all([1, 3].map(work));
      }, prefer);
      for (const [n, { sum, settled, stats, error }] of answers.entries()) {
        // Twenty reads of 64 elements, each times 9.
        same(sum, 20 * 64 * 9 * [1, 3][n], `sum on ${prefer}: ${error}`);
        same(stats, settled, `what is there at the end and after 200 steps, on ${prefer}`);
      }
    }
  });
  await test("`using` frees at the end of the block", async () => {
    const used = await page.evaluate(`(async () => {
      const { Device } = await import("/dist/nn.js");
      const device = await Device.new({ prefer: "cpu" });
      const used = [device.stats().usedBytes];
      { using x = device.tensor([1, 2, 3]); used.push(device.stats().usedBytes > used[0]); }
      used.push(device.stats().usedBytes);
      return used;
    })()`);
    same(used, [used[0], true, used[0]], "bytes in use");
  });
  await test("a lost GPU", async () => {
    const codes = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const real = GPUAdapter.prototype.requestDevice;
      let machine;
      GPUAdapter.prototype.requestDevice = async function (...options) {
        return (machine = await real.apply(this, options));
      };
      const prefer = (await Device.isAvailable()) ? "gpu" : "software";
      const device = await Device.new({ prefer });
      GPUAdapter.prototype.requestDevice = real;
      machine.destroy();
      await machine.lost;
      const read = async () => device.tensor([1]).add(1).read();
      const code = await read().then(() => "none", (error) => error.code);
      const next = await Device.new({ prefer });
      return [code, ...(await next.tensor([1]).add(1).read())];
    });
    same(codes, ["DeviceLost", 2], "what a read says, and a new device");
  });
  await test("a read is one submission, and some without work that have the browser look whether it is done", async () => {
    const { value, work, software } = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const software = !(await Device.isAvailable());
      const device = await Device.new({ prefer: software ? "software" : "gpu" });
      const x = device.full([512, 512], 1 / 512);
      // Work that takes longer than the delay of a page's timers: 20 products.
      const last = () => Array.from({ length: 20 }).reduce((y) => y.matmul(x), x);
      // The first read finds no buffer for reading, so it creates one.
      await last().readRange(0, 1);
      const real = GPUQueue.prototype.submit;
      const work = [];
      GPUQueue.prototype.submit = function (buffers) {
        work.push(buffers.length);
        real.call(this, buffers);
      };
      const [value] = await last().readRange(0, 1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      GPUQueue.prototype.submit = real;
      device.dispose();
      return { value, work, software };
    });
    const [first, ...looks] = work;
    same([value, first, looks.some((buffers) => buffers)], [1 / 512, 1, false], "the mean, buffers of commands, more of them");
    // A GPU may finish earlier.
    if (software && (looks.length < 1 || looks.length > 60)) throw new Error(`${looks.length} looks`);
  });
  await test("a core that trapped", async () => {
    for (const prefer of ["webgpu", "cpu"]) await trapped(browser, prefer);
  });
  for (const prefer of ["webgpu", "cpu"]) {
    await test(`cleaning up after a core that trapped, on ${prefer}`, () => cleanedUp(browser, prefer));
  }
  await test("the console stays quiet", () => same(errors, [], "errors"));
  await test("kernels are measured once", async () => {
    const seen = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const device = await Device.new({ prefer: (await Device.isAvailable()) ? "gpu" : "software" });
      const x = device.tensor([1, 2, 3, 4], [2, 2]);
      const tuned = [await device.tune(), await device.tune()];
      const other = await Device.new({ prefer: "cpu" });
      tuned.push(await other.tune());
      const product = await x.matmul(x).softmax(0).read();
      return { tuned, product: [...product], used: device.stats().usedBytes, ready: await other.tune() };
    });
    const [first, second, cpu] = seen.tuned;
    console.log(`kernels: ${JSON.stringify(first)}`);
    same([first.measured, second.measured, cpu.measured, seen.ready.measured], [true, false, true, false], "measured");
    same(second.kernelConfig, first.kernelConfig, "kernels");
    if (!first.kernelConfig.startsWith("rows: ")) throw new Error(first.kernelConfig);
    // The columns of [[7, 10], [15, 22]].
    const expected = [8, 12].map((apart) => 1 / (1 + Math.exp(apart)));
    const wanted = [...expected, ...expected.map((share) => 1 - share)];
    if (seen.product.some((value, at) => Math.abs(value - wanted[at]) > 1e-6)) throw new Error(`${seen.product}`);
    same(errors, [], "errors on the console");
  });
  await browser.close();
}

/**
 * Tests a core that traps while hundreds of tensors are alive. Each call gives the same error, and the garbage collector frees
 * without errors.
 */
async function trapped(browser, prefer) {
  const { page, errors } = await open(browser, address);
  const { codes, collected } = await page.evaluate(async (wanted) => {
    const { Device } = await import("/dist/nn.js");
    const gpu = (await Device.isAvailable()) ? "gpu" : "software";
    const open = () => Device.new({ prefer: wanted === "webgpu" ? gpu : wanted });
    const device = await open();
    let tensors = Array.from({ length: 400 }, (_, n) => device.tensor([n]).add(1));
    let collected = 0;
    const registry = new FinalizationRegistry(() => (collected += 1));
    tensors.forEach((tensor) => registry.register(tensor));
    const [x, y] = [device.tensor([1, 2]), device.tensor([3, 4])];
    const codes = [];
    const call = async (work) => {
      try {
        await work();
        codes.push("no error");
      } catch (error) {
        codes.push(error.code ?? String(error));
      }
    };
    const waiting = x.add(y).read();
    // The core calls this function, whose error ends it like a trap.
    const { random } = Math;
    Math.random = () => {
      throw new WebAssembly.RuntimeError("unreachable");
    };
    await call(() => device.uniform([2]));
    Math.random = random;
    const calls = [
      () => waiting,
      () => x.add(1),
      () => x.sum(0, { keepdim: true }),
      () => x.read(),
      () => device.zeros([2]),
      () => device.tensor([1]),
      () => device.synchronize(),
      () => device.submit(),
      () => device.stats(),
      () => device.compile([{ shape: [2] }], (t) => t),
      open,
    ];
    for (const work of calls) await call(work);
    y.dispose();
    y.dispose();
    tensors = undefined;
    for (let tries = 0; tries < 100 && collected < 300; tries++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return { codes, collected };
  }, prefer);
  same([...new Set(codes)], ["DeviceLost"], `what ${codes.length} calls say on ${prefer}`);
  if (collected < 300) throw new Error(`only ${collected} tensors were collected`);
  same([...new Set(errors)], [], `errors on the console on ${prefer}`);
  await page.close();
}

/** Tests that disposal after a trap throws nothing, so the first error stays visible. */
async function cleanedUp(browser, prefer) {
  const { page, errors } = await open(browser, address);
  await page.evaluate(async (wanted) => {
    const warpweft = await import("/dist/nn.js");
    const gpu = (await warpweft.Device.isAvailable()) ? "gpu" : "software";
    await (await import("/cases/lost.js")).lose(warpweft, wanted === "webgpu" ? gpu : wanted);
  }, prefer);
  same([...new Set(errors)], [], `errors on the console on ${prefer}`);
  await page.close();
}

async function withoutWebGpu() {
  const browser = await launch(["--disable-features=WebGPU,WebGPUService"], /webgpu|Vulkan/);
  const { page, errors } = await open(browser, address);
  await test("without WebGPU: the CPU, openly", async () => {
    const got = await page.evaluate(async () => {
      const { Device } = await import("/dist/nn.js");
      const device = await Device.new();
      const values = [...(await device.tensor([1, 2]).exp().log().read())].map(Math.round);
      const refusal = await Device.new({ prefer: "gpu" }).catch(({ code, message }) => ({ code, message }));
      const { kind } = device.info;
      const found = await Device.discover();
      return { kind, values, refusal, found, fallback: device.fallback, available: await Device.isAvailable() };
    });
    const absent = { backend: "webgpu", name: "", vendor: "", kind: "gpu", driver: "" };
    const { info, available, recommended, reason } = got.found[1];
    same([info, available, recommended], [absent, false, false], "a device that is not there");
    // Newer browsers may have `navigator.gpu` without an adapter.
    const known = ["WebGPU is not available: `navigator.gpu` is missing", "WebGPU offers no adapter"];
    if (!known.includes(reason)) throw new Error(`reason: ${reason}`);
    same([got.kind, got.values, got.available], ["cpu", [1, 2], false], "device and values");
    if (!/computing on the CPU/.test(got.fallback)) throw new Error(`fallback: ${got.fallback}`);
    same(got.refusal.code, "NoDevice", got.refusal.message);
    same(errors, [], "errors on the console");
  });
  await browser.close();
}

await withWebGpu();
await withoutWebGpu();
close();
finish(results);
