// Tests custom elementwise functions and shaders in WGSL.

import { check, close, randoms, refuses, rejects, same, test } from "./harness.js";

const CLIP = "fn clip(x: f32, limit: f32) -> f32 { return x / (1.0 + abs(x) / limit); }";
const clip = (x, limit) => x / (1 + Math.abs(x) / limit);

test("a function of elements, with a gradient", async ({ device }) => {
  const byX = await device.elementFunction(
    "fn by_x(x: f32, limit: f32) -> f32 { let d = 1.0 + abs(x) / limit; return 1.0 / (d * d); }",
    { fallback: (x, limit) => x.abs().div(limit).add(1).square().reciprocal() },
  );
  const byLimit = await device.elementFunction(
    "fn by_limit(x: f32, limit: f32, y: f32) -> f32 { return y * y / (limit * limit) * sign(x); }",
    { fallback: (x, limit, y) => y.div(limit).square().mul(x.sign()) },
  );
  const soft = await device.elementFunction(CLIP, {
    gradients: [byX, byLimit],
    fallback: (x, limit) => x.div(x.abs().div(limit).add(1)),
  });
  same([soft.name, String(soft)], ["clip", "ElementFunction(clip)"]);
  const values = randoms(40);
  const x = device.tensor(values, [5, 8]);
  const y = soft.call(x.mul(3), 2).add(1);
  close(await y.read(), values.map((v) => clip(3 * v, 2) + 1));
  if (device.info.backend === "webgpu") same(device.lastPlan().kernels, 1, "kernels");
  const limits = device.tensor([1, 2, 3, 4, 1, 2, 3, 4]);
  close(await soft.call(x, limits).read(), values.map((v, i) => clip(v, (i % 4) + 1)));
  const [dx] = soft.call(x, limits).sum().grad([x]);
  close(await dx.read(), values.map((v, i) => (1 + Math.abs(v) / ((i % 4) + 1)) ** -2));
  refuses("InvalidArgument", "clip", () => soft.call(x));
  refuses("InvalidArgument", "clip", () => soft.call(1, 2));
  refuses("InvalidArgument", "elementFunction", () => soft.call(x, {}));
  soft.dispose();
  check(soft.disposed, "it is gone");
  refuses("InvalidState", "elementFunction", () => soft.call(x, 1));
});

test("what is no function of elements", async ({ device }) => {
  await rejects("InvalidArgument", "elementFunction", () => device.elementFunction(1));
  await rejects("InvalidArgument", "elementFunction", () => device.elementFunction(CLIP, { gradient: [] }));
  await rejects("InvalidArgument", "elementFunction", () => device.elementFunction(CLIP, { gradients: [1] }));
  await rejects("InvalidArgument", "elementFunction", () => device.elementFunction(CLIP, { fallback: 1 }));
  await rejects("InvalidArgument", "element function: line 1, column 1: ", () => device.elementFunction("var x = 1;"));
  const wrong = "fn f(x: f32) -> f32 {\n  return x +;\n}";
  if (device.info.backend === "webgpu") {
    await rejects("InvalidArgument", "element function: line 2, column ", () => device.elementFunction(wrong));
    return;
  }
  const alone = await device.elementFunction(CLIP);
  refuses("Unsupported", "element function", () => alone.call(device.tensor([1]), 1));
  const thrown = await device.elementFunction(CLIP, {
    fallback: () => {
      throw new RangeError("mine");
    },
  });
  let error;
  try {
    thrown.call(device.tensor([1]), 1);
  } catch (caught) {
    error = caught;
  }
  check(error instanceof RangeError && error.message === "mine", String(error));
});

const REVERSE = `
  struct Numbers { size: u32, factor: f32 }
  @group(0) @binding(0) var<uniform> numbers: Numbers;
  @group(0) @binding(1) var<storage, read> x: array<f32>;
  @group(0) @binding(2) var<storage, read_write> reversed: array<f32>;
  @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < numbers.size) { reversed[id.x] = x[numbers.size - 1u - id.x] * numbers.factor; }
  }`;

test("a shader, with a gradient", async ({ device }) => {
  const shader = await device.shader(REVERSE, {
    gradient: (_inputs, outputs, { reversed }) => {
      same(Object.keys(outputs), ["reversed"]);
      return { x: reversed.flip(0).mul(3) };
    },
    fallback: ({ x }, { factor }) => ({ reversed: x.flip(0).mul(factor) }),
  });
  same(String(shader), "Shader(reversed)");
  const values = randoms(100);
  const x = device.tensor(values);
  const run = (x, factor) =>
    shader.run({ inputs: { x }, outputs: { reversed: [100] }, workgroups: [2], params: { size: 100, factor } });
  const { reversed } = run(x.add(1), 3);
  close(await reversed.read(), values.map((_, i) => 3 * (values[99 - i] + 1)));
  const [dx] = run(x.square(), 3).reversed.sum().grad([x]);
  close(await dx.read(), values.map((v) => 6 * v));
  const program = device.compile([{ shape: [100] }], (x) => run(x, 2).reversed.add(1));
  const [again] = program.run(x);
  close(await again.read(), values.map((_, i) => 2 * values[99 - i] + 1));
  refuses("InvalidArgument", "shader", () => shader.run({ inputs: {}, outputs: { reversed: [100] }, workgroups: [2] }));
  refuses("InvalidArgument", "shader", () =>
    shader.run({ inputs: { x }, outputs: {}, workgroups: [2], params: { size: 1, factor: 1 } }),
  );
  refuses("InvalidArgument", "shader", () => shader.run({ inputs: { x: 1 }, outputs: { reversed: [1] }, workgroups: [1] }));
  refuses("InvalidArgument", "shader", () => shader.run(1));
  refuses("InvalidArgument", "shader", () => shader.run({ inputs: 1, outputs: {}, workgroups: [1] }));
});

test("what is no shader", async ({ device }) => {
  await rejects("InvalidArgument", "shader: line 1, ", () => device.shader("fn f() {}"));
  await rejects("InvalidArgument", "shader", () => device.shader(REVERSE, { gradient: 1 }));
  const wrong = REVERSE.replace("reversed[id.x] =", "reversed[id.x] +");
  if (device.info.backend === "webgpu") {
    await rejects("InvalidArgument", "shader: line 7, column ", () => device.shader(wrong));
    return;
  }
  const alone = await device.shader(REVERSE);
  const params = { size: 1, factor: 1 };
  const run = { inputs: { x: device.tensor([1]) }, outputs: { reversed: [1] }, workgroups: [1], params };
  refuses("Unsupported", "shader", () => alone.run(run));
});
