// Tests layers, optimizers and schedules against the same computations in JavaScript numbers.

import { check, close, randoms, refuses, rejects, same, test } from "./harness.js";

/** Multiplies rows of `x` by the rows of `w`, and adds `b`. */
const linear = (x, w, b) => x.map((row) => w.map((column, at) => column.reduce((sum, c, k) => sum + c * row[k], b[at])));

const rows = (flat, width) => Array.from({ length: flat.length / width }, (_, at) => [...flat].slice(at * width, (at + 1) * width));

test("a linear layer is x W^T + b", async ({ device, Generator, Layer }) => {
  const layer = Layer.linear(new Generator(device, 3), 3, 2);
  same(layer.namedParameters().map(([path, variable]) => [path, variable.value.shape]), [["weight", [2, 3]], ["bias", [2]]]);
  const [w, b] = [await layer.parameter("weight").value.read(), await layer.parameter("bias").value.read()];
  check([...w, ...b].every((value) => Math.abs(value) <= 1 / Math.sqrt(3) && value !== 0), "first values");
  const x = rows(randoms(12), 3);
  close(await layer.forward(device.tensor(x)).read(), linear(x, rows(w, 3), b).flat());
  const plain = Layer.linear(new Generator(device, 3), 3, 2, { bias: false });
  same(plain.namedParameters().map(([path]) => path), ["weight"]);
  // The same seed draws the same numbers.
  same([...(await plain.parameter("weight").value.read())], [...w]);
  check(layer.parameter("weight") === layer.parameter("weight"), "the same object each time");
});

test("variables after another device was disposed of", async ({ Device, Generator, Layer, Optimizer }) => {
  // A variable may get the address of a variable of the previous device, whose object still exists.
  const held = [];
  for (let n = 0; n < 20; n++) {
    const device = await Device.new({ prefer: "cpu" });
    const layer = Layer.linear(new Generator(device, 1), 2, 2);
    held.push(layer.parameters());
    same([layer.parameter("weight").value.shape, layer.parameter("weight").disposed], [[2, 2], false], `device ${n}`);
    Optimizer.adam(layer, { lr: 0.1 }).minimize(layer.forward(device.ones([1, 2])).square().sum());
    device.dispose();
    check(held[n].every((variable) => variable.disposed), "what lives on a device goes with it");
  }
});

test("modules of one's own", async ({ device, Generator, Layer, Module, Residual, Sequential, Variable }) => {
  const g = new Generator(device, 0);
  class Net extends Module {
    scale = new Variable(device.tensor([2]));
    first = new Sequential(Layer.linear(g, 2, 4), (x) => x.relu(), Layer.batchNorm(g, 4));
    blocks = [new Residual(Layer.linear(g, 4, 4)), Layer.dropout(g, 0.5)];
    name = "not a part";

    forward(x) {
      const y = this.blocks.reduce((y, block) => block.forward(y), this.first.forward(x));
      return y.mul(this.scale.value);
    }
  }
  const net = new Net();
  const paths = ["scale", "first.0.weight", "first.0.bias", "first.2.weight", "first.2.bias"];
  const all = [...paths, "blocks.0.layer.weight", "blocks.0.layer.bias"];
  same(net.namedParameters().map(([path]) => path), all);
  check(net.parameters()[0] === net.scale, "a variable of one's own is that object");
  same(net.parameterCount, 1 + 8 + 4 + 4 + 4 + 16 + 4);
  check(/first\.0\.weight.*\n/.test(net.summary()) && net.summary().includes("41 parameters"), net.summary());
  const x = device.tensor(rows(randoms(64), 2));
  same(net.forward(x).shape, [32, 4]);
  const state = net.stateDict();
  same(Object.keys(state).sort(), [...all, "first.2.running_mean", "first.2.running_var"].sort());
  // In evaluation mode, nothing is drawn and no statistics are updated.
  net.eval();
  const [one, two] = [await net.forward(x).read(), await net.forward(x).read()];
  close(one, two);
  net.train();
  check((await net.forward(x).read()).some((value, at) => value !== one[at]), "dropout drops");
  const other = new Net();
  other.loadStateDict(net.stateDict());
  close(await other.eval().forward(x).read(), await net.eval().forward(x).read());
  const { scale, ...rest } = state;
  refuses("Format", "loadStateDict: the state must have all names of the model, got one without `scale`", () => net.loadStateDict(rest));
  refuses("Format", "loadStateDict: the state must have no other names, got one with `more`", () => net.loadStateDict({ ...state, more: scale }));
  refuses("Shape", "loadStateDict: `scale`", () => net.loadStateDict({ ...state, scale: device.ones([2]) }));
  refuses("InvalidArgument", "loadStateDict", () => net.loadStateDict(3));
  refuses("InvalidArgument", "sequential", () => new Sequential(3));
  refuses("InvalidArgument", "namedParameters", () => new Sequential((x) => x).namedParameters());
});

