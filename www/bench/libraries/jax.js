// The cases in jax-js: functions compiled by `jit`. It counts references by hand: an array that is used is gone, unless
// it was used through `.ref`.

import { defaultDevice, getWebGPUDevice, init, jit, lax, nn, numpy as np, valueAndGrad } from "@jax-js/jax";
import { adam, inputsOfLengths, parametersOf, permuted, trained } from "../cases.js";
import { peek as peekBuffers } from "./peek.js";

/** What it has no operation for, and is composed as its users do. */
export const composed = {
  layernorm: "nn.standardize and arithmetic, compiled together",
  rmsnorm: "mean and arithmetic, compiled together",
};

const norm = (x, weight, bias) => nn.standardize(x, -1, { epsilon: 1e-5 }).mul(weight).add(bias);

/** From a case and its inputs to the result. */
const kinds = {
  matmul: ({ batch, ta, tb }, { a, b }) => {
    const flip = (x) => x.transpose(batch ? [0, 2, 1] : [1, 0]);
    return np.matmul(ta ? flip(a) : a, tb ? flip(b) : b);
  },
  conv2d({ window, stride = 1, groups: featureGroupCount = 1 }, { x, w }) {
    const side = [Math.floor(window / 2), Math.floor(window / 2)];
    return lax.convGeneralDilated(x, w, [stride, stride], [side, side], { featureGroupCount });
  },
  attention: ({ causal: isCausal = false }, { q, k, v }) => nn.dotProductAttention(q, k, v, { isCausal }),
  softmax: (_, { x }) => nn.softmax(x, -1),
  layernorm: (_, { x, weight, bias }) => norm(x, weight, bias),
  rmsnorm: (_, { x, weight }) => {
    const square = np.mean(np.square(x.ref), -1, { keepdims: true });
    return x.mul(np.reciprocal(np.sqrt(square.add(1e-6)))).mul(weight);
  },
  sum: ({ axis = null }, { x }) => np.sum(x, axis),
  pointwise: (_, { x }) => np.square(nn.sigmoid(nn.relu(x.mul(1.1).add(0.1)).mul(0.5)).sub(0.25)).add(1),
  permute: ({ order }, { x }) => np.transpose(x, order),
  mlp(_, { x, w1, b1, w2, b2, w3, b3 }) {
    const hidden = nn.relu(np.matmul(nn.relu(np.matmul(x, w1).add(b1)), w2).add(b2));
    return np.matmul(hidden, w3).add(b3);
  },
  block({ length, width, heads }, { x, g1, c1, wq, wk, wv, wo, g2, c2, w1, b1, w2, b2 }) {
    const first = norm(x.ref, g1, c1);
    const split = (x, weight) => np.matmul(x, weight).reshape([1, length, heads, width / heads]);
    const [q, k, v] = [split(first.ref, wq), split(first.ref, wk), split(first, wv)];
    const mixed = nn.dotProductAttention(q, k, v).reshape([length, width]);
    const middle = x.add(np.matmul(mixed, wo));
    const hidden = nn.gelu(np.matmul(norm(middle.ref, g2, c2), w1).add(b1), { approximate: false });
    return middle.add(np.matmul(hidden, w2).add(b2));
  },
};

