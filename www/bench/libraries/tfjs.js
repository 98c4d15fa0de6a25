// The cases in TensorFlow.js: eager operations on its WebGPU backend, images with the channels last.

import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgpu";
import "@tensorflow/tfjs-core/dist/register_all_gradients.js";
import { adam, inputsOfLengths, parametersOf, permuted, trained } from "../cases.js";

/** What it has no operation for, and is composed as its users do. */
export const composed = {
  attention: "matMul, softmax, matMul; no kernel of its own",
  layernorm: "moments and arithmetic; no kernel of its own",
  rmsnorm: "mean and arithmetic; no kernel of its own",
};

function norm(x, weight, bias) {
  const { mean, variance } = tf.moments(x, -1, true);
  return tf.add(tf.mul(tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, 1e-5))), weight), bias);
}

function attention(q, k, v, mask) {
  const scores = tf.mul(tf.matMul(q, k, false, true), 1 / Math.sqrt(q.shape.at(-1)));
  return tf.matMul(tf.softmax(mask ? tf.add(scores, mask) : scores), v);
}

const gelu = (x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));
const layer = (a, b, bias, activation) => tf.fused.matMul({ a, b, bias, activation });

/** From a case and its inputs to the result. */
const kinds = {
  matmul: ({ ta, tb }, { a, b }) => tf.matMul(a, b, ta, tb),
  conv2d({ window, stride = 1, groups = 1 }, { x, w }) {
    const pad = Math.floor(window / 2);
    return groups > 1 ? tf.depthwiseConv2d(x, w, stride, pad) : tf.conv2d(x, w, stride, pad);
  },
  attention: (_, { q, k, v, mask }) => attention(q, k, v, mask),
  softmax: (_, { x }) => tf.softmax(x),
  layernorm: (_, { x, weight, bias }) => norm(x, weight, bias),
  rmsnorm(_, { x, weight }) {
    return tf.mul(tf.mul(x, tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), 1e-6))), weight);
  },
  sum: ({ axis }, { x }) => tf.sum(x, axis),
  pointwise(_, { x }) {
    const inner = tf.mul(tf.relu(tf.add(tf.mul(x, 1.1), 0.1)), 0.5);
    return tf.add(tf.square(tf.sub(tf.sigmoid(inner), 0.25)), 1);
  },
  permute: ({ order }, { x }) => tf.transpose(x, order),
  adds({ times }, { x, y }) {
    let sum = x;
    for (let i = 0; i < times; i++) sum = tf.add(sum, y);
    return sum;
  },
  mlp(_, { x, w1, b1, w2, b2, w3, b3 }) {
    return layer(layer(layer(x, w1, b1, "relu"), w2, b2, "relu"), w3, b3);
  },
  block({ length, width, heads }, { x, g1, c1, wq, wk, wv, wo, g2, c2, w1, b1, w2, b2 }) {
    const first = norm(x, g1, c1);
    const split = (weight) => tf.transpose(tf.reshape(tf.matMul(first, weight), [length, heads, width / heads]), [1, 0, 2]);
    const mixed = tf.transpose(attention(split(wq), split(wk), split(wv)), [1, 0, 2]);
    const middle = tf.add(x, tf.matMul(tf.reshape(mixed, [length, width]), wo));
    return tf.add(middle, layer(gelu(layer(norm(middle, g2, c2), w1, b1)), w2, b2));
  },
};

/** How its layout of an input differs: axes of `from` in another order, as `to`. Channels are last, matrices `[in, out]`. */
function layout({ kind, model, groups, inputs }, name) {
  const { shape, weight } = inputs[name];
  const moved = (order, from = shape, to = order.map((axis) => from[axis])) => ({ order, from, to });
  if (kind === "conv2d" && groups > 1 && weight) return moved([2, 3, 0, 1]);
  if (kind === "conv2d" || model === "cnn") {
    if (name === "x") return moved([0, 2, 3, 1]);
    if (shape.length === 4) return moved([2, 3, 1, 0]);
    // What is flattened has its channels last.
    if (name === "7.weight") return moved([2, 3, 1, 0], [128, 32, 7, 7], shape.toReversed());
  }
  const matrix = kind === "train" && weight && shape.length === 2;
  return matrix && !(model === "transformer" && name === "0.weight") ? moved([1, 0]) : undefined;
}

function causalMask({ queries, keys }) {
  const mask = new Float32Array(queries * keys);
  for (let i = 0; i < queries; i++) mask.fill(-1e9, i * keys + i + 1 + keys - queries, (i + 1) * keys);
  return tf.tensor(mask, [queries, keys]);
}