test("layers of each kind", async ({ device, Generator, Layer }) => {
  const g = new Generator(device, 1);
  const shape = (layer, ...extents) => layer.forward(device.ones(extents)).shape;
  same(shape(Layer.conv1d(g, 2, 3, 3, { padding: 1 }), 1, 2, 8), [1, 3, 8]);
  same(shape(Layer.conv2d(g, 2, 4, 3, { stride: 2, bias: false }), 1, 2, 9, 9), [1, 4, 4, 4]);
  same(shape(Layer.conv3d(g, 1, 2, [1, 2, 3]), 1, 1, 4, 4, 4), [1, 2, 4, 3, 2]);
  same(shape(Layer.convTranspose2d(g, 2, 1, 2, { stride: 2 }), 1, 2, 3, 3), [1, 1, 6, 6]);
  same(shape(Layer.layerNorm(g, [4]), 2, 4), [2, 4]);
  same(shape(Layer.rmsNorm(g, [4]), 2, 4), [2, 4]);
  same(shape(Layer.groupNorm(g, 2, 4), 2, 4, 3), [2, 4, 3]);
  same(shape(Layer.instanceNorm(g, 4, { affine: true }), 2, 4, 3), [2, 4, 3]);
  same(shape(Layer.lora(g, 4, 3, 2, 4), 2, 4), [2, 3]);
  same(Layer.embedding(g, 10, 4).forward(device.tensor([1, 9], [2], "i32")).shape, [2, 4]);
  same(shape(Layer.transformerEncoderLayer(g, 8, 2, { dimFeedforward: 16 }), 2, 5, 8), [2, 5, 8]);
  const x = device.ones([2, 5, 8]);
  same(Layer.transformerDecoderLayer(g, 8, 2, { dimFeedforward: 16 }).forward([x, x], { isCausal: true }).shape, [2, 5, 8]);
  same(Layer.multiheadAttention(g, 8, 2).forward([x, x, x]).shape, [2, 5, 8]);
  const lstm = Layer.lstm(g, 8, 6, { numLayers: 2, bidirectional: true });
  same(lstm.run(x).map((y) => y.shape), [[2, 5, 12], [4, 2, 6], [4, 2, 6]]);
  const [, h, c] = lstm.run(x);
  same(lstm.run([x, h, c])[0].shape, [2, 5, 12]);
  same(Layer.gru(g, 8, 6).run(x).map((y) => y.shape), [[2, 5, 6], [1, 2, 6]]);
  same(Layer.rnn(g, 8, 6).forward(x).shape, [2, 5, 6]);
  same(Layer.rnn(g, 8, 6, { nonlinearity: "relu" }).forward(x).shape, [2, 5, 6]);
  const projected = Layer.lstm(g, 8, 6, { projSize: 3 }).run(x);
  same(projected.map((y) => y.shape), [[2, 5, 3], [1, 2, 3], [1, 2, 6]]);
  const bilinear = Layer.bilinear(g, 8, 6, 4);
  same(bilinear.forward([x, device.ones([2, 5, 6])]).shape, [2, 5, 4]);
  refuses("InvalidArgument", "forward: Bilinear must have 2 inputs", () => bilinear.forward(x));
  refuses("InvalidArgument", "gru: projSize must be 0, because only an LSTM has it, got 3", () =>
    Layer.gru(g, 8, 6, { projSize: 3 }),
  );
  const more = Layer.multiheadAttention(g, 8, 2, { addBiasKv: true, addZeroAttn: true });
  same(more.forward([x, x, x], { isCausal: true }).shape, [2, 5, 8]);
  same(more.parameter("bias_k").value.shape, [1, 1, 8]);
  refuses("InvalidArgument", "forward: Linear must have 1 inputs, got 2", () => Layer.linear(g, 8, 2).forward([x, x]));
  refuses("InvalidArgument", "forward: Linear must not have options", () => Layer.linear(g, 8, 2).forward(x, { isCausal: true }));
  refuses("InvalidArgument", "forward: the state of Lstm must be", () => lstm.run([x, h]));
  refuses("InvalidArgument", "parameter: the name must be one of Linear, got `wieght`", () =>
    Layer.linear(g, 8, 2).parameter("wieght"),
  );
  refuses("InvalidArgument", "linear: generator", () => Layer.linear(device, 8, 2));
  refuses("InvalidArgument", "linear", () => Layer.linear(g, 8, 2, { baias: false }));
  refuses("Shape", "", () => Layer.multiheadAttention(g, 8, 3));
});

