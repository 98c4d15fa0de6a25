// Tests every row of the pointwise table against plain JavaScript, on one device.

import { check, close, randoms, same, test } from "./harness.js";
import { binary, bitwise, logical, unary } from "./reference.js";

const usual = [-7.5, -2.5, -1, -0.3, 0, 1e-3, 0.5, 1, 2.5, 7];

test("rows of one operand", async ({ device }) => {
  for (const [name, [formula, values = usual]] of Object.entries(unary)) {
    const result = await device.tensor(values)[name]().read();
    // GPUs may be off by a few units in the last place, and for sin, cos and tan by 2^-11.
    close(result, values.map((x) => formula(Math.fround(x))), /^(sin|cos|tan)$/.test(name) ? 1e-3 : 1e-4, name);
  }
});

test("rows of two operands", async ({ device }) => {
  const [a, b] = [randoms(12, 5).map((x) => Math.fround(x * 4)), randoms(12, 9).map((x) => Math.fround(x * 3))];
  b[3] = a[3];
  const [x, y] = [device.tensor(a), device.tensor(b)];
  for (const [name, formula] of Object.entries(binary)) {
    const base = name === "pow" ? x.abs() : x;
    const want = a.map((v, i) => formula(name === "pow" ? Math.abs(v) : v, b[i]));
    close(await base[name](y).read(), want, 1e-4, name);
    const alone = a.map((v) => formula(name === "pow" ? Math.abs(v) : v, 1.5));
    close(await base[name](1.5).read(), alone, 1e-4, `${name} with a number`);
  }
});

test("rows of bool and integers", async ({ device }) => {
  const [p, q] = [[true, true, false, false], [true, false, true, false]];
  for (const [name, formula] of Object.entries(logical)) {
    same([...(await device.tensor(p)[name](device.tensor(q)).read())], p.map((x, i) => Number(formula(x, q[i]))), name);
  }
  same([...(await device.tensor(p).logicalNot().read())], [0, 0, 1, 1], "logicalNot");
  const [m, n] = [[13, -7, 1 << 20, 3], [5, 3, 7, 2]];
  const [x, y] = [new Int32Array(m), new Int32Array(n)].map((list) => device.tensor(list));
  for (const [name, formula] of Object.entries(bitwise)) {
    same([...(await x[name](y).read())], m.map((v, i) => formula(v, n[i])), name);
  }
  same([...(await x.bitwiseNot().read())], m.map((v) => ~v), "bitwiseNot");
});

test("rows of three operands and with parameters", async ({ device }) => {
  const x = device.tensor([-3, -0.5, 0.25, 4]);
  same([...(await x.clamp(-1, 1).read())], [-1, -0.5, 0.25, 1], "clamp");
  same([...(await x.clamp(-1).read())], [-1, -0.5, 0.25, 4], "clamp from below");
  same([...(await x.clamp(undefined, 0).read())], [-3, -0.5, 0, 0], "clamp from above");
  close(await x.fma(2, 1).read(), [-5, 0, 1.5, 9], 1e-6, "fma");
  close(await x.lerp(1, 0.5).read(), [-1, 0.25, 0.625, 2.5], 1e-6, "lerp");
  close(await x.gt(0).where(x, x.neg().mul(10)).read(), [30, 5, 0.25, 4], 1e-6, "where");
  close(await x.gt(0).where(1, 0).read(), [0, 0, 1, 1], 1e-6, "where of numbers");
  close(await x.leakyRelu(0.2).read(), [-0.6, -0.1, 0.25, 4], 1e-6, "leakyRelu");
  close(await x.hardTanh(-0.25, 0.1).read(), [-0.25, -0.25, 0.1, 0.1], 1e-6, "hardTanh");
});

test("random bits are those of the seed", async ({ device }) => {
  const counter = device.tensor(new Uint32Array([0, 1, 2, 3]));
  const bits = counter.randomBits(42);
  check(new Set(await bits.read()).size === 4, "the words are equal");
  for (const value of await bits.unitFloat().read()) check(0 <= value && value < 1, `unitFloat: ${value}`);
});

test("bits of floats", async ({ device }) => {
  const bits = device.tensor(new Uint32Array([0x3f800000, 0xc0200000, 0x7f800000]));
  same([...(await bits.bitcast("f32").read())], [1, -2.5, Infinity], "bits");
  same([...(await bits.bitcast("f32").bitcast("u32").read())], [0x3f800000, 0xc0200000, 0x7f800000], "there and back");
});
