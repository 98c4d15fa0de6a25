// Calls every method with hostile arguments. Each call must return a tensor or throw the package's error, never a WebAssembly
// trap or a `TypeError`. Small results are read. `WARPWEFT_HOSTILE=count,seed` sets the number of calls.

import { check, test } from "./harness.js";

/** Methods that wait, free or run things, and internal methods. */
const ASIDE = new Set(
  "constructor dispose read readRange readNested item bytes run to text print toString backward maskedSelect saveNpy claim extents __destroy_into_raw".split(" "),
);

/** Functions that create tensors. */
const CREATION = "tensor zeros ones full iota arange linspace eye uniform normal bernoulli randomBits".split(" ");

const NUMBERS = [0, 1, 2, 3, 4, 5, 7, -1, -2, -8, 0.5, -0, 64, 255, 2 ** 15, 2 ** 16, 2 ** 24 + 1, 2 ** 31 - 1, 2 ** 31,
  2 ** 32 - 1, 2 ** 32, 2 ** 53, -(2 ** 31), -(2 ** 53), 1e300, -1e300, 5e-324, NaN, Infinity, -Infinity];

const WORDS = ["f32", "f16", "i32", "u32", "bool", "u8", "sum", "prod", "max", "min", "any", "all", "linear", "nearest",
  "cubic", "reflect", "edge", "wrap", "same", "valid", "", "constructor", "__proto__", "length"];

const KEYS = ["stride", "padding", "dilation", "groups", "bias", "kernelSize", "ceilMode", "countIncludePad", "dtype", "std", "axes", "weight", "eps",
  "isCausal", "window", "attnMask", "scale", "seed", "low", "high", "mean", "exclusive", "reverse", "descending",
  "axis", "largest", "correction", "keepdim", "outputPadding", "filter", "antialias", "first", "step", "includeSelf"];

/** Returns random numbers that depend only on the seed (Tommy Ettinger's mulberry32). */
export function chance(seed) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count) => Math.floor(next() * count);
  return { below, one: (list) => list[below(list.length)] };
}

/** Returns an argument, mostly of a kind that some method expects. */
export function argument(random, tensors, depth = 0) {
  const list = (most, item) => Array.from({ length: random.below(most + 1) }, item);
  switch (random.below(depth < 2 ? 12 : 8)) {
    case 0: case 1: case 2:
      return random.one(tensors);
    case 3: case 4:
      return random.below(4);
    case 5:
      return random.one(NUMBERS);
    case 6:
      return random.one(WORDS);
    case 7:
      return random.one([true, false, undefined, null, 1n, Symbol.iterator, () => 1, new Float32Array(3), "2"]);
    case 8:
      return list(4, () => random.below(5));
    case 9:
      return list(9, () => random.one(NUMBERS));
    case 10:
      return list(4, () => argument(random, tensors, depth + 1));
    default:
      return Object.fromEntries(list(4, () => [random.one(KEYS), argument(random, tensors, depth + 1)]));
  }
}

/** Returns the text of a value in a call. */
export function written(value) {
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  if (value?.shape && value.dtype) return `${value.dtype}[${value.shape}]`;
  if (value?.constructor === Object) return `{ ${Object.entries(value).map(([key, x]) => `${key}: ${written(x)}`).join(", ")} }`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

const elements = ({ shape }) => shape.reduce((product, extent) => product * extent, 1);

/** Returns the names of all methods, including inherited ones. */
export function methods(prototype) {
  if (prototype === Object.prototype) return [];
  const own = Object.entries(Object.getOwnPropertyDescriptors(prototype));
  const named = own.filter(([name, { value }]) => typeof value === "function" && !ASIDE.has(name));
  return [...named.map(([name]) => name), ...methods(Object.getPrototypeOf(prototype))];
}

/** Arguments of hostile calls, and their results. */
class Storm {
  seen = { made: 0, refused: {}, read: 0 };

  constructor({ device, WarpweftError }, seed) {
    Object.assign(this, { device, WarpweftError, seed, random: chance(seed) });
    const shapes = [[], [0], [1], [3], [2, 3], [3, 3], [4, 1, 5], [2, 4, 6, 6], [4, 2, 3, 3], [1, 2, 4, 8], Array(8).fill(1)];
    this.tensors = shapes.map((shape) => device.ones(shape));
    this.tensors.push(device.full([3], 1, { dtype: "i32" }), device.full([2, 3], 2, { dtype: "u32" }), device.full([2, 3], true));
    this.tensors.push(device.zeros([2 ** 15, 2 ** 14]));
    this.fixed = this.tensors.length;
  }

  /** Makes the call that `call` describes. It must create tensors, or throw an error whose code `code` accepts. */
  async strike(call, make, code) {
    let made;
    try {
      made = make();
    } catch (error) {
      const found = code(error);
      const known = ["Shape", "DType", "InvalidArgument", "InvalidState", "Format", "Limit", "Unsupported"].includes(found);
      check(known, `seed ${this.seed}: ${call}: ${error?.stack ?? error}`);
      this.seen.refused[found] = (this.seen.refused[found] ?? 0) + 1;
      return;
    }
    this.seen.made += 1;
    for (const tensor of made) {
      const size = elements(tensor);
      if (size > 4096 || this.random.below(8) > 0) {
        tensor.dispose();
        continue;
      }
      const read = await tensor.read();
      check(read.length === size, `seed ${this.seed}: ${call}: ${read.length} elements of shape [${tensor.shape}]`);
      this.seen.read += 1;
      const at = Math.min(this.fixed + this.random.below(24), this.tensors.length);
      this.tensors[at]?.dispose();
      this.tensors[at] = tensor;
    }
  }

  /** Disposes of all tensors, and returns the counts. */
  end(count, what) {
    this.tensors.forEach((tensor) => tensor.dispose());
    const seen = JSON.stringify(this.seen);
    console.log(`${what}: ${seen}`);
    check(this.seen.made > count / 20 && this.seen.read > 20, `too few calls made something: ${seen}`);
    for (const code of ["Shape", "DType", "InvalidArgument", "Limit"]) check(this.seen.refused[code] > 20, `${code} is not among the refusals: ${seen}`);
  }
}

test("methods with arguments nobody should pass", async (context) => {
  const [count, seed] = context.hostile;
  const { Tensor, WarpweftError } = context;
  const storm = new Storm(context, seed);
  const { device, random, tensors } = storm;
  const names = methods(Object.getPrototypeOf(tensors[0]));
  for (let n = 0; n < count; n++) {
    const on = random.below(8) === 0 ? device : random.one(tensors);
    const name = random.one(on === device ? CREATION : names);
    const values = Array.from({ length: random.below(5) }, () => argument(random, tensors));
    const call = `${on === device ? "device" : written(on)}.${name}(${values.map(written).join(", ")})`;
    const make = () => [on[name](...values)].flat().filter((value) => value instanceof Tensor);
    await storm.strike(call, make, (error) => error instanceof WarpweftError && error.code);
  }
  storm.end(count, "methods");
});