/** Compares twenty steps with gradients of `sum(c (w - t)^2)`, by the library and by a rule in JavaScript. */
async function follows({ device, Variable, Optimizer }, make, rule) {
  const [first, target, scale] = [randoms(7, 3), randoms(7, 4), randoms(7, 5).map((x) => Math.abs(x) + 0.1)];
  const w = new Variable(device.tensor(first));
  const optimizer = make(Optimizer, [w]);
  const [t, c] = [device.tensor(target), device.tensor(scale)];
  const values = [...first];
  const step = rule(values.length);
  for (let n = 1; n <= 20; n++) {
    optimizer.minimize(w.value.sub(t).square().mul(c).sum());
    step(values, values.map((value, at) => 2 * scale[at] * (value - target[at])), n);
  }
  close(await w.value.read(), values, 2e-5);
  same(optimizer.steps, 20);
  return optimizer;
}

test("optimisers follow their rules", async (context) => {
  const momentum = (count) => {
    const velocity = new Array(count).fill(0);
    return (w, g) => w.forEach((_, i) => (w[i] -= 0.05 * (velocity[i] = 0.9 * velocity[i] + g[i])));
  };
  await follows(context, (all, w) => all.sgd(w, { lr: 0.05, momentum: 0.9 }), momentum);
  const adam = (decay) => (count) => {
    const [m, v] = [new Array(count).fill(0), new Array(count).fill(0)];
    return (w, g, n) =>
      w.forEach((_, i) => {
        w[i] *= 1 - 0.02 * decay;
        m[i] = 0.8 * m[i] + 0.2 * g[i];
        v[i] = 0.99 * v[i] + 0.01 * g[i] ** 2;
        w[i] -= (0.02 * m[i]) / (1 - 0.8 ** n) / (Math.sqrt(v[i] / (1 - 0.99 ** n)) + 1e-8);
      });
  };
  const numbers = { lr: 0.02, betas: [0.8, 0.99] };
  await follows(context, (all, w) => all.adam(w, numbers), adam(0));
  const made = await follows(context, (all, w) => all.adamW(w, { ...numbers, weightDecay: 0.1 }), adam(0.1));
  same(made.lr, 0.02);
  made.lr = 0.5;
  same(made.lr, 0.5);
  const { Optimizer, Variable, device } = context;
  const w = [new Variable(device.ones([3, 2]))];
  for (const name of ["adamax", "nAdam", "rAdam", "rmsProp", "adagrad", "adadelta", "lion", "lamb", "muon", "asgd", "rprop", "adaBelief", "yogi"]) {
    Optimizer[name](w).minimize(w[0].value.square().sum());
    check((await w[0].value.read()).every((value) => Number.isFinite(value) && value !== 1), name);
    w[0].assign(device.ones([3, 2]));
  }
  refuses("InvalidArgument", "adam: there must be a parameter, got none", () => Optimizer.adam([]));
  refuses("InvalidArgument", "adam: parameters", () => Optimizer.adam(3));
  refuses("InvalidArgument", "adam", () => Optimizer.adam(w, { learningRate: 1 }));
  refuses("Shape", "minimize", () => Optimizer.sgd(w).minimize(w[0].value));
  refuses("InvalidState", "step: there must be gradients, got none", () => Optimizer.sgd(w).step());
});

