// Tests sharing a GPU device with a page, in Chromium: the example's pixels, and buffers that pass in both directions without
// copies.

import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { same } from "./cases/harness.js";
import { finish, launch, open, serve } from "./support/browser.js";

const www = (name) => join(root, "www", name);
const { address, close } = await serve({ "/dist/": www("dist"), "/examples/": www("examples"), "/cases/": www("tests/cases") });
const browser = await launch();
const results = [];

/** Adds a result: passed unless `body` throws, or the console shows errors. Each test has a separate page. */
async function test(name, body, path = "/") {
  const { page, errors } = await open(browser, address + path);
  try {
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error("nothing for 60 s")), 60_000).unref());
    await Promise.race([body(page), late]);
    if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
  await page.close();
}

/** Fails unless all pixels, of four bytes each, show the waves around a point. */
function areWaves(pixels, time, [cx, cy]) {
  let wrong = 0;
  for (let at = 0; at < 256 * 256; at++) {
    const [x, y] = [at % 256, Math.floor(at / 256)].map((n) => (2 * n) / 255 - 1);
    const height = Math.sin(Math.hypot(x - cx, y - cy) * 24 - time) * 0.5 + 0.5;
    const colour = [255 * height, 127.5, 255 * (1 - height), 255];
    if (colour.some((part, n) => Math.abs(part - pixels[4 * at + n]) > 2)) wrong += 1;
  }
  if (wrong) throw new Error(`${wrong} of ${256 * 256} pixels are wrong: they begin with ${pixels.slice(0, 8)}`);
}

/**
 * Returns the pixels that the example draws, and the WebGPU calls that it made. It draws into a texture, because a headless
 * Chromium without a GPU destroys devices whose canvases it displays.
 */
