// Tests the contract of docs/state.md in JavaScript. There is a test for each way in which variables, optimizers, programs and
// checkpoints once disturbed each other. `www/tests/fuzz` searches for others.

import { check, close, same, test } from "./harness.js";

const all = async (tensor) => [...(await tensor.read())];

test("assigning a parameter leaves the gradients of the others of its optimizer", async ({ device, Optimizer, Variable }) => {
  const [w, u] = [new Variable(device.tensor([1, 2, 3])), new Variable(device.tensor([4, 5, 6]))];
  const optimizer = Optimizer.sgd([w, u], { lr: 1 });
  const y = w.value.square();
  u.assign(device.tensor([7, 8, 9]));
  same(await all(y.sum().grad([w.value])[0]), [2, 4, 6], "by the value of now");
  optimizer.minimize(y.sum());
  same(await all(w.value), [-1, -2, -3], "after a step");
  same(await all(u.value), [7, 8, 9], "the other parameter");
});

test("an optimizer that is made later leaves earlier values their gradients", async ({ device, Optimizer, Variable }) => {
  const [w, u] = [new Variable(device.tensor([1, 2, 3])), new Variable(device.tensor([4, 5]))];
  const before = w.value;
  const loss = w.value.square().sum();
  const optimizer = Optimizer.sgd([w, u], { lr: 1 });
  same(await all(loss.grad([w.value])[0]), [2, 4, 6], "by the value of now");
  same(await all(loss.grad([before])[0]), [2, 4, 6], "by the value that was read before");
  optimizer.minimize(loss);
  same(await all(w.value), [-1, -2, -3], "after a step");
});

test("two variables of one tensor have gradients of their own", async ({ device, Variable }) => {
  const make = () => device.tensor([1, 2, 3]);
  const value = make();
  const [a, b] = [new Variable(value), new Variable(value)];
  const loss = a.value.mul(2).add(b.value.mul(3)).sum();
  const [byA, byB] = loss.grad([a.value, b.value]);
  same([await all(byA), await all(byB)], [[2, 2, 2], [3, 3, 3]], "gradients");
  a.assign(make());
  same(await all(b.value), [1, 2, 3], "one of them after the other was assigned");
  const [c, d] = [new Variable(make()), new Variable(make())];
  c.assign(d.value);
  same(await all(c.value.mul(d.value).sum().grad([d.value])[0]), [2, 4, 6], "through the assignment, and by itself");
  c.value.square().sum().backward([c]);
  same(await all(c.takeGradient()), [2, 4, 6], "backward");
});

test("gradients pass a program to the tensors and variables that it uses", async ({ device, Variable }) => {
  for (const shape of [[3], ["n"]]) {
    const [t, w] = [device.tensor([1, 2, 3]), new Variable(device.tensor([4, 5, 6]))];
    const program = device.compile([{ shape }], (x) => x.mul(t).add(w.value.square()));
    const x = device.tensor([7, 8, 9]);
    const [y] = program.run(x);
    const [byX, byT, byW] = y.sum().grad([x, t, w.value]);
    same(await all(byX), [1, 2, 3], `by the input of shape ${shape}`);
    same(await all(byT), [7, 8, 9], "by the tensor that it uses");
    same(await all(byW), [8, 10, 12], "by the variable that it reads");
    y.sum().backward([w]);
    same(await all(w.takeGradient()), [8, 10, 12], "backward to the variable");
  }
});

test("a program computes with the values that variables have when it runs", async ({ device, Variable }) => {
  for (const shape of [[3], ["n"]]) {
    const w = new Variable(device.tensor([2]));
    const program = device.compile([{ shape }], (x) => x.mul(w.value));
    const run = async (values) => all(program.run(device.tensor(values))[0]);
    same(await run([1, 2, 3]), [2, 4, 6], `the first value, of shape ${shape}`);
    w.assign(device.tensor([10]));
    same(await run([1, 2, 3]), [10, 20, 30], "the second value");
    if (shape[0] === "n") same(await run([1, 2]), [10, 20], "of another length");
    w.assign(device.tensor([100]));
    if (shape[0] === "n") same(await run([1, 2]), [100, 200], "of that length again");
    same(await run([1, 2, 3]), [100, 200, 300], "of the first length again");
  }
});