test("what an optimiser is told makes sense", async ({ Optimizer, Variable, device }) => {
  const w = new Variable(device.ones([2]));
  refuses("InvalidArgument", "adam: lr of Adam must be at least 0, got NaN", () => Optimizer.adam([w], { lr: NaN }));
  refuses("InvalidArgument", "adamW: betas of AdamW must be in [0, 1)", () => Optimizer.adamW([w], { betas: [0.9, 1] }));
  refuses("InvalidArgument", "sgd: nesterov of Sgd", () => Optimizer.sgd([w], { nesterov: true }));
  refuses("DType", "sgd: parameters must be f32 or f16, got i32", () => Optimizer.sgd([new Variable(device.tensor([0, 1], [2], "i32"))]));
  const optimizer = Optimizer.sgd([w], { lr: 0.5 });
  refuses("InvalidArgument", "lr: lr must be at least 0, got NaN", () => (optimizer.lr = NaN));
  refuses("InvalidArgument", "setGroupLr", () => optimizer.setGroupLr(0, -1));
  refuses("InvalidArgument", "clipNorm", () => optimizer.clipNorm(0));
  refuses("InvalidArgument", "clipValue", () => optimizer.clipValue(NaN));
  const once = w.value.detach();
  refuses("InvalidArgument", "minimize: the loss must depend on a parameter", () => optimizer.minimize(once.square().sum()));
  refuses("InvalidArgument", "accumulate: the loss must depend on a parameter", () =>
    optimizer.accumulate(once.square().sum()),
  );
  // The next step of either kind uses the accumulated gradients and those that `backward` left.
  optimizer.accumulate(w.value.sum());
  w.value.sum().backward([w]);
  optimizer.minimize(w.value.sum());
  same([...(await w.value.read())], [-0.5, -0.5]);
  refuses("InvalidState", "step: there must be gradients, got none", () => optimizer.step());
  same([optimizer.lr, optimizer.steps], [0.5, 1]);
});

test("modules know whether they train, and classes change their parts", (context) => {
  const { device, Generator, Layer, Module, Residual, Sequential } = context;
  const g = new Generator(device, 0);
  class Plain extends Module {}
  class Own extends Module {
    calls = [];
    layer = Layer.dropout(g, 0.5);
    train() {
      this.calls.push("train");
      return super.train();
    }
    eval() {
      this.calls.push("eval");
      return super.eval();
    }
  }
  class Field extends Module {
    training = true;
    train = "data";
  }
  class Net extends Module {
    parts = [new Own(), [new Plain(), new Field()]];
    rest = new Sequential(new Residual(Layer.linear(g, 2, 2)), (x) => x);
    layer = Layer.batchNorm(g, 2);
    self = this;
  }
  const net = new Net();
  const [own, [plain, field]] = net.parts;
  const all = [net, own, own.layer, plain, field, net.rest, net.rest[0], net.rest[0].layer, net.layer];
  const modes = () => all.map((module) => module.training);
  same(modes(), all.map(() => true), "at first");
  check(net.eval() === net, "itself");
  same(modes(), all.map(() => false));
  plain.train();
  same([plain.training, net.training], [true, false]);
  net.train();
  same(modes(), all.map(() => true));
  same(own.calls, ["eval", "train"]);
  own.layer.eval();
  same([own.layer.training, own.training], [false, true]);
});