/** From a case, the parameters of its model by their names (used up), and an input, to the logits. It has no layers. */
const models = {
  mlp(_, of, x) {
    const dense = (x, name) => np.matmul(x, of(`${name}.weight`)).add(of(`${name}.bias`));
    return dense(nn.relu(dense(nn.relu(dense(x, 0)), 2)), 4);
  },
  cnn({ rows }, of, x) {
    const conv = (x, name) => {
      const sums = lax.convGeneralDilated(x, of(`${name}.weight`), [1, 1], "SAME").add(of(`${name}.bias`).reshape([-1, 1, 1]));
      return lax.reduceWindow(nn.relu(sums), (window) => np.max(window), [2, 2], [2, 2]);
    };
    const hidden = np.matmul(conv(conv(x, 0), 3).reshape([rows, -1]), of("7.weight")).add(of("7.bias"));
    return np.matmul(nn.relu(hidden), of("9.weight")).add(of("9.bias"));
  },
  lstm({ rows, hidden }, of, x) {
    const inputs = np.matmul(x, of("0.weight_ih_l0")).add(of("0.bias_ih_l0")).add(of("0.bias_hh_l0"));
    const weight = of("0.weight_hh_l0");
    let [h, c] = [np.zeros([rows, hidden]), np.zeros([rows, hidden])];
    for (const step of np.unstack(inputs, 1)) {
      const [input, forget, cell, output] = np.split(step.add(np.matmul(h, weight.ref)), 4, 1);
      c = nn.sigmoid(forget).mul(c).add(nn.sigmoid(input).mul(np.tanh(cell)));
      h = nn.sigmoid(output).mul(np.tanh(c.ref));
    }
    return np.matmul(h, of("2.weight")).add(of("2.bias"));
  },
  transformer({ rows, length, width, heads, layers }, of, tokens) {
    const dense = (x, name) => np.matmul(x, of(`${name}.weight`)).add(of(`${name}.bias`));
    const normed = (x, name) => norm(x, of(`${name}.weight`), of(`${name}.bias`));
    let x = np.take(of("0.weight"), tokens, 0);
    for (let n = 1; n <= layers; n++) {
      const all = np.matmul(x.ref, of(`${n}.self_attn.in_proj_weight`)).add(of(`${n}.self_attn.in_proj_bias`));
      const parts = np.split(all, 3, 2).map((part) => part.reshape([rows, length, heads, width / heads]));
      const mixed = nn.dotProductAttention(...parts).reshape([rows, length, width]);
      const middle = normed(x.add(dense(mixed, `${n}.self_attn.out_proj`)), `${n}.norm1`);
      x = normed(middle.ref.add(dense(nn.relu(dense(middle, `${n}.linear1`)), `${n}.linear2`)), `${n}.norm2`);
    }
    return dense(x, layers + 1).reshape([rows * length, -1]);
  },
};

/** Steps of a training, each compiled as one: each gives its loss. It has no optimisers: Adam is written as its users do. */
function training(given, inputs, data) {
  const names = parametersOf(given);
  const lossOf = (weights, x, y) => {
    const logits = models[given.model](given, (name) => weights[names.indexOf(name)], x);
    return np.mean(np.sum(nn.logSoftmax(logits, -1).mul(y), -1)).mul(-1);
  };
  const { lr, b1, b2, eps } = adam;
  const update = jit((weights, means, squares, rates, x, y) => {
    const [loss, gradients] = valueAndGrad(lossOf)(weights.map((w) => w.ref), x, y);
    const [one, two] = [np.sum(rates.ref.slice(0)), np.sum(rates.slice(1))];
    const made = gradients.map((gradient, at) => {
      const mean = means[at].mul(b1).add(gradient.ref.mul(1 - b1));
      const square = squares[at].mul(b2).add(np.square(gradient).mul(1 - b2));
      const root = np.sqrt(square.ref.mul(two.ref)).add(eps);
      return [weights[at].sub(mean.ref.mul(one.ref).mul(lr).div(root)), mean, square];
    });
    return [loss, ...[0, 1, 2].map((part) => made.map((parts) => parts[part]))];
  });
  const of = (name) => inputs[name];
  let weights = names.map((name) => of(name).ref);
  let [means, squares] = [1, 2].map(() => names.map((name) => np.zeros(of(name).shape)));
  const { classes } = given.inputs.y;
  const chances = new Float32Array(data.y.length * classes);
  data.y.forEach((label, row) => (chances[row * classes + label] = 1));
  const y = np.array(chances, { shape: [data.y.length, classes] });
  let count = 0;
  const step = () => {
    count += 1;
    const rates = np.array(new Float32Array([1 / (1 - b1 ** count), 1 / (1 - b2 ** count)]));
    const made = update(weights, means, squares, rates, inputs.x.ref, y.ref);
    let loss;
    [loss, weights, means, squares] = made;
    return loss;
  };
  const dispose = () => {
    update.dispose?.();
    for (const array of [...weights, ...means, ...squares, y]) array.dispose();
  };
  return { step, dispose };
}

