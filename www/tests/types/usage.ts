// Tests the declarations with TypeScript's compiler: `npm run check` compiles this file, but nothing runs it.

import { Device, Generator, Layer, Module, Optimizer, Schedule, Sequential, Trainer } from "../../dist/nn.js";
import { Tensor, Variable, WarpweftError, type Epoch, type ErrorCode, type TrainingStep } from "../../dist/nn.js";

/** Compiles only for a value of exactly this type. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<A, B>(_: Same<A, B>): void {}

export async function usage(): Promise<void> {
  const device = await Device.new({ prefer: "cpu" });
  const x = device.tensor([[1, 2], [3, 4]]);
  is<typeof x, Tensor<"f32">>(true);
  const floats = await x.add(1).relu().sum(0, { keepdim: true }).read();
  is<typeof floats, Float32Array>(true);
  const file = new Blob([await device.saveNpz({ x }), await x.saveNpy()]);
  is<typeof file, Blob>(true);
  const whole = await x.cast("i32").reshape([4]).read();
  is<typeof whole, Int32Array>(true);
  const truths = await x.gt(0).read();
  is<typeof truths, Uint8Array>(true);
  const together = await device.read([x, x.gt(0), x.cast("i32")]);
  is<typeof together, [Float32Array, Uint8Array, Int32Array]>(true);
  device.setCacheLimits({ plans: 64, pooledBytes: 1 << 20 });
  const kept: number = device.cacheLimits().planBytes;
  const { values, indices } = x.topk(1);
  is<typeof values, Tensor<"f32">>(true);
  is<typeof indices, Tensor<"i32">>(true);
  const count = x.gt(0).sum();
  is<typeof count, Tensor<"i32">>(true);
  const total = x.cumsum(0).trace().prod();
  is<typeof total, Tensor<"f32">>(true);
  const quotient = count.div(2);
  is<typeof quotient, Tensor<"f32">>(true);
  const sumOfAny: Tensor = (x as Tensor).sum();
  const quotientOfAny: Tensor = (x as Tensor).div(sumOfAny);
  void quotientOfAny;
  type Arrays = Float32Array | Int32Array | Uint32Array | Int8Array | Uint8Array | Int16Array | Uint16Array;
  is<Awaited<ReturnType<Tensor["read"]>>, Arrays>(true);
  const zeros = device.zeros([2, 3]);
  is<typeof zeros, Tensor<"f32">>(true);
  const counts = device.zeros(3, { dtype: "u32" });
  is<typeof counts, Tensor<"u32">>(true);
  const bytes = device.tensor(new Uint8Array(3));
  is<typeof bytes, Tensor<"u32">>(true);
  const picture = device.tensor(new Uint8Array(3), [3], "u8");
  is<Awaited<ReturnType<typeof picture.read>>, Uint8Array>(true);
  const full = device.full([2], true);
  is<typeof full, Tensor<"bool">>(true);
  const product: Tensor = Tensor.einsum("ij,kj->ik", [x, x]);
  const [rows]: Tensor[] = Tensor.meshgrid([x.select(0, 0), x.select(0, 1)]);
  const [by]: Tensor[] = Tensor.vjp([x], [x], [x]);
  const spectrum: Tensor = x.rfft({ n: 4, norm: "ortho" });
  const { q, r } = x.qr();
  void [product, rows, by, spectrum, q, r, x.matrixNorm("nuclear")];
  const joined = Tensor.concat([x, x], 1);
  is<typeof joined, Tensor<"f32">>(true);
  const chosen = x.gt(0).where(x, 0);
  const any: Tensor = chosen;
  device.tensor(new ArrayBuffer(8), [4], "f16");
  device.arange(5);
  device.arange(0, 5, 2, { dtype: "i32" });
  x.conv2d(x, { stride: [1, 2], padding: "same", bias: x });
  x.maxPool({ kernelSize: 2 });
  x.layerNorm({ axes: [-1], weight: x, eps: 1e-3 });
  x.dequantize(x, { zeroPoint: x });
  x.fft({ n: 4, norm: "ortho" });
  const w = new Variable(x);
  w.value.mean().backward([w]);
  const gradient: Tensor | undefined = w.takeGradient();
  const program = device.compile([{ shape: [2] }], (a) => a.mul(2));
  const results: Tensor[] = program.run(any);
  device.batch().add(results[0]!).run();
  const gpu = {} as GPUDevice;
  const shared: Device = await Device.from(gpu, { wasm: { gpu: "/gpu.wasm" } });
  const ints = shared.tensorFromBuffer({} as GPUBuffer, { shape: [2], dtype: "i32" });
  is<typeof ints, Tensor<"i32">>(true);
  const there = shared.tensorFromBuffer({} as GPUBuffer, { shape: [2] }).gpuBuffer();
  const { buffer, byteLength }: { buffer: GPUBuffer; byteLength: number } = there;
  gpu.queue.writeBuffer(buffer, 0, new Float32Array(byteLength / 4));
  there.dispose();
  // @ts-expect-error: a buffer is not a device
  void Device.from(buffer);
  // @ts-expect-error: the shape is required
  shared.tensorFromBuffer(buffer, { dtype: "f32" });
  const slope = await device.elementFunction("fn slope(x: f32) -> f32 { return 2.0 * x; }");
  const own = await device.elementFunction("fn square(x: f32) -> f32 { return x * x; }", {
    gradients: [slope],
    fallback: (x) => x.square(),
  });
  own.call(x, 1).print();
  const shader = await device.shader("", { fallback: ({ x }, { n }) => ({ y: x!.mul(n!) }) });
  const { y: made } = shader.run({ inputs: { x }, outputs: { y: [2] }, workgroups: [1], params: { n: 1 } });
  console.log(made?.shape, own.name);
  // @ts-expect-error: a text is not an operand
  own.call("x");
  // @ts-expect-error: there is no such option
  void device.shader("", { gradients: [] });
  const generator = new Generator(device, 0);
  class Net extends Module {
    first = Layer.linear(generator, 2, 4, { bias: false });
    rate = () => (this.training ? 0.5 : 0);
    rest = new Sequential((y) => y.relu(), Layer.conv2d(generator, 1, 1, 3, { padding: "same" }));
  }
  const net = new Net();
  const optimizer = Optimizer.adam(net, { lr: 0.1, betas: [0.9, 0.99] });
  optimizer.lr = Schedule.oneCycle(0.1, 10).lr(optimizer.steps);
  net.loadStateDict((await device.loadSafetensors(await device.saveSafetensors(net.stateDict()))).tensors);
  const variables: Variable[] = net.parameters();
  // @ts-expect-error: there is no such option
  Optimizer.adam(variables, { learningRate: 1 });
  optimizer.addGroup(Optimizer.sgd([new Variable(device.ones([2]))]));
  optimizer.setGroupLr(1, 0.01);
  const targets = device.tensor([0, 1], [2], "i32");
  const [train, validation] = Trainer.split([x, targets], 0.2, 1);
  const y: Tensor = targets;
  const trainer = new Trainer(net, optimizer, train, (x, y) => [net.rest.forward(x).mseLoss(y), x], {
    validation,
    epochs: 3,
    metrics: ["accuracy", { metric: "f1", classes: 3, average: "micro" }],
    earlyStopping: { monitor: "accuracy", mode: "max" },
  });
  for await (const { step, loss, ended } of trainer) {
    console.log(step satisfies number, await loss.item(), ended?.validation?.metrics.accuracy);
  }
  const { signal } = new AbortController();
  const history: readonly Epoch[] = await trainer.fit(({ lr }) => console.log(lr), { signal });
  const step: TrainingStep | undefined = await trainer.nextStep();
  const notes: Record<string, string> = await trainer.load(await trainer.save({ by: "hand" }));
  await trainer.saveTo("net");
  console.log(history, step?.meanLoss, notes, (await trainer.evaluate(validation)).loss, await trainer.loadFrom("net"));
  new Trainer(net, optimizer, async function* () { yield [x, y] as const; }, (x, y) => x.mseLoss(y));
  new Trainer(net, optimizer, [[x, y]], (x, y) => x.mseLoss(y), { schedule: Schedule.oneCycle(0.1, 10) });
  // @ts-expect-error: f1 needs the number of classes
  new Trainer(net, optimizer, train, (x, y) => x.mseLoss(y), { metrics: ["f1"] });
  // @ts-expect-error: there is no such option
  new Trainer(net, optimizer, train, (x, y) => x.mseLoss(y), { epoch: 3 });
  // @ts-expect-error: a loss is not a number
  new Trainer(net, optimizer, train, () => 3);
  const code: ErrorCode = new WarpweftError("InvalidArgument", "").code;
  console.log(kept);
  console.log(code, gradient, device.limits.f16, device.info.kind, device.stats().nodes, x.shape[0], x.dtype satisfies "f32");
  // @ts-expect-error: there is no such option
  x.sum(0, { keepDim: true });
  // @ts-expect-error: there is no such limit
  device.setCacheLimits({ buffers: 1 });
  // @ts-expect-error: a word is not an operand
  x.add("1");
  // @ts-expect-error: pooling needs a size
  x.maxPool();
  // @ts-expect-error: there is no such dtype
  x.cast("f64");
  // @ts-expect-error: only devices create tensors
  new Tensor();
  // @ts-expect-error: it is read into floats
  const wrong: Int32Array = await x.read();
  x.dispose();
  console.log(wrong);
}