/** From a case, the parameters of its model by their names, and an input, to the logits. */
const models = {
  mlp(_, of, x) {
    const dense = (x, name, activation) => layer(x, of(`${name}.weight`), of(`${name}.bias`), activation);
    return dense(dense(dense(x, 0, "relu"), 2, "relu"), 4);
  },
  cnn({ rows }, of, x) {
    const conv = (x, name) => {
      const [filter, bias] = [of(`${name}.weight`), of(`${name}.bias`)];
      return tf.maxPool(tf.fused.conv2d({ x, filter, bias, strides: 1, pad: "same", activation: "relu" }), 2, 2, "valid");
    };
    const flat = tf.reshape(conv(conv(x, 0), 3), [rows, -1]);
    return layer(layer(flat, of("7.weight"), of("7.bias"), "relu"), of("9.weight"), of("9.bias"));
  },
  lstm({ rows, steps, width, hidden }, of, x) {
    const inputs = layer(tf.reshape(x, [rows * steps, width]), of("0.weight_ih_l0"), of("0.bias_ih_l0"));
    const [weight, bias] = [of("0.weight_hh_l0"), of("0.bias_hh_l0")];
    let [h, c] = [tf.zeros([rows, hidden]), tf.zeros([rows, hidden])];
    for (const step of tf.unstack(tf.reshape(inputs, [rows, steps, 4 * hidden]), 1)) {
      const [input, forget, cell, output] = tf.split(tf.add(step, layer(h, weight, bias)), 4, 1);
      c = tf.add(tf.mul(tf.sigmoid(forget), c), tf.mul(tf.sigmoid(input), tf.tanh(cell)));
      h = tf.mul(tf.sigmoid(output), tf.tanh(c));
    }
    return layer(h, of("2.weight"), of("2.bias"));
  },
  transformer({ rows, length, width, heads, layers }, of, tokens) {
    const dense = (x, name, activation) => layer(x, of(`${name}.weight`), of(`${name}.bias`), activation);
    const normed = (x, name) => norm(x, of(`${name}.weight`), of(`${name}.bias`));
    let x = tf.gather(of("0.weight"), tf.reshape(tokens, [rows * length]));
    for (let n = 1; n <= layers; n++) {
      const all = layer(x, of(`${n}.self_attn.in_proj_weight`), of(`${n}.self_attn.in_proj_bias`));
      const split = (x) => tf.transpose(tf.reshape(x, [rows, length, heads, width / heads]), [0, 2, 1, 3]);
      const mixed = tf.transpose(attention(...tf.split(all, 3, 1).map(split)), [0, 2, 1, 3]);
      const joined = dense(tf.reshape(mixed, [rows * length, width]), `${n}.self_attn.out_proj`);
      const middle = normed(tf.add(x, joined), `${n}.norm1`);
      x = normed(tf.add(middle, dense(dense(middle, `${n}.linear1`, "relu"), `${n}.linear2`)), `${n}.norm2`);
    }
    return dense(x, layers + 1);
  },
};

/** Steps of a training: each gives its loss. */
function training(given, tensors) {
  const variables = Object.fromEntries(parametersOf(given).map((name) => [name, tf.variable(tensors[name])]));
  const chances = tf.oneHot(tensors.y, given.inputs.y.classes);
  const optimizer = tf.train.adam(adam.lr, adam.b1, adam.b2, adam.eps);
  const logits = () => models[given.model](given, (name) => variables[name], tensors.x);
  const step = () => optimizer.minimize(() => tf.losses.softmaxCrossEntropy(chances, logits()), true);
  const dispose = () => {
    optimizer.dispose();
    for (const tensor of [...Object.values(variables), chances]) tensor.dispose();
  };
  return { step, dispose };
}

export async function open() {
  if (!(await tf.setBackend("webgpu"))) throw new Error("its WebGPU backend does not start");
  await tf.ready();
  const backend = tf.backend();
  const free = (results) => results.forEach((tensor) => tensor.dispose());
  const peek = async (results) => {
    const firsts = results.map((tensor) => tf.tidy(() => tf.slice(tf.reshape(tensor, [-1]), [0], [1])));
    await Promise.all(firsts.map((first) => first.data()));
    free(firsts);
  };

  /** Uploads a case's data; gives what the runner needs. */
  async function prepare(given, data) {
    if (given.kind === "transfer") {
      const step = () => tf.tidy(() => tf.add(tf.tensor(data.x), 1));
      return { step, read: (result) => result.data(), peek: ([result]) => result.data(), free, build() {}, dispose() {} };
    }
    const tensors = {};
    for (const [name, { shape, classes }] of Object.entries(given.inputs)) {
      const { order, from, to } = layout(given, name) ?? { to: shape };
      const values = order ? permuted(data[name], from, order) : data[name];
      tensors[name] = tf.tensor(values, to, classes && "int32");
    }
    if (given.causal) tensors.mask = causalMask(given);
    // Data would otherwise be uploaded by the first operation, and small ones be computed by JavaScript.
    for (const { dataId } of Object.values(tensors)) backend.uploadToGPU(dataId);
    await backend.queue.onSubmittedWorkDone();
    if (given.kind === "lengths") {
      const { w1, w2 } = tensors;
      const next = inputsOfLengths(given, data);
      const step = () => tf.tidy(() => {
        const { shape, values } = next();
        return tf.softmax(tf.matMul(layer(tf.tensor(values, shape), w1, undefined, "relu"), w2));
      });
      const dispose = () => free(Object.values(tensors));
      return { peek, free, build() {}, step, read: (result) => result.data(), dispose };
    }
    if (given.kind === "train") {
      const { step, dispose } = training(given, tensors);
      const read = async (first) => {
        const all = [...(await first.data())];
        while (all.length < trained) all.push(...(await step().data()));
        return all;
      };
      const end = () => (dispose(), free(Object.values(tensors)));
      return { peek, free, build() {}, step, read, dispose: end };
    }
    return {
      ...{ peek, free, build() {} },
      step: () => tf.tidy(() => kinds[given.kind](given, tensors)),
      async read(result) {
        const values = await result.data();
        return given.kind === "conv2d" ? permuted(values, result.shape, [0, 3, 1, 2]) : values;
      },
      dispose: () => free(Object.values(tensors)),
    };
  }

  return { prepare };
}
