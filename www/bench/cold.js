// A page that computes one small thing with one library, `?library=`: how long that takes from the start of loading, and
// what is downloaded for it. Each in its own words, with no more of the library imported than the bundler needs.

const count = 64;
const values = (seed) => Float32Array.from({ length: count * count }, (_, i) => ((i * seed) % 13) / 13 - 0.5);
const [a, b] = [values(7), values(11)];

/** `relu(a b)` of two matrices, read. */
const libraries = {
  async warpweft() {
    const { Device } = await import("../dist/index.js");
    const device = await Device.new({ prefer: (await Device.isAvailable()) ? "gpu" : "software" });
    const [x, y] = [a, b].map((data) => device.tensor(data, [count, count]));
    return x.matmul(y).relu().read();
  },
  async tfjs() {
    const tf = await import("./cold/tfjs.js");
    await tf.setBackend("webgpu");
    await tf.ready();
    const [x, y] = [a, b].map((data) => tf.tensor(data, [count, count]));
    return tf.relu(tf.matMul(x, y)).data();
  },
  async ort() {
    const [{ env, InferenceSession, Tensor }, { model }] = await Promise.all([import("./cold/ort.js"), import("./onnx.js")]);
    env.wasm.numThreads = 1;
    const node = (op, inputs, outputs) => ({ op, inputs, outputs });
    const nodes = [node("MatMul", ["a", "b"], ["t"]), node("Relu", ["t"], ["y"])];
    const shape = [count, count];
    const bytes = model({ nodes, weights: {}, inputs: { a: shape, b: shape }, outputs: { y: shape } });
    const session = await InferenceSession.create(bytes, { executionProviders: ["webgpu"] });
    const [x, y] = [a, b].map((data) => new Tensor("float32", data, shape));
    return (await session.run({ a: x, b: y })).y.data;
  },
  async jax() {
    const { defaultDevice, init, nn, numpy } = await import("./cold/jax.js");
    await init("webgpu");
    defaultDevice("webgpu");
    const [x, y] = [a, b].map((data) => numpy.array(data, { shape: [count, count] }));
    return nn.relu(numpy.matmul(x, y)).data();
  },
};

function check(result) {
  for (let i = 0; i < count * count; i += 37) {
    let sum = 0;
    for (let k = 0; k < count; k++) sum += a[Math.floor(i / count) * count + k] * b[k * count + (i % count)];
    if (!(Math.abs(result[i] - Math.max(sum, 0)) <= 1e-4)) return `wrong result: element ${i} is ${result[i]}`;
  }
  return undefined;
}

/** From the start of loading to the first result. */
window.cold = (async () => {
  const result = await libraries[new URLSearchParams(location.search).get("library")]();
  const ms = performance.now();
  return { ms, error: check(result) };
})();
