// Tests input data of every kind, and numbers as text.

import { check, close, refuses, rejects, same, test } from "./harness.js";

const all = async (tensor) => [...(await tensor.read())];

/** The typed array of `f16`, which not every browser has. */
const Float16 = globalThis.Float16Array;

test("arrays of every kind", async ({ device }) => {
  const kinds = {
    f32: [new Float32Array([1, 2]), new Float64Array([1, 2]), [1, 2], [[1, 2]]],
    i32: [new Int8Array([1, 2]), new Int16Array([1, 2]), new Int32Array([1, 2]), new BigInt64Array([1n, 2n]), [1n, 2n]],
    u32: [new Uint8Array([1, 2]), new Uint8ClampedArray([1, 2]), new Uint16Array([1, 2]), new Uint32Array([1, 2])],
    bool: [[true, true], [[true], [true]]],
  };
  for (const [dtype, sources] of Object.entries(kinds)) {
    for (const source of sources) {
      const x = device.tensor(source);
      same([x.dtype, await all(x)], [dtype, dtype === "bool" ? [1, 1] : [1, 2]], Object.prototype.toString.call(source));
    }
  }
  same(await all(device.tensor(new Uint8Array([0, 200, 255]))), [0, 200, 255], "bytes are numbers");
  same(await all(device.tensor(new Uint8Array([0, 1]), [2], "bool")), [0, 1], "bytes as truths");
  same(await all(device.tensor(new Uint8Array([0, 255]), [2], "f32").div(255)), [0, 1], "a picture's bytes");
  const bytes = device.tensor(new Uint8Array([0, 200, 255]), [3], "u8");
  const signed = device.tensor(new Int8Array([-128, 0, 127]), undefined, "i8");
  same([bytes.dtype, signed.dtype], ["u8", "i8"]);
  same([await bytes.read(), await signed.read()], [new Uint8Array([0, 200, 255]), new Int8Array([-128, 0, 127])]);
  same(await all(bytes.cast("f32").div(255).mul(51)), [0, 40, 51]);
  same(await all(signed.flip(0).cast("i32")), [127, 0, -128]);
  const sound = device.tensor(new Int16Array([-32768, 0, 32767]), undefined, "i16");
  const depths = device.tensor(new Uint16Array([0, 256, 65535]), [3], "u16");
  same([sound.dtype, depths.dtype], ["i16", "u16"]);
  same([await sound.read(), await depths.read()], [new Int16Array([-32768, 0, 32767]), new Uint16Array([0, 256, 65535])]);
  same(await all(sound.cast("f32").div(32768)), [-1, 0, 32767 / 32768]);
  same(await all(depths.flip(0).cast("i32")), [65535, 256, 0]);
  refuses("DType", "tensor", () => device.tensor([256], [1], "u8"));
  refuses("DType", "tensor", () => device.tensor([-32769], [1], "i16"));
  refuses("DType", "add", () => bytes.add(1));
  same(await all(device.tensor(new Float64Array([2 ** 24 + 1]))), [2 ** 24], "rounded to f32");
  same(await all(device.tensor(5n)), [5]);
  refuses("DType", "tensor", () => device.tensor(new BigInt64Array([2n ** 40n])));
  refuses("DType", "tensor", () => device.tensor([2n ** 40n]));
  refuses("DType", "tensor", () => device.tensor(new BigUint64Array([2n ** 32n])));
  if (!device.limits.f16) return;
  same(device.tensor([1.5], [1], "f16").dtype, "f16");
  if (Float16) same([device.tensor(new Float16([1.5])).dtype, await all(device.tensor(new Float16([1.5])))], ["f16", [1.5]]);
});

test("buffers with a type beside them", async ({ device }) => {
  const words = new Float32Array([1.5, -2]).buffer;
  same(await all(device.tensor(words, undefined, "f32")), [1.5, -2]);
  same(await all(device.tensor(words, [2, 1], "u32")), [0x3fc00000, 0xc0000000]);
  same(await all(device.tensor(new Uint8Array([1, 0, 1]).buffer, [3], "bool")), [1, 0, 1]);
  if (device.limits.f16) close(await all(device.tensor(new Uint16Array([0x3c00, 0xc100]).buffer, [2], "f16")), [1, -2.5]);
  refuses("InvalidArgument", "tensor", () => device.tensor(words));
});

test("a type for every creation", async ({ device }) => {
  const made = {
    zeros: (dtype) => device.zeros([2], { dtype }),
    ones: (dtype) => device.ones(2, { dtype }),
    full: (dtype) => device.full([2], 1, { dtype }),
    arange: (dtype) => device.arange(2, { dtype }),
    "arange with a start": (dtype) => device.arange(0, 2, 1, { dtype }),
    linspace: (dtype) => device.linspace(0, 1, 2, { dtype }),
    eye: (dtype) => device.eye(2, { dtype }),
    bernoulli: (dtype) => device.bernoulli([2], 0.5, { dtype, seed: 1 }),
  };
  for (const [name, make] of Object.entries(made)) {
    for (const dtype of ["f32", "i32", "u32"]) same(make(dtype).dtype, dtype, name);
    same(make(undefined).dtype, "f32", name);
  }
  same(await all(device.arange(4)), [0, 1, 2, 3]);
  same(await all(device.arange(2, 5)), [2, 3, 4]);
  same(await all(device.arange(3, 0, -1, { dtype: "u32" })), [3, 2, 1]);
  same(await all(device.tensor([7, 8]).fullLike(3)), [3, 3]);
  check((await device.zeros([2], { dtype: "bool" }).read()) instanceof Uint8Array, "bool");
});