test("what models refuse says what is wrong", async ({ device, Generator, Layer, Module, Sequential, Variable }) => {
  const g = new Generator(device, 0);
  class Without extends Module {
    layer = Layer.linear(g, 2, 2);
  }
  const x = device.ones([3, 2]);
  const says = (message, work) => {
    refuses("InvalidArgument", message, work);
  };
  says("sequential: part 0 must have `forward`", () => new Sequential(new Without()));
  says("backward: variables must be a list of variables, got a module", () => x.sum().backward(new Without()));
  says("generator: the argument must be a device, got undefined", () => new Generator(undefined, 0));
  says("variable: value must be a tensor, got an array; device.tensor makes one", () => new Variable([1, 2]));
  says("variable: the argument must be a tensor, got 5", () => new Variable(5));
  const linear = Layer.linear(g, 2, 2);
  says("forward: the result of part 1 must be a tensor, got undefined", () => new Sequential(linear, () => {}).forward(x));
  says("forward: the result of part 0 must be a tensor, got undefined", () => new Sequential(() => {}, linear).forward(x));
  says("forward: part 0 must not be async, got a promise", () => new Sequential(async (x) => x, linear).forward(x));
  const model = new Sequential(linear, (x) => x.add(1));
  model[2] = Layer.linear(g, 2, 5);
  same([model.parameterCount, model.forward(x).shape], [6 + 15, [3, 5]], "what is put at a number is run");
  delete model[1];
  close(await model.forward(x).read(), await model[2].forward(linear.forward(x)).read());
  model[1] = 3;
  says("forward: part 1 must be a module or a function, got 3", () => model.forward(x));
});

test("a property with a dot is no name of a module's", ({ Module, Optimizer, Variable, device }) => {
  class Dotted extends Module {
    a = { b: 1 };
    "a.b" = new Variable(device.ones([1]));
  }
  refuses("InvalidArgument", 'module: the name of a property must not be empty or contain a dot', () =>
    new Dotted().stateDict(),
  );
  refuses("InvalidArgument", 'module: the name of a property must not be empty or contain a dot', () =>
    Optimizer.sgd(new Dotted()),
  );
  // Other properties may have any name.
  class Plain extends Module {
    w = new Variable(device.ones([1]));
    "a.b" = "a note";
  }
  same(Object.keys(new Plain().stateDict()), ["w"]);
});

test("a training that is saved goes on to the same bits", async ({ device, Generator, Layer, Optimizer, Sequential }) => {
  const [x, y] = [device.tensor(rows(randoms(64), 4)), device.tensor(randoms(16, 9), [16, 1])];
  const begin = () => {
    const g = new Generator(device, 5);
    const model = new Sequential(Layer.linear(g, 4, 8), Layer.dropout(g, 0.2), Layer.linear(g, 8, 1));
    return { g, model, optimizer: Optimizer.adam(model, { lr: 0.01 }) };
  };
  const train = ({ model, optimizer }) => {
    for (let n = 0; n < 5; n++) optimizer.minimize(model.forward(x).sub(y).square().mean());
  };
  const one = begin();
  train(one);
  const saved = [one.model.stateDict(), one.optimizer.stateDict(), one.g.drawn];
  train(one);
  const two = begin();
  two.model.loadStateDict(saved[0]);
  await two.optimizer.loadStateDict(saved[1]);
  two.g.drawn = saved[2];
  train(two);
  const bits = async ({ model }) => [...(await model.eval().forward(x).read())];
  same(await bits(two), await bits(one));
  await rejects("Format", "loadStateDict: the state must have", () => two.optimizer.loadStateDict({}));
});

