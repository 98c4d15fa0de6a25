// Operations on tensors as plain data: `{ op: "slice", of: ["t3"], with: [0, 1, 3] }`. A table has the JavaScript of each, its
// meaning, and the operands that it fits. Bodies of programs and of activation checkpoints are lists of operations.
//
// An operand is a name, or a variable's value: `t3`, `v1.value`, `m1.layer.parameter("weight").value`.

import { count } from "./random.js";
import { forward } from "./models.js";
import { constant, Refused } from "./tape.js";

const listed = (refs) => `[${refs.join(", ")}]`;

/** The JavaScript of an operation with its operands, and its meaning for their values. `[..]` are further arguments. */
const forms = {
  tanh: { write: ([x]) => `${x}.tanh()`, mean: (ops, [x]) => ops.tanh(x) },
  square: { write: ([x]) => `${x}.square()`, mean: (ops, [x]) => ops.square(x) },
  relu: { write: ([x]) => `${x}.relu()`, mean: (ops, [x]) => ops.relu(x) },
  neg: { write: ([x]) => `${x}.neg()`, mean: (ops, [x]) => ops.neg(x) },
  detach: { write: ([x]) => `${x}.detach()`, mean: (ops, [x]) => ops.detach(x) },
  scale: { write: ([x], [by]) => `${x}.mul(${by})`, mean: (ops, [x], [by]) => ops.scale(x, by) },
  shift: { write: ([x], [by]) => `${x}.add(${by})`, mean: (ops, [x], [by]) => ops.shift(x, by) },
  add: { write: ([x, y]) => `${x}.add(${y})`, mean: (ops, [x, y]) => ops.add(x, y) },
  sub: { write: ([x, y]) => `${x}.sub(${y})`, mean: (ops, [x, y]) => ops.sub(x, y) },
  mul: { write: ([x, y]) => `${x}.mul(${y})`, mean: (ops, [x, y]) => ops.mul(x, y) },
  element: { write: ([x, y], [device]) => `element_${device}.call(${x}, ${y})`, mean: (ops, [x, y]) => ops.element(x, y) },
  matmul: { write: ([x, y]) => `${x}.matmul(${y})`, mean: (ops, [x, y]) => ops.matmul(x, y) },
  sum: { write: ([x], [axis]) => `${x}.sum(${axis ?? ""})`, mean: (ops, [x], [axis]) => ops.sum(x, axis ?? undefined) },
  mean: { write: ([x], [axis]) => `${x}.mean(${axis ?? ""})`, mean: (ops, [x], [axis]) => ops.mean(x, axis ?? undefined) },
  reshape: { write: ([x], [shape]) => `${x}.reshape(${listed(shape)})`, mean: (ops, [x], [shape]) => ops.reshape(x, shape) },
  transpose: { write: ([x]) => `${x}.transpose()`, mean: (ops, [x]) => ops.transpose(x) },
  slice: { write: ([x], range) => `${x}.slice(${range.join(", ")})`, mean: (ops, [x], range) => ops.slice(x, ...range) },
  concat: {
    write: (all, [axis]) => `Tensor.concat(${listed(all)}, ${axis})`,
    mean: (ops, all, [axis]) => ops.concat(all, axis),
  },
};

/** Operations whose meaning needs the world. */
const larger = {
  /** The output of a model for a tensor. */
  forward: {
    write: ({ of: [x], with: [model] }) => `${model}.forward(${x})`,
    mean: (world, { with: [model] }, [x]) => [forward(world, model, x.value, x.device)],
  },

  /** A part that is recomputed for gradients. */
  checkpoint: {
    write: ({ of: [x], body }) => `${x}.checkpoint(${writeBody(body)})`,
    mean: (world, { body }, [x]) => meanBody(world, body, [x.value], x.device),
  },

  /** The gradients of a sum. */
  grad: {
    write: ({ of: [y, ...wrt] }) => `${y}.sum().grad(${listed(wrt)})`,
    mean(world, _, [y, ...wrt]) {
      const sum = { ...y, value: world.ops.sum(y.value) };
      return world.gradients(sum, undefined, wrt).map((found, n) => found ?? zeros(wrt[n].value));
    },
  },

  /** The gradient of a gradient. */
  second: {
    write: ({ of: [y, x] }) => `${y}.sum().grad([${x}])[0].square().sum().grad([${x}])[0]`,
    mean(world, _, [y, x]) {
      const sum = { ...y, value: world.ops.sum(y.value) };
      const first = world.gradients(sum, undefined, [x])[0] ?? zeros(x.value);
      const square = { ...y, value: world.ops.sum(world.ops.square(first)) };
      return [world.gradients(square, undefined, [x])[0] ?? zeros(x.value)];
    },
  },
};

