// Models as plain data: a list of stages, such as `{ is: "linear", from: 2, to: 3 }`. In JavaScript, they are classes that
// extend `Module`, or a `Sequential`, so their parameters have paths. In the reference, they are variables with these paths.

import { count, numbers } from "./random.js";
import { constant, Refused } from "./tape.js";

/**
 * Returns the parameters and buffers of stages, `{ id, shape }` each. Their ids are JavaScript expressions:
 * `m1.stage0.parameter("weight")`.
 */
function found(stages, at) {
  return stages.flatMap((stage, n) => {
    const id = at(n);
    if (stage.is === "scale" || stage.is === "offset") return [{ id, shape: [stage.width] }];
    if (stage.is === "inner" || stage.is === "residual" || stage.is === "again") {
      const inside = stage.is === "residual" ? `${id}.layer` : id;
      return found(stage.stages, (k) => `${inside}.stage${k}`);
    }
    if (stage.is === "norm") {
      const parts = ["weight", "bias", "running_mean", "running_var"];
      return parts.map((name, k) => ({ id: `${id}.parameter("${name}")`, shape: [stage.width], isBuffer: k > 1 }));
    }
    if (stage.is === "list") return found(stage.stages, (k) => `${id}[${k}]`);
    if (stage.is !== "linear") return [];
    const weight = { id: `${id}.parameter("weight")`, shape: [stage.to, stage.from] };
    return stage.bias ? [weight, { id: `${id}.parameter("bias")`, shape: [stage.to] }] : [weight];
  });
}

/** Returns the parameters and buffers of a model, in the model's order. */
export function parametersOf(name, { is, stages }) {
  return found(stages, (n) => (is === "sequential" ? `${name}[${n}]` : `${name}.stage${n}`));
}

/** Returns the initial values of a parameter or buffer. Values under a root are positive. */
export function first(seed, n, { id, shape }) {
  const values = numbers(seed + 97 * n, count(shape), 0.5);
  return id.includes("running_var") ? values.map(Math.abs) : values;
}

/** Whether a model has running statistics, which change when it runs. */
export const hasBuffers = (spec) => spec.stages.some(({ is }) => is === "norm");

/** Returns numbers as a tensor in JavaScript. */
export const tensorOf = (device, data, shape) => `${device}.tensor([${[...data].join(", ")}], [${shape.join(", ")}])`;

function applied(stage, id, x) {
  if (stage.is === "tanh") return `${x}.tanh()`;
  if (stage.is === "scale") return `${x}.mul(${id}.value)`;
  if (stage.is === "offset") return `${x}.add(${id}.value)`;
  if (stage.is === "again") return `${x}.checkpoint((h) => ${id}.forward(h))`;
  if (stage.is === "list") return `${id}.reduce((x, layer) => layer.forward(x), ${x})`;
  return `${id}.forward(${x})`;
}

/** Returns the value of a stage's property, if it has one. */
function property(stage, device) {
  if (stage.is === "scale" || stage.is === "offset") {
    const ones = Array(stage.width).fill(stage.is === "scale" ? 1 : 0);
    return `new Variable(${tensorOf(device, ones, [stage.width])})`;
  }
  if (stage.is === "linear") {
    return `Layer.linear(new Generator(${device}, 1), ${stage.from}, ${stage.to}${stage.bias ? "" : ", { bias: false }"})`;
  }
  if (stage.is === "norm") return `Layer.batchNorm(new Generator(${device}, 1), ${stage.width}, { eps: ${EPSILON} })`;
  if (stage.is === "list") return `[${stage.stages.map((one) => property(one, device)).join(", ")}]`;
  if (stage.is === "residual") return `new Residual(${classOf(stage.stages, device)})`;
  return stage.is === "inner" || stage.is === "again" ? classOf(stage.stages, device) : undefined;
}

/** Returns a model with a new class. */
function classOf(stages, device) {
  const properties = stages.map((stage, n) => [property(stage, device), n]).filter(([value]) => value);
  const fields = properties.map(([value, n]) => `stage${n} = ${value};`);
  const body = stages.reduce((x, stage, n) => applied(stage, `this.stage${n}`, x), "x");
  const lines = [...fields, "forward(x) {", `  return ${body};`, "}"];
  return `new (class extends Module {\n${lines.join("\n").replace(/^/gm, "  ")}\n})()`;
}

/** Returns a model in JavaScript. */
export function writeModel({ is, stages }, device) {
  if (is === "class") return classOf(stages, device);
  return `new Sequential(${stages.map((stage) => property(stage, device) ?? "(x) => x.tanh()").join(", ")})`;
}