/** The output of NumPy 2 (`print(numpy.array(...))`) for these arrays, from `www/tests/cases/numpy_text.py`. */
import { golden } from "./numpy_text.js";

test("numbers as NumPy shows them", async ({ device }) => {
  for (const { list, shape, dtype, text } of golden) {
    const numbers = list.map((x) => ({ nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0 })[x] ?? x);
    same(await device.tensor(numbers, shape, dtype).text(), text, `${dtype} [${shape}] of ${list.slice(0, 4)}`);
  }
  const long = device.arange(2000);
  same(await long.text(), "[0.000e+00 1.000e+00 2.000e+00 ... 1.997e+03 1.998e+03 1.999e+03]");
  same(await device.tensor([1 / 3]).text({ precision: 3 }), "[0.333]");
});

test("a long text of all elements, and its options", async ({ device }) => {
  // More numbers than a call can have arguments.
  for (const dtype of ["f32", "i32"]) {
    const text = await device.zeros([200_000], { dtype }).text({ threshold: Infinity });
    same(text.split(/\s+/).length, 200_000, `words of ${dtype}`);
  }
  same(await device.tensor([1 / 3, 1e-9]).text({ precision: 0 }), "[3.e-01 1.e-09]");
  const x = device.tensor([1 / 3]);
  for (const precision of [-1, 1.5, 101, NaN, "3", null]) {
    await rejects("InvalidArgument", "text: precision must be an integer from 0 to 100", () => x.text({ precision }));
  }
  for (const threshold of [NaN, "3", null]) {
    await rejects("InvalidArgument", "text: threshold must be a number", () => x.print({ threshold }));
  }
});

test("buffers that are too big are refused", async ({ device }) => {
  const made = (length, Kind) => {
    try {
      return new Kind(length);
    } catch {
      return undefined; // The browser has no such buffers.
    }
  };
  const kept = device.tensor([1, 2]);
  for (const bytes of [2 ** 31, 2 ** 32]) {
    const file = made(bytes, Uint8Array);
    if (!file) continue;
    for (const op of ["loadSafetensors", "loadNpy", "loadNpz"]) {
      await rejects("Memory", `${op}: the bytes must fit into the memory of WebAssembly, got ${bytes}`, () => device[op](file));
    }
  }
  const numbers = made(2 ** 30, Float32Array);
  const code = device.info.backend === "cpu" ? "Memory" : "Limit";
  if (numbers) refuses(code, "tensor: ", () => device.tensor(numbers));
  same(await all(kept.add(1)), [2, 3], "the device afterwards");
});

test("a download is cancelled after an error", async ({ device }) => {
  if (!globalThis.ReadableStream) return;
  const mine = new Error("mine");
  let cause;
  const pull = (controller) => controller.enqueue(new Uint8Array(10));
  const response = new Response(new ReadableStream({ pull, cancel: (reason) => void (cause = reason) }));
  const onProgress = () => { throw mine; };
  const thrown = await device.loadSafetensors(response, { onProgress }).catch((error) => error);
  check(thrown === mine, `what the function threw: ${thrown}`);
  check(cause === mine, `the reason of the cancellation: ${cause}`);
});

test("more arguments than a method takes are refused", ({ device }) => {
  const x = device.ones([2, 3]);
  refuses("InvalidArgument", "reshape: there must be at most 1 argument, got 2; for a list: reshape([6, 1])", () =>
    x.reshape(6, 1),
  );
  refuses("InvalidArgument", "permute: there must be at most 1 argument, got 2; for a list: permute([1, 0])", () =>
    x.permute(1, 0),
  );
  refuses("InvalidArgument", "add: there must be at most 1 argument, got 2", () => x.add(1, "2"));
  same(x.reshape([6, 1], undefined).shape, [6, 1]);
});

test("division is true division; floorDivide is of whole numbers", async ({ device }) => {
  const bytes = device.tensor(new Uint8Array([255, 128]));
  same(bytes.div(255).dtype, "f32");
  close(await bytes.div(255).read(), [1, 128 / 255]);
  const whole = device.tensor(new Int32Array([7, -7]));
  close(await whole.div(device.tensor(new Int32Array([2, 2]))).read(), [3.5, -3.5]);
  same([...(await whole.floorDivide(2).read())], [3, -4]);
  same(whole.floorDivide(2).dtype, "i32");
  close(await device.tensor([7, -7]).floorDivide(2).read(), [3, -4]);
});

test("a device is opened by a function", ({ Device }) => {
  refuses("InvalidArgument", "Device: devices must be opened by `await Device.new()`", () => new Device());
});