export const zeros = ({ shape }) => constant(shape, new Float64Array(count(shape)));

/** Returns an operation in JavaScript. */
export function write(step) {
  return larger[step.op]?.write(step) ?? forms[step.op].write(step.of, step.with ?? []);
}

/** Returns the list of results of an operation. Operands and results are `{ value, device }` each. */
export function mean(world, step, operands) {
  const [{ device }] = operands;
  if (operands.some((other) => other.device !== device)) throw new Refused("operands on two devices");
  const values = operands.map(({ value }) => value);
  const made = larger[step.op]?.mean(world, step, operands) ?? [forms[step.op].mean(world.ops, values, step.with ?? [])];
  return made.map((value) => ({ value, device }));
}

/** Returns a function of a list of operations in JavaScript: `(x0) => { const b1 = x0.tanh(); return b1; }`. */
export function writeBody({ inputs, steps, results }) {
  const target = ({ as, op }) => (as.length > 1 || op === "grad" ? listed(as) : as[0]);
  const lines = steps.map((step) => `const ${target(step)} = ${write(step)};`);
  const given = results.length === 1 ? results[0] : listed(results);
  const named = inputs.length === 1 ? `(${inputs[0]})` : `(${inputs.join(", ")})`;
  if (!lines.length) return `${named} => ${given}`;
  return `${named} => {\n${[...lines, `return ${given};`].join("\n").replace(/^/gm, "  ")}\n}`;
}

/** Returns the results of such a function. `captured` are tensors from outside, with their values when it was created. */
export function meanBody(world, { inputs, steps, results }, values, device, captured = new Map()) {
  const locals = new Map(inputs.map((name, n) => [name, { value: values[n], device }]));
  const find = (ref) => locals.get(ref) ?? captured.get(ref) ?? world.tensor(ref);
  for (const step of steps) {
    mean(world, step, step.of.map(find)).forEach((made, n) => locals.set(step.as[n], made));
  }
  return results.map((ref) => {
    const found = find(ref);
    if (found.device !== device) throw new Refused("a result on another device");
    return found.value;
  });
}

/** Returns the names of captured tensors of a function, without values of variables. */
export function outside({ inputs, steps, results }) {
  const own = new Set([...inputs, ...steps.flatMap(({ as }) => as)]);
  const used = [...steps.flatMap(({ of, body }) => [...of, ...(body ? outside(body) : [])]), ...results];
  return [...new Set(used)].filter((ref) => !own.has(ref) && !ref.endsWith(".value"));
}

/** Returns the names on which the results of a function depend. A program keeps no others. */
export function needed({ steps, results }) {
  const names = new Set(results);
  for (const { as, of, body } of [...steps].reverse()) {
    if (!as.some((name) => names.has(name))) continue;
    for (const name of [...of, ...(body ? needed(body) : [])]) names.add(name);
  }
  return names;
}

// Creation of operations.

/** The largest magnitude of values that are multiplied. */
const TAME = 4;

const size = ({ value }) => value.data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/** Whether one shape broadcasts to another. */
const fits = (a, b) => {
  const rank = Math.max(a.length, b.length);
  const at = (shape, axis) => shape[axis - rank + shape.length] ?? 1;
  return Array.from({ length: rank }, (_, axis) => [at(a, axis), at(b, axis)]).every(([m, n]) => m === n || m === 1 || n === 1);
};

/** Returns other shapes with the same number of elements. */
const reshaped = (shape) => {
  const all = [[6], [2, 3], [3, 2], [1, 6], [4], [2, 2], [3], [3, 1], [1, 3], [2], [1, 2], [2, 1], [1], []];
  return all.filter((other) => count(other) === count(shape) && `${other}` !== `${shape}`);
};

/**
 * Functions that create an operation on a tensor `x`, with access to all tensors of its device. They return undefined if none
 * fits.
 */
