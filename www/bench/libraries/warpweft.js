// The cases in warpweft: compiled programs, whose weights are part of them; the chain of small adds and what comes with
// other sizes are recorded anew.

import { adam, inputsOfLengths, parametersOf, trained } from "../cases.js";

const attention = (q, k, v, isCausal) => q.attention(k, v, { isCausal });

/** From a case and its inputs to the result. */
const kinds = {
  matmul: ({ ta, tb }, { a, b }) => (ta ? a.transpose() : a).matmul(tb ? b.transpose() : b),
  conv2d: ({ window, stride, groups }, { x, w }) => x.conv2d(w, { stride, groups, padding: Math.floor(window / 2) }),
  attention: ({ causal }, { q, k, v }) => attention(q, k, v, causal),
  softmax: (_, { x }) => x.softmax(),
  layernorm: (_, { x, weight, bias }) => x.layerNorm({ weight, bias }),
  rmsnorm: (_, { x, weight }) => x.rmsNorm({ weight, eps: 1e-6 }),
  sum: ({ axis }, { x }) => x.sum(axis),
  pointwise: (_, { x }) => x.mul(1.1).add(0.1).relu().mul(0.5).sigmoid().sub(0.25).square().add(1),
  permute: ({ order }, { x }) => x.permute(order),
  mlp(_, { x, w1, b1, w2, b2, w3, b3 }) {
    const hidden = x.matmul(w1).add(b1).relu().matmul(w2).add(b2).relu();
    return hidden.matmul(w3).add(b3);
  },
  block({ length, width, heads }, { x, g1, c1, wq, wk, wv, wo, g2, c2, w1, b1, w2, b2 }) {
    const first = x.layerNorm({ weight: g1, bias: c1 });
    const split = (weight) => first.matmul(weight).reshape([1, length, heads, width / heads]).permute([0, 2, 1, 3]);
    const mixed = attention(split(wq), split(wk), split(wv), false).permute([0, 2, 1, 3]).reshape([length, width]);
    const middle = x.add(mixed.matmul(wo));
    const hidden = middle.layerNorm({ weight: g2, bias: c2 }).matmul(w1).add(b1).gelu();
    return middle.add(hidden.matmul(w2).add(b2));
  },
};

const relu = (x) => x.relu();
const pool = (x) => x.maxPool({ kernelSize: 2 });

/** From the classes of a package, a generator and a case to the modules of a model. */
const models = {
  mlp: ({ Layer }, g) => [Layer.linear(g, 784, 512), relu, Layer.linear(g, 512, 256), relu, Layer.linear(g, 256, 10)],
  cnn: ({ Layer }, g) => [
    ...[Layer.conv2d(g, 1, 16, 3, { padding: 1 }), relu, pool, Layer.conv2d(g, 16, 32, 3, { padding: 1 }), relu, pool],
    ...[(x) => x.flatten(1), Layer.linear(g, 32 * 49, 128), relu, Layer.linear(g, 128, 10)],
  ],
  lstm: ({ Layer }, g, { width, hidden }) => [
    ...[Layer.lstm(g, width, hidden), (x) => x.select(1, -1), Layer.linear(g, hidden, 10)],
  ],
  transformer({ Layer }, g, { layers, letters, width, heads, wide }) {
    const options = { dimFeedforward: wide, dropout: 0 };
    const blocks = Array.from({ length: layers }, () => Layer.transformerEncoderLayer(g, width, heads, options));
    return [Layer.embedding(g, letters, width), ...blocks, Layer.linear(g, width, letters), (x) => x.flatten(0, 1)];
  },
};

/** Steps of a training: each gives its loss. */
function training(entry, device, given, tensors) {
  const generator = new entry.Generator(device, 0);
  const model = new entry.Sequential(...models[given.model](entry, generator, given));
  model.loadStateDict(Object.fromEntries(parametersOf(given).map((name) => [name, tensors[name]])));
  const { lr, b1, b2, eps } = adam;
  const optimizer = entry.Optimizer.adam(model, { lr, betas: [b1, b2], eps });
  const step = () => device.scope(() => {
    const loss = model.forward(tensors.x).crossEntropy(tensors.y);
    optimizer.minimize(loss);
    return loss;
  });
  const dispose = () => [optimizer, ...model.parameters(), generator].forEach((one) => one.dispose());
  return { step, dispose };
}

/** The losses of a training's first steps, of which one is known. */
async function losses(first, step, read) {
  const all = [...(await read(first))];
  while (all.length < trained) all.push(...(await read(step())));
  return all;
}

/** What the runner needs, of the package whose `Device` it is. */
export async function open(entry) {
  const { Device } = entry;
  const software = !(await Device.isAvailable());
  const device = await Device.new({ prefer: software ? "software" : "gpu" });
  const peek = (results) => Promise.all(results.map((tensor) => tensor.readRange(0, 1)));
  const common = {
    peek,
    read: (result) => result.read(),
    free: (results) => results.forEach((tensor) => tensor.dispose()),
  };

  function transfer(data) {
    const step = () => device.scope(() => device.tensor(data.x).add(1));
    return { ...common, step, peek: ([result]) => result.read(), build() {}, dispose() {} };
  }

  /** Uploads a case's data; gives what the runner needs. */
  async function prepare(given, data) {
    if (given.kind === "transfer") return transfer(data);
    const names = Object.keys(given.inputs);
    const tensors = {};
    for (const name of names) tensors[name] = device.tensor(data[name], given.inputs[name].shape);
    await device.synchronize();
    const dispose = () => {
      Object.values(tensors).forEach((tensor) => tensor.dispose());
      device.trim();
    };
    if (given.kind === "adds") {
      const { x, y } = tensors;
      const step = () => device.scope(() => {
        let sum = x;
        for (let i = 0; i < given.times; i++) sum = sum.add(y);
        return sum;
      });
      return { ...common, step, build() {}, dispose, plan: () => device.lastPlan()?.text };
    }
    if (given.kind === "lengths") {
      const { w1, w2 } = tensors;
      const next = inputsOfLengths(given, data);
      const step = () => device.scope(() => {
        const { shape, values } = next();
        return device.tensor(values, shape).matmul(w1).relu().matmul(w2).softmax();
      });
      return { ...common, step, build() {}, dispose, plan: () => device.lastPlan()?.text };
    }
    if (given.kind === "train") {
      const { step, dispose: end } = training(entry, device, given, tensors);
      const read = (first) => losses(first, step, common.read);
      return { ...common, step, read, build() {}, dispose: () => (end(), dispose()), plan: () => device.lastPlan()?.text };
    }
    const open = names.filter((name) => !given.inputs[name].weight);
    let program;
    const build = () => {
      program = device.compile(open.map((name) => ({ shape: given.inputs[name].shape })), (...inputs) =>
        kinds[given.kind](given, { ...tensors, ...Object.fromEntries(open.map((name, i) => [name, inputs[i]])) }));
    };
    const step = () => program.run(...open.map((name) => tensors[name]))[0];
    return {
      ...common,
      ...{ build, step, plan: () => program.plan.text, sources: () => program.plan.sources() },
      dispose() {
        program?.dispose();
        dispose();
      },
    };
  }

  return { prepare, stats: () => device.stats() };
}