test("learning rates by the step", ({ Schedule }) => {
  const cosine = Schedule.cosineAnnealing(0.4, 100);
  close([0, 25, 50, 100].map((n) => cosine.lr(n)), [0.4, 0.2 * (1 + Math.SQRT1_2), 0.2, 0], 1e-12);
  const warm = Schedule.linear(1, { startFactor: 0.1, endFactor: 1, totalIters: 10 });
  close([0, 5, 10, 20].map((n) => warm.lr(n)), [0.1, 0.55, 1, 1], 1e-12);
  close([0, 9, 10, 20].map((n) => Schedule.stepLr(1, 10, 0.5).lr(n)), [1, 1, 0.5, 0.25], 1e-12);
  close([0, 2, 4].map((n) => Schedule.multiStep(1, [1, 3]).lr(n)), [1, 0.1, 0.01], 1e-12);
  close([Schedule.exponential(1, 0.9).lr(3), Schedule.polynomial(1, 10, 2).lr(5)], [0.729, 0.25], 1e-12);
  close([Schedule.constant(0.9).lr(0), Schedule.constant(0.9).lr(5)], [0.3, 0.9], 1e-12);
  const cycle = Schedule.oneCycle(0.5, 100, { annealStrategy: "linear" });
  close([cycle.lr(0), cycle.lr(29)], [0.02, 0.5], 1e-12);
  const plateau = Schedule.reduceOnPlateau(0.8, { factor: 0.5, patience: 1 });
  same([3, 2, 2, 2, 1].map((loss) => plateau.step(loss)), [0.8, 0.8, 0.8, 0.4, 0.4]);
  same(plateau.lr(7), 0.4);
  refuses("InvalidState", "step: the schedule must be reduceOnPlateau", () => cycle.step(1));
  refuses("InvalidArgument", "", () => Schedule.stepLr(-1, 10));
});

test("a network learns two moons; a step is one submission and nothing new", async ({ device, Generator, Layer, Optimizer, Schedule, Sequential }) => {
  const noise = randoms(400, 7);
  const points = Array.from({ length: 200 }, (_, n) => {
    const [upper, angle] = [n % 2, (Math.PI * (n >> 1)) / 99];
    const [x, y] = upper ? [Math.cos(angle), Math.sin(angle)] : [1 - Math.cos(angle), 0.5 - Math.sin(angle)];
    return [x + 0.1 * noise[2 * n], y + 0.1 * noise[2 * n + 1]];
  });
  const [x, y] = [device.tensor(points), device.tensor(points.map((_, n) => n % 2), [200], "i32")];
  const g = new Generator(device, 0);
  const tanh = (x) => x.tanh();
  const model = new Sequential(Layer.linear(g, 2, 16), tanh, Layer.linear(g, 16, 16), tanh, Layer.linear(g, 16, 2));
  const optimizer = Optimizer.adam(model, { lr: 0 });
  optimizer.clipNorm(1);
  const schedule = Schedule.oneCycle(0.05, 120);
  const average = optimizer.average(0.9);
  const grown = (now, then) => ["submits", "plans", "pipelines", "buffers"].map((name) => now[name] - then[name]);
  for (let n = 0; n < 120; n++) {
    const before = device.stats();
    device.scope(() => {
      optimizer.lr = schedule.lr(n);
      average.update();
      optimizer.minimize(model.forward(x).crossEntropy(y));
    });
    if (n >= 12) same(grown(device.stats(), before), [1, 0, 0, 0], `step ${n}`);
  }
  average.swap();
  const guess = await model.eval().forward(x).argmax(1).read();
  const right = [...guess].filter((value, n) => value === n % 2).length;
  check(right >= 196, `${right} of 200 right`);
});