/** Its attention takes [batch, length, heads, width]; matrices of models are `[in, out]`. */
function layout({ kind, model, inputs }, name) {
  if (kind === "attention") return [0, 2, 1, 3];
  const matrix = kind === "train" && inputs[name].weight && inputs[name].shape.length === 2;
  return matrix && !(model === "transformer" && name === "0.weight") ? [1, 0] : undefined;
}

export async function open() {
  await init("webgpu");
  defaultDevice("webgpu");
  const device = getWebGPUDevice();
  const free = (results) => results.forEach((array) => array.dispose());
  const read = (result) => result.ref.data();
  // Its arrays are computed when asked for: asking for the buffers submits all of the work.
  const peek = async (results) => peekBuffers(device, await Promise.all(results.map((array) => array.ref.gpuBuffer())));

  /** Uploads a case's data; gives what the runner needs. */
  async function prepare(given, data) {
    if (given.kind === "transfer") {
      const step = () => np.array(data.x).add(1);
      return { step, read, peek: ([result]) => read(result), free, build() {}, dispose() {} };
    }
    const inputs = [];
    for (const [name, { shape, classes }] of Object.entries(given.inputs)) {
      const order = layout(given, name);
      const values = order ? permuted(data[name], shape, order) : data[name];
      const moved = order ? order.map((axis) => shape[axis]) : shape;
      const array = np.array(values, { shape: moved, ...(classes && { dtype: np.int32 }) });
      inputs.push(await array.blockUntilReady());
    }
    const names = Object.keys(given.inputs);
    const dispose = () => free(inputs);
    if (given.kind === "adds") {
      const [x, y] = inputs;
      const step = () => {
        let sum = x.ref;
        for (let i = 0; i < given.times; i++) sum = sum.add(y.ref);
        return sum;
      };
      return { peek, free, build() {}, dispose, step, read };
    }
    if (given.kind === "lengths") {
      // Compiled, it would be compiled for each length.
      const [, w1, w2] = inputs;
      const next = inputsOfLengths(given, data);
      const step = () => {
        const { shape, values } = next();
        const hidden = nn.relu(np.matmul(np.array(values, { shape }), w1.ref));
        return nn.softmax(np.matmul(hidden, w2.ref), -1);
      };
      return { peek, free, build() {}, dispose, step, read };
    }
    if (given.kind === "train") {
      const { step, dispose: end } = training(given, Object.fromEntries(names.map((name, i) => [name, inputs[i]])), data);
      const losses = async (first) => {
        const all = [...(await read(first))];
        while (all.length < trained) {
          const loss = step();
          all.push(...(await read(loss)));
          loss.dispose();
        }
        return all;
      };
      return { peek, free, build() {}, step, read: losses, dispose: () => (end(), dispose()) };
    }
    const compute = (...arrays) =>
      kinds[given.kind](given, Object.fromEntries(names.map((name, i) => [name, arrays[i]])));
    let compiled;
    return {
      ...{ peek, free },
      build: () => void (compiled = jit(compute)),
      step: () => compiled(...inputs.map((input) => input.ref)),
      async read(result) {
        const values = await read(result);
        const order = layout(given);
        if (!order) return values;
        return permuted(values, order.map((axis) => given.output[axis]), order);
      },
      dispose() {
        compiled?.dispose?.();
        dispose();
      },
    };
  }

  return { prepare };
}