test("a program assigns variables when it runs", async ({ device, Variable }) => {
  for (const shape of [[2], ["n"]]) {
    const [sum, last] = [new Variable(device.zeros([2])), new Variable(device.ones([2]))];
    const program = device.compile([{ shape }], (x) => {
      sum.assign(sum.value.add(x).detach());
      last.assign(x);
      return sum.value.mul(last.value);
    });
    same(await all(sum.value), [0, 0], "before it runs");
    const held = sum.value.detach();
    for (let n = 1; n <= 3; n++) same(await all(program.run(device.tensor([n, 2]))[0]), [(n * (n + 1) * n) / 2, 4 * n], `run ${n}`);
    same([await all(sum.value), await all(last.value)], [[6, 6], [3, 2]], "the values afterwards");
    same(await all(held), [0, 0], "a value that was read before");
  }
});

test("a model predicts after a checkpoint was loaded", async ({ device, Generator, Layer, Optimizer, Sequential, Trainer }) => {
  const generator = new Generator(device, 1);
  const net = new Sequential(Layer.linear(generator, 2, 3), (x) => x.tanh(), Layer.linear(generator, 3, 1));
  const [x, y] = [device.tensor([[1, 2], [3, 4]]), device.tensor([[1], [2]])];
  const forward = (x, y) => net.forward(x).sub(y).square().mean();
  const trainer = new Trainer(net, Optimizer.adam(net), [x, y], forward, { epochs: 2 });
  const before = await all(net.forward(x));
  await trainer.load(await trainer.save());
  same(await all(net.forward(x)), before, "what it predicts");
  await trainer.fit();
  check((await all(net.forward(x))).every(Number.isFinite), "after training");
});

test("what is not finite is found twice", async ({ device }) => {
  const x = device.tensor([1, 0]);
  const loss = x.log().sum();
  const found = await loss.findNonFinite();
  check(/^log gave an infinity/.test(found), found);
  same(await loss.findNonFinite(), found, "the second time");
  same(await x.findNonFinite(), undefined, "of finite numbers");
  same(await all(x), [1, 0], "the tensor");
});

test("a step that fails changes nothing", async ({ device, Optimizer, Variable }) => {
  const w = new Variable(device.tensor([1, 2]));
  const optimizer = Optimizer.adam([w], { lr: 0.1 });
  optimizer.accumulate(w.value.sum());
  const constant = () => optimizer.minimize(device.tensor(3));
  const list = () => optimizer.minimize(w.value);
  const longer = () => w.assign(device.ones([3]));
  for (const work of [constant, list, longer]) {
    let error;
    try {
      work();
    } catch (caught) {
      error = caught;
    }
    check(error?.name === "WarpweftError", `${error}`);
    same([optimizer.steps, await all(w.value)], [0, [1, 2]], "steps and values");
  }
  optimizer.step();
  close(await all(w.value), [0.9, 1.9], 1e-5, "after the step that takes what was accumulated");
});

test("a loss of an earlier value of a variable is refused by its name", async ({ device, Optimizer, Variable, Module }) => {
  class Net extends Module {
    scale = new Variable(device.tensor([1, 2]));
    shift = new Variable(device.tensor([3, 4]));
  }
  const net = new Net();
  const optimizer = Optimizer.sgd(net, { lr: 1 });
  const loss = net.scale.value.mul(net.shift.value).sum();
  net.scale.assign(device.tensor([5, 6]));
  for (const work of [() => optimizer.minimize(loss), () => loss.backward([net.scale])]) {
    let error;
    try {
      work();
    } catch (caught) {
      error = caught;
    }
    check(error?.name === "WarpweftError", `${error}`);
  }
  same([optimizer.steps, await all(net.shift.value)], [0, [3, 4]], "nothing has changed");
  const detached = net.scale.value.detach().mul(net.shift.value).sum();
  optimizer.minimize(detached);
  same(await all(net.shift.value), [-2, -2], "what was detached is a constant");
});

test("a step without memory leaves the objects of values", async ({ device, Optimizer, Variable }) => {
  const [w, u] = [new Variable(device.tensor([1, 2, 3])), new Variable(device.tensor([4, 5, 6]))];
  const optimizer = Optimizer.sgd([w, u], { lr: 1 });
  optimizer.minimize(w.value.mul(u.value).sum());
  const before = w.value;
  await before.read();
  device.trim();
  device.setMemoryLimit(Math.max(1, device.stats().bytes));
  let error;
  try {
    optimizer.minimize(w.value.mul(u.value).add(device.ones([100, 3])).square().sum());
  } catch (caught) {
    error = caught;
  }
  device.setMemoryLimit();
  same(error?.code, "Memory", "the step");
  check(w.value === before, "the value is the same object");
  same(await all(before), [-3, -3, -3], "its elements");
});