test("files there and back", async ({ device, Generator, Layer }) => {
  const layer = Layer.linear(new Generator(device, 2), 3, 2);
  const file = await device.saveSafetensors(layer.stateDict(), { format: "pt" });
  // Eight bytes of a length, then JSON.
  const header = JSON.parse(new TextDecoder().decode(file.slice(8, 8 + Number(new DataView(file.buffer).getBigUint64(0, true)))));
  same([header.weight.dtype, header.weight.shape], ["F32", [2, 3]]);
  same(header.__metadata__, { format: "pt" });
  const seen = [];
  const onProgress = (part) => seen.push(part.done);
  for (const source of [file, file.buffer, new Blob([file]), new Response(file)]) {
    const { tensors, metadata } = await device.loadSafetensors(source, { onProgress });
    same(metadata, { format: "pt" });
    same([...(await tensors.weight.read())], [...(await layer.parameter("weight").value.read())]);
    layer.loadStateDict(tensors);
  }
  same(seen.at(-1), file.length, "progress");
  // A dtype that tensors do not support. The other tensor is loaded.
  const strange = file.slice();
  strange.set([57, 57], 9 + new TextDecoder().decode(file.slice(8)).indexOf("F32"));
  const partly = await device.loadSafetensors(strange);
  const { dtype, shape, start, end } = partly.skipped.bias;
  same([Object.keys(partly.tensors), dtype, shape], [["weight"], "F99", [2]], "skipped");
  const bytes = strange.slice(start, end);
  same([...new Float32Array(bytes.buffer)], [...(await layer.parameter("bias").value.read())], "bytes of what is skipped");
  const x = device.tensor([[1, 2], [3, 4]], [2, 2], "i32");
  const npy = await x.saveNpy();
  check(new TextDecoder().decode(npy.slice(1, 6)) === "NUMPY", "a file of NumPy's");
  const back = await device.loadNpy(npy);
  same([back.dtype, back.shape, [...(await back.read())]], ["i32", [2, 2], [1, 2, 3, 4]]);
  for (const compressed of [false, true]) {
    const all = await device.loadNpz(await device.saveNpz({ x, y: device.ones([3]) }, { compressed }));
    same([Object.keys(all), [...(await all.x.read())], all.y.shape], [["x", "y"], [1, 2, 3, 4], [3]]);
  }
  await rejects("Format", "loadSafetensors", () => device.loadSafetensors(file.slice(0, 20)));
  await rejects("Format", "loadNpy", () => device.loadNpy(file));
  await rejects("InvalidArgument", "loadSafetensors", () => device.loadSafetensors("model.safetensors"));
  await rejects("InvalidArgument", "loadSafetensors", () => device.loadSafetensors(file, { progress: onProgress }));
  await rejects("InvalidArgument", "saveSafetensors", () => device.saveSafetensors({ x: 3 }));
});

test("the graph of an expression has names, values and gradients", async ({ device }) => {
  const [a, b, c] = [2, -3, 6.5].map((x) => device.tensor([x], []));
  const d = a.mul(b);
  const e = d.add(c).tanh();
  const { dot, svg } = await e.graph({ a, b, c, d, e });
  const slope = 1 - Math.tanh(0.5) ** 2;
  check(dot.includes(`[label="a\\nf32 []\\nvalue 2\\ngradient ${(-3 * slope).toFixed(4)}"]`), dot);
  check(dot.includes(`[label="d = mul\\nf32 []\\nvalue -6\\ngradient ${slope.toFixed(4)}"]`), dot);
  check(svg.startsWith("<svg") && svg.includes("e = tanh"), svg);
  same(svg.split("<rect").length - 1, 7, "boxes and the ground");
  check((await e.graph()).dot.includes("data"), "names can be left out");
  await rejects("InvalidArgument", "graph", () => e.graph({ a: 3 }));
  await rejects("InvalidArgument", "graph: names must be a readable object of tensors", () => e.graph(3));
  const thrower = { get a() { throw new Error("mine"); } };
  const proxy = new Proxy({}, { ownKeys() { throw new Error("mine"); } });
  for (const names of [thrower, proxy]) {
    await rejects("InvalidArgument", "graph: names must be a readable object of tensors", () => e.graph(names));
  }
  let long = a;
  for (let n = 0; n < 500; n++) {
    long = long.exp();
  }
  await rejects("Limit", "graph", () => long.graph());
});

test("what made a value that is not finite is found", async ({ device }) => {
  const x = device.tensor([2, 1]);
  const loss = x.sub(1).log().square().sum();
  same(await loss.findNonFinite(), "log gave an infinity, f32 [2], for sub f32 [2]");
  same(await x.sum().findNonFinite(), undefined);
});