const drawn = (page, time, place) =>
  page.evaluate(async ([time, place]) => {
    const { gpu, format, move, draw } = await ready;
    const usage = GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.COPY_SRC;
    const texture = gpu.createTexture({ size: [256, 256], format, usage });
    if (place) move(...place);
    const calls = [];
    const real = { mapAsync: GPUBuffer, createBuffer: GPUDevice, copyBufferToBuffer: GPUCommandEncoder };
    for (const [name, { prototype }] of Object.entries(real)) {
      const method = (real[name] = prototype[name]);
      prototype[name] = function (...given) {
        calls.push(name);
        return method.apply(this, given);
      };
    }
    draw(time, texture);
    Object.assign(GPUBuffer.prototype, { mapAsync: real.mapAsync });
    Object.assign(GPUDevice.prototype, { createBuffer: real.createBuffer });
    Object.assign(GPUCommandEncoder.prototype, { copyBufferToBuffer: real.copyBufferToBuffer });
    const buffer = gpu.createBuffer({ size: 4 << 16, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = gpu.createCommandEncoder();
    encoder.copyTextureToBuffer({ texture }, { buffer, bytesPerRow: 1024 }, [256, 256]);
    gpu.queue.submit([encoder.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
    const pixels = [...new Uint8Array(buffer.getMappedRange())];
    if (format.startsWith("bgra")) {
      for (let at = 0; at < pixels.length; at += 4) [pixels[at], pixels[at + 2]] = [pixels[at + 2], pixels[at]];
    }
    return { pixels, calls };
  }, [time, place]);

const example = "/examples/share/index.html?still";

await test("the example draws what tensors compute, and nothing is read or copied", async (page) => {
  areWaves((await drawn(page, 2)).pixels, 2, [0, 0]);
  const { pixels, calls } = await drawn(page, 3, [0.5, -0.25]);
  areWaves(pixels, 3, [0.5, -0.25]);
  same(calls, [], "copies, reads and new buffers of a frame");
}, example);

await test("the example runs on without making anything new", async (page) => {
  const frames = (count) =>
    page.evaluate(async (count) => {
      const { gpu, format, device, draw } = await ready;
      const texture = gpu.createTexture({ size: [256, 256], format, usage: GPUTextureUsage.RENDER_ATTACHMENT });
      for (let frame = 0; frame < count; frame++) {
        draw(frame, texture);
        await new Promise(requestAnimationFrame);
      }
      const { plans, pipelines, buffers, submits } = device.stats();
      return { made: { plans, pipelines, buffers }, submits };
    }, count);
  const before = await frames(10);
  const after = await frames(20);
  same(after.made, before.made, "what was made");
  same(after.submits - before.submits, 20, "submissions of 20 frames");
}, example);

/** Runs a test inside a page. `body` gets the page's objects and the library, and must not use other objects. */
const inPage = (name, body) =>
  test(name, (page) =>
    page.evaluate(async (body) => {
      const harness = await import("/cases/harness.js");
      const { Device, Tensor, Variable } = await import("/dist/index.js");
      const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
      const ALL = STORAGE | COPY_SRC | COPY_DST;
      const adapter = async () => navigator.gpu.requestAdapter();
      const opened = async (descriptor) => (await adapter()).requestDevice(descriptor);
      const gpu = await opened();
      const reported = [];
      const onError = (gpu.onuncapturederror = ({ error }) => reported.push(error.message));
      /** Returns a buffer of the page with these numbers. */
      const filled = (numbers) => {
        const buffer = gpu.createBuffer({ size: 4 * numbers.length, usage: ALL });
        gpu.queue.writeBuffer(buffer, 0, new Float32Array(numbers));
        return buffer;
      };
      /** Reads a buffer as the page does. */
      const bytes = async (buffer, size) => {
        const target = gpu.createBuffer({ size, usage: COPY_DST | MAP_READ });
        const encoder = gpu.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, 0, target, 0, size);
        gpu.queue.submit([encoder.finish()]);
        await target.mapAsync(GPUMapMode.READ);
        const read = [...new Float32Array(target.getMappedRange().slice(0))];
        target.destroy();
        return read;
      };
      const page = { ...harness, Device, Tensor, Variable, ALL, adapter, opened, gpu, filled, bytes };
      await (0, eval)(`(${body})`)(page);
      harness.same(reported, [], "errors that the page was told of");
      harness.check(gpu.onuncapturederror === onError, "the page's own handler was replaced");
      harness.check(!Object.hasOwn(gpu, "createBuffer") && navigator instanceof Navigator, "something stayed behind");
    }, String(body)));

await inPage("tensors live on the page's device", async ({ Device, gpu, same, close, check }) => {
  const device = await Device.from(gpu);
  const compute = (on) => {
    const x = on.linspace(-1, 1, 48).reshape([6, 8]);
    return x.matmul(x.transpose(0, 1)).softmax(1).read();
  };
  close(await compute(device), await compute(await Device.new({ prefer: "cpu" })));
  const { limits, info } = device;
  same([info.backend, device.fallback], ["webgpu", undefined], "what it is");
  check(info.name && info.kind, `what it says of itself: ${JSON.stringify(info)}`);
  same([limits.buffersPerKernel, limits.f16], [gpu.limits.maxStorageBuffersPerShaderStage, false], "what it was opened with");
  check(limits.bindingBytes <= gpu.limits.maxStorageBufferBindingSize, `${limits.bindingBytes} bytes`);
  // A kernel with more buffers than the device allows.
  const parts = Array.from({ length: 20 }, (_, n) => device.full([5], n).mul(device.tensor([1, 1, 1, 1, 1])));
  same([...(await parts.reduce((sum, part) => sum.add(part)).read())], [190, 190, 190, 190, 190], "a long sum");
});

await inPage("a tensor's buffer is the page's to read, without a copy", async ({ Device, gpu, same, bytes, check }) => {
  const device = await Device.from(gpu);
  const x = device.tensor([[1, 2, 3], [4, 5, 6]]);
  const y = x.mul(2).transpose(0, 1);
  const before = device.stats();
  const shared = y.gpuBuffer();
  const after = device.stats();
  const grown = ["submits", "kernels", "buffers"].map((name) => after[name] - before[name]);
  same(grown, [1, 1, 1], "submissions, kernels and buffers");
  check(shared.buffer instanceof GPUBuffer && shared.buffer.size >= 24, "the buffer");
  same([shared.byteLength, Object.isFrozen(y.shape)], [24, true], "bytes");
  same(await bytes(shared.buffer, 24), [2, 8, 4, 10, 6, 12], "what the page reads");
  const again = y.gpuBuffer();
  check(again.buffer === shared.buffer, "another buffer the second time");
  same(device.stats(), after, "nothing was made for that");
  // The memory stays allocated until both are disposed of, even if other work needs memory.
  again.dispose();
  again.dispose();
  y.dispose();
  device.trim();
  for (let n = 0; n < 4; n++) await device.full([6], n).mul(device.ones([6])).read();
  same(await bytes(shared.buffer, 24), [2, 8, 4, 10, 6, 12], "what the page reads later");
  const { usedBytes } = device.stats();
  if (Symbol.dispose) shared[Symbol.dispose]();
  else shared.dispose();
  shared.dispose();
  check(device.stats().usedBytes < usedBytes, "its memory was not given back");
  // In a scope, too.
  const kept = device.scope(() => device.tensor([7, 8]).add(1).gpuBuffer());
  same(await bytes(kept.buffer, 8), [8, 9], "from a scope");
  kept.dispose();
});

await inPage("the page's buffer is a tensor, without a copy", async ({ Device, gpu, same, filled, check }) => {
  const device = await Device.from(gpu);
  const buffer = filled([1, 2, 3, 4, 5, 6, 0, 0]);
  const memory = () => ["buffers", "bytes", "usedBytes", "submits"].map((name) => device.stats()[name]);
  const before = memory();
  const x = device.tensorFromBuffer(buffer, { shape: [2, 3] });
  same(memory(), before, "buffers, bytes, bytes in use, submissions");
  same([x.shape, x.dtype, [...(await x.read())]], [[2, 3], "f32", [1, 2, 3, 4, 5, 6]], "the tensor");
  same([...(await x.sum(1).read())], [6, 15], "sums");
  const shared = x.gpuBuffer();
  check(shared.buffer === buffer, "the tensor lies elsewhere");
  shared.dispose();
  const words = device.tensorFromBuffer(buffer, { shape: [2], dtype: "u32" });
  same([...(await words.read())], [...new Uint32Array(new Float32Array([1, 2]).buffer)], "as words");
});

await inPage("what the page writes", async ({ Device, Variable, gpu, same, filled }) => {
  const device = await Device.from(gpu);
  const buffer = filled(Array(8).fill(0));
  const seen = new Variable(device.tensorFromBuffer(buffer, { shape: [8] }));
  let settled;
  for (let frame = 0; frame < 12; frame++) {
    gpu.queue.writeBuffer(buffer, 0, new Float32Array(8).fill(frame));
    seen.assign(device.tensorFromBuffer(buffer, { shape: [8] }));
    const sum = seen.value.sum();
    same(await sum.item(), 8 * frame, "the sum");
    sum.dispose();
    const { plans, pipelines, buffers, bindGroups, nodes } = device.stats();
    const made = { plans, pipelines, buffers, bindGroups, nodes };
    if (frame > 2) same(made, (settled ??= made), `what was made, in frame ${frame}`);
  }
});

await inPage("what is the page's stays, and what was made on it goes", async ({ Device, gpu, same, filled, bytes }) => {
  const buffer = filled([1, 2, 3, 4]);
  const [made, gone, destroyed] = [new Set(), new Set(), []];
  const { createBuffer } = GPUDevice.prototype;
  const { destroy } = GPUBuffer.prototype;
  const end = GPUDevice.prototype.destroy;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const buffer = createBuffer.call(this, descriptor);
    made.add(buffer);
    return buffer;
  };
  GPUBuffer.prototype.destroy = function () {
    gone.add(this);
    destroy.call(this);
  };
  GPUDevice.prototype.destroy = function () {
    destroyed.push(this);
    end.call(this);
  };
  const device = await Device.from(gpu);
  const x = device.tensorFromBuffer(buffer, { shape: [4] });
  const twice = x.mul(2);
  same([...(await twice.read())], [2, 4, 6, 8], "twice");
  const again = device.tensorFromBuffer(buffer, { shape: [4] });
  x.dispose();
  device.trim();
  same([...(await again.add(1).read())], [2, 3, 4, 5], "one of two tensors is gone");
  const kept = twice.gpuBuffer();
  device.dispose();
  kept.dispose();
  const later = () => new Promise((resolve) => setTimeout(resolve, 10));
  for (let tries = 0; tries < 100 && gone.size < made.size; tries++) await later();
  const counts = [gone.size, gone.has(buffer), destroyed.length];
  same(counts, [made.size, false, 0], "destroyed of what was made, the page's, devices");
  Object.assign(GPUDevice.prototype, { createBuffer, destroy: end });
  GPUBuffer.prototype.destroy = destroy;
  same(await bytes(buffer, 16), [1, 2, 3, 4], "the page's buffer");
  const next = await Device.from(gpu);
  same([...(await next.tensorFromBuffer(buffer, { shape: [4] }).neg().read())], [-1, -2, -3, -4], "a second device on it");
});

await inPage("devices that can not be shared", async ({ Device, gpu, rejects, adapter, opened }) => {
  const forged = { lost: new Promise(() => {}), [Symbol.toStringTag]: "GPUDevice" };
  const heirs = [Object.create(GPUDevice.prototype), Object.create(gpu)];
  const odd = [undefined, null, 1, "gpu", {}, [], forged, ...heirs, await adapter()];
  for (const device of odd) await rejects("InvalidArgument", "from", () => Device.from(device));
  await rejects("InvalidArgument", "from", () => Device.from(new Proxy(gpu, {})));
  await rejects("InvalidArgument", "from", () => Device.from(gpu, { prefer: "gpu" }));
  const lost = await opened();
  lost.destroy();
  await rejects("DeviceLost", "from", () => Device.from(lost));
});

await inPage("buffers that can not be tensors", async ({ Device, gpu, ALL, same, refuses, rejects, opened }) => {
  const device = await Device.from(gpu);
  const op = "tensorFromBuffer";
  const buffer = (size, usage = ALL) => gpu.createBuffer({ size, usage });
  const make = (given, spec = { shape: [4] }, on = device) => on.tensorFromBuffer(given, spec);
  const heirs = [Object.create(GPUBuffer.prototype), Object.create(buffer(16))];
  for (const odd of [undefined, null, 4, {}, new ArrayBuffer(16), ...heirs]) refuses("InvalidArgument", op, () => make(odd));
  for (const odd of [undefined, {}, ...heirs]) refuses("InvalidArgument", op, () => device.borrow(odd, "f32", [4]));
  refuses("InvalidArgument", `${op}: the buffer must have the usage COPY_SRC`, () => make(buffer(16, GPUBufferUsage.STORAGE)));
  refuses("InvalidArgument", `${op}: the buffer must have the usage STORAGE`, () => make(buffer(16, GPUBufferUsage.COPY_SRC)));
  const small = `${op}: the buffer must have at least 32 bytes, in a multiple of 16, for [5] of f32, got 20`;
  refuses("InvalidArgument", small, () => make(buffer(20), { shape: [5] }));
  refuses("InvalidArgument", op, () => make(buffer(16), {}));
  refuses("InvalidArgument", op, () => make(buffer(16), null));
  refuses("InvalidArgument", op, () => make(buffer(16), { shape: [4], type: "f32" }));
  refuses("InvalidArgument", op, () => make(buffer(16), { shape: [4], dtype: "f64" }));
  refuses("Shape", op, () => make(buffer(16), { shape: [-1] }));
  refuses("InvalidArgument", op, () => make(buffer(16), { shape: [2 ** 30] }));
  refuses("Unsupported", op, () => make(buffer(16), { shape: [4], dtype: "f16" }));
  const mapped = gpu.createBuffer({ size: 16, usage: ALL, mappedAtCreation: true });
  refuses("InvalidArgument", `${op}: the buffer must be unmapped, got mapped`, () => make(mapped));
  const cpu = await Device.new({ prefer: "cpu" });
  refuses("Unsupported", op, () => make(buffer(16), { shape: [4] }, cpu));
  refuses("Unsupported", "gpuBuffer", () => cpu.ones([4]).gpuBuffer());
  const gone = device.ones([4]);
  gone.dispose();
  refuses("InvalidState", "gpuBuffer: the object must not be disposed", () => gone.gpuBuffer());
  refuses("InvalidArgument", op, () => Device.prototype.tensorFromBuffer.call({}, buffer(16), { shape: [4] }));
  // Only the browser knows this error, so it is reported by a read.
  const foreign = (await opened()).createBuffer({ size: 16, usage: ALL });
  await rejects("Unsupported", "", () => make(foreign).read());
  const destroyed = buffer(16);
  const early = make(destroyed);
  same([...(await early.read())], [0, 0, 0, 0], "before it is destroyed");
  destroyed.destroy();
  await rejects("Unsupported", "", () => early.add(1).read());
  await rejects("Unsupported", "", () => make(destroyed).mul(2).read());
  same([...(await device.ones([4]).add(1).read())], [2, 2, 2, 2], "the device goes on");
  device.dispose();
  refuses("InvalidState", op, () => make(buffer(16)));
  const closed = Object.preventExtensions(await opened());
  const on = await Device.from(closed);
  same([...(await on.ones([2]).add(1).read())], [2, 2], "on a device whose object takes no properties");
  refuses("Unsupported", op, () => make(closed.createBuffer({ size: 16, usage: ALL }), { shape: [4] }, on));
});

await inPage("error scopes of the page's are its own", async ({ Device, gpu, same, check, bytes }) => {
  const device = await Device.from(gpu);
  const x = device.tensor([1, 2]);
  gpu.pushErrorScope("validation");
  const reading = x.exp().read();
  gpu.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.MAP_WRITE });
  gpu.pushErrorScope("validation");
  const adding = x.add(1).read();
  const [inner, outer] = [gpu.popErrorScope(), gpu.popErrorScope()];
  check(!(await inner) && (await outer) instanceof GPUValidationError, "the page's error went elsewhere");
  same([...(await reading), ...(await adding)].map(Math.round), [3, 7, 2, 3], "what was read");
  // No read is pending here, so nothing waits.
  await device.zeros([0]).add(1).read();
  gpu.pushErrorScope("validation");
  const shared = x.mul(5).gpuBuffer();
  gpu.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.MAP_WRITE });
  const error = gpu.popErrorScope();
  same(await bytes(shared.buffer, 8), [5, 10], "what was computed");
  check((await error) instanceof GPUValidationError, "the page's error went elsewhere");
});

await inPage("the page's device is lost", async ({ Device, Tensor, same, rejects, refuses, opened }) => {
  const gpu = await opened();
  const device = await Device.from(gpu);
  const x = device.tensor([1, 2]).exp();
  await x.read();
  gpu.destroy();
  await gpu.lost;
  await rejects("DeviceLost", "read", () => x.read());
  await rejects("DeviceLost", "synchronize", () => device.synchronize());
  refuses("DeviceLost", "gpuBuffer", () => x.gpuBuffer());
  const next = await Device.from(await opened());
  same([...(await next.tensor([1]).add(1).read())], [2], "a new one");
  refuses("InvalidArgument", "add", () => x.add(Object.create(Tensor.prototype)));
});

await browser.close();
close();
finish(results);