/** The epsilon of normalizations. It is large, so that variances of a few numbers are not close to 0. */
const EPSILON = 0.5;

/** Normalizes by the statistics of a batch, and updates the running ones, or normalizes by the running ones. */
function normalized(world, id, x, isTraining) {
  const { ops } = world;
  const value = (name) => world.get("variables", `${id}.parameter("${name}")`).value;
  let [mean, variance] = [value("running_mean"), value("running_var")];
  if (isTraining) {
    const rows = x.shape[0];
    if (x.shape.length !== 2 || rows < 2) throw new Refused(`statistics of shape [${x.shape}]`);
    mean = ops.mean(x, 0);
    variance = ops.mean(ops.square(ops.sub(x, mean)), 0);
    const follow = (name, now) => {
      const before = value(name).data;
      world.change(`${id}.parameter("${name}")`, constant(now.shape, now.data.map((v, n) => 0.9 * before[n] + 0.1 * v)));
    };
    follow("running_mean", mean);
    follow("running_var", ops.scale(variance, rows / (rows - 1)));
  }
  const even = ops.mul(ops.sub(x, mean), ops.rsqrt(ops.shift(variance, EPSILON)));
  return ops.add(ops.mul(even, value("weight")), value("bias"));
}

/** Returns the output of a model for a value. */
export function forward(world, name, x, device) {
  const { spec, device: own } = world.get("models", name);
  // A model on another device rejects the input at its first parameter.
  const at = (n) => (spec.is === "sequential" ? `${name}[${n}]` : `${name}.stage${n}`);
  return stages(world, spec.stages, at, x, { isForeign: device !== own, isTraining: world.get("models", name).training });
}

function stages(world, list, at, x, mode) {
  const { ops } = world;
  const value = (id) => {
    if (mode.isForeign) throw new Refused("a model on another device");
    return world.get("variables", id).value;
  };
  return list.reduce((x, stage, n) => {
    const id = at(n);
    if (stage.is === "tanh") return ops.tanh(x);
    if (stage.is === "scale") return ops.mul(x, value(id));
    if (stage.is === "offset") return ops.add(x, value(id));
    const inside = (path) => stages(world, stage.stages, (k) => `${path}.stage${k}`, x, mode);
    if (stage.is === "inner" || stage.is === "again") return inside(id);
    if (stage.is === "list") return stages(world, stage.stages, (k) => `${id}[${k}]`, x, mode);
    if (stage.is === "norm") {
      value(`${id}.parameter("weight")`);
      return normalized(world, id, x, mode.isTraining);
    }
    if (stage.is === "residual") return ops.add(x, inside(`${id}.layer`));
    const y = ops.matmul(x, ops.transpose(value(`${id}.parameter("weight")`)));
    return stage.bias ? ops.add(y, value(`${id}.parameter("bias")`)) : y;
  }, x);
}

/** Creates the parameters of a model, with their initial values. */
export function makeModel(world, name, { spec, device, seed }) {
  const parameters = parametersOf(name, spec);
  const { width, outputs } = spec;
  const ids = parameters.filter(({ isBuffer }) => !isBuffer).map(({ id }) => id);
  const buffers = parameters.filter(({ isBuffer }) => isBuffer).map(({ id }) => id);
  world.state.models.set(name, { spec, device, seed, width, outputs, ids, buffers, training: true });
  parameters.forEach((one, n) => world.variable(one.id, constant(one.shape, first(seed, n, one)), device));
}

/** Returns a random model. */
export function randomSpec(random) {
  const [width, hidden, outputs] = [random.one([2, 3]), random.one([2, 3]), random.one([1, 2])];
  const linear = (from, to) => ({ is: "linear", from, to, bias: !random.once(4) });
  const middle = random.one([
    [{ is: "tanh" }],
    [{ is: "scale", width: hidden }, { is: "tanh" }],
    [{ is: "tanh" }, { is: "offset", width: hidden }],
    [{ is: "inner", stages: [{ is: "scale", width: hidden }, { is: "tanh" }] }],
    [{ is: "residual", stages: [linear(hidden, hidden), { is: "tanh" }] }],
    [{ is: "again", stages: [linear(hidden, hidden), { is: "tanh" }] }],
    [{ is: "list", stages: [linear(hidden, hidden), linear(hidden, hidden)] }],
    [{ is: "norm", width: hidden }, { is: "tanh" }],
  ]);
  const before = random.once(3) ? [{ is: "scale", width }] : [];
  const list = [...before, linear(width, hidden), ...middle, linear(hidden, outputs)];
  const plain = list.every(({ is }) => is === "linear" || is === "tanh");
  return { is: plain && random.once(2) ? "sequential" : "class", width, outputs, stages: list };
}