const makers = {
  unary: ({ random }, x) => {
    const op = random.one(["tanh", "tanh", "relu", "neg", "square"]);
    return op === "square" && size(x) > TAME ? undefined : { op, of: [x.ref] };
  },
  constant: ({ random }, x) => {
    const [op, by] = random.one([["shift", 0.5], ["shift", -0.25], ["scale", 0.5], ["scale", -1.5], ["scale", -1.5]]);
    return { op, of: [x.ref], with: [by] };
  },
  binary: ({ random }, x, all) => {
    const op = random.one(["add", "sub", "mul", "mul"]);
    const others = all.filter((y) => fits(x.value.shape, y.value.shape) && (op !== "mul" || size(x) * size(y) < TAME * TAME));
    return others.length ? { op, of: [x.ref, random.one(others).ref] } : undefined;
  },
  element: ({ random, hasElements }, x, all) => {
    if (!hasElements) return undefined;
    const others = all.filter((y) => fits(x.value.shape, y.value.shape) && size(x) * size(y) < TAME * TAME);
    return others.length ? { op: "element", of: [x.ref, random.one(others).ref], with: [x.device] } : undefined;
  },
  matmul: ({ random }, x, all) => {
    const { shape } = x.value;
    const others = all.filter(({ value }) => value.shape.length === 2 && value.shape[0] === shape[1]);
    if (shape.length !== 2 || !others.length || size(x) > TAME) return undefined;
    const y = random.one(others);
    return size(y) > TAME ? undefined : { op: "matmul", of: [x.ref, y.ref] };
  },
  reduce: ({ random }, x) => {
    const axis = x.value.shape.length && random.once(2) ? random.below(x.value.shape.length) : null;
    return { op: random.one(["sum", "mean", "mean"]), of: [x.ref], with: [axis] };
  },
  move: ({ random }, x) => {
    const { shape } = x.value;
    const others = reshaped(shape);
    if (shape.length === 2 && random.once(2)) return { op: "transpose", of: [x.ref] };
    return others.length ? { op: "reshape", of: [x.ref], with: [random.one(others)] } : undefined;
  },
  slice: ({ random }, x) => {
    const { shape } = x.value;
    const axis = random.below(Math.max(shape.length, 1));
    if (!(shape[axis] > 1)) return undefined;
    const start = random.below(shape[axis]);
    return { op: "slice", of: [x.ref], with: [axis, start, start + 1 + random.below(shape[axis] - start)] };
  },
  concat: ({ random }, x, all) => {
    const others = all.filter(({ value }) => `${value.shape}` === `${x.value.shape}`);
    if (!x.value.shape.length || count(x.value.shape) > 6) return undefined;
    return { op: "concat", of: [x.ref, random.one(others).ref], with: [random.below(x.value.shape.length)] };
  },
  forward: ({ random, world, isInside }, x) => {
    // A program's inputs must not change the running statistics of a model.
    const isFit = ({ device, width }) => device === x.device && width === x.value.shape[1];
    const fit = [...world.state.models].filter(([, model]) => isFit(model) && !(isInside && model.buffers.length));
    if (x.value.shape.length !== 2 || !fit.length || size(x) > TAME) return undefined;
    return { op: "forward", of: [x.ref], with: [random.one(fit)[0]] };
  },
  checkpoint: (gen, x, all) => {
    const body = gen.body([x], all.filter(({ ref }) => ref !== x.ref), "h", 3);
    return body && { op: "checkpoint", of: [x.ref], body: { ...body, results: [body.results.at(-1)] } };
  },
  detach: (_, x) => ({ op: "detach", of: [x.ref] }),
  grad: ({ random }, x, all) => ({ op: "grad", of: [x.ref, ...new Set([random.one(all).ref, random.one(all).ref])] }),
};

export const weights = {
  ...{ unary: 6, binary: 8, constant: 2, element: 2, matmul: 4, reduce: 4, move: 3, slice: 2, concat: 1 },
  ...{ forward: 3, checkpoint: 2, detach: 1 },
};

/** Returns an operation on one of these tensors, `{ ref, value, device }` each, or undefined if the chosen one does not fit. */
export function makeStep(gen, all, chosen = weights) {
  const x = gen.random.one(all);
  const near = all.filter(({ device }) => device === x.device);
  return makers[gen.random.weighted(chosen)](gen, x, near);
}