test("mixed precision skips a step that overflows, and halves the scale", async ({ device, Optimizer, Variable }) => {
  const w = new Variable(device.tensor([1]));
  const optimizer = Optimizer.sgd([w], { lr: 0.25 });
  check(optimizer.lossScale() === undefined, "no scale");
  if (!device.limits.f16) {
    refuses("Unsupported", "mixedPrecision", () => optimizer.mixedPrecision());
    return;
  }
  refuses("InvalidArgument", "mixedPrecision: backoffFactor must be positive and finite, got -1", () => optimizer.mixedPrecision({ backoffFactor: -1 }));
  same(await optimizer.scaleLoss(w.value.sum()).item(), 1);
  optimizer.mixedPrecision({ initScale: 1024 });
  same(await optimizer.scaleLoss(w.value.sum()).item(), 1024);
  refuses("Shape", "scaleLoss", () => optimizer.scaleLoss(device.ones([2])));
  const step = async (x) => {
    optimizer.minimize(w.value.mul(x).sum());
    return [await w.value.item(), await optimizer.lossScale().item()];
  };
  same(await step(1), [0.75, 1024]);
  same(await step(3e38), [0.75, 512]);
  same(await step(1), [0.5, 512]);
  optimizer.scaleLoss(w.value.sum()).backward([w]);
  optimizer.step();
  same([await w.value.item(), optimizer.steps], [0.25, 4]);
});

test("layers in plain objects, maps and lists are found", async ({ device, Generator, Layer, Module, Optimizer, Variable }) => {
  const g = new Generator(device, 1);
  class Net extends Module {
    blocks = { first: Layer.linear(g, 2, 3), second: { scale: new Variable(device.ones([3])) } };
    heads = new Map([["a", Layer.linear(g, 3, 1)], ["b", Layer.dropout(g, 0.5)]]);
    options = { width: 3, names: ["x"], when: new Date(0) };
    forward(x) {
      return this.heads.get("a").forward(this.heads.get("b").forward(this.blocks.first.forward(x).mul(this.blocks.second.scale.value)));
    }
  }
  const net = new Net();
  const names = ["blocks.first.weight", "blocks.first.bias", "blocks.second.scale", "heads.a.weight", "heads.a.bias"];
  same(net.namedParameters().map(([name]) => name).sort(), names.sort());
  net.eval();
  const x = device.ones([4, 2]);
  same([...(await net.forward(x).read())], [...(await net.forward(x).read())], "dropout in a map is off");
  const before = await net.blocks.second.scale.value.read();
  Optimizer.sgd(net, { lr: 0.1 }).minimize(net.forward(x).square().sum());
  check((await net.blocks.second.scale.value.read()).some((value, n) => value !== before[n]), "it is trained");
});

test("a model is saved and loaded by itself, and from a trainer's file", async (context) => {
  const { device, Generator, Layer, Optimizer, Sequential, Trainer } = context;
  const made = (seed) => {
    const g = new Generator(device, seed);
    return new Sequential(Layer.linear(g, 2, 4), (x) => x.tanh(), Layer.linear(g, 4, 1));
  };
  const [model, other, third] = [made(1), made(2), made(3)];
  const x = device.tensor(randoms(16), [8, 2]);
  const wanted = [...(await model.forward(x).read())];
  same(await other.load(await model.save({ note: "a" })), { note: "a" });
  same([...(await other.forward(x).read())], wanted);
  const forward = (x, y) => model.forward(x).mseLoss(y);
  const trainer = new Trainer(model, Optimizer.adam(model, { lr: 0.01 }), [x, device.ones([8, 1])], forward, { batchSize: 4 });
  await trainer.nextStep();
  await third.load(await trainer.save());
  same([...(await third.forward(x).read())], [...(await model.forward(x).read())]);
  const { tensors } = await device.loadSafetensors(await trainer.save());
  other.loadStateDict(tensors);
  same([...(await other.forward(x).read())], [...(await model.forward(x).read())]);
  await rejects("Format", "load", () => other.load(new Uint8Array(3)));
  const small = new Sequential(Layer.linear(new Generator(device, 1), 2, 4));
  const file = await model.save();
  await rejects("Format", "loadStateDict: the state must have no other names, got one with `2.bias`, `2.weight`", () => small.load(file));
});
