// The cases in ONNX Runtime Web: a model for each, written by onnx.js, on its WebGPU execution provider with inputs and
// outputs bound to buffers of the GPU.

import * as ort from "onnxruntime-web/webgpu";
import { inputsOfLengths, permuted, sizeOf } from "../cases.js";
import { model } from "../onnx.js";
import { peek as peekBuffers } from "./peek.js";

const node = (op, inputs, output, attributes, domain) => ({ op, inputs, outputs: [output], attributes, domain });
const microsoft = "com.microsoft";
const constant = (value) => ({ shape: [], data: Float32Array.of(value) });

/** A chain of operations with one operand more each: `[op, constant]`. */
function chain(steps) {
  const [nodes, weights] = [[], {}];
  steps.forEach(([op, value], i) => {
    const inputs = [i ? `t${i}` : "x"];
    if (value !== undefined) {
      weights[`c${i}`] = constant(value);
      inputs.push(`c${i}`);
    }
    nodes.push(node(op, inputs, i === steps.length - 1 ? "y" : `t${i + 1}`));
  });
  return { nodes, weights };
}

/** What a case is computed as where the operation that is meant for it gives wrong results on an adapter. */
export const second = { attention: "MatMul, Softmax, MatMul", block: "MatMul, Softmax, MatMul for attention" };

/** Attention in ordinary operations: `q [.., length, width]`, `kt [.., width, keys]`, `v [.., keys, width]`. */
function plainAttention(width, [q, kt, v], y, mask) {
  const nodes = [node("MatMul", [q, kt], "scores"), node("Mul", ["scores", "scale"], "scaled")];
  if (mask) nodes.push(node("Add", ["scaled", "mask"], "masked"));
  nodes.push(node("Softmax", [mask ? "masked" : "scaled"], "weights", { axis: -1 }), node("MatMul", ["weights", v], y));
  return { nodes, weights: { scale: constant(1 / Math.sqrt(width)), ...(mask && { mask }) } };
}

/** The same from `[1, length, width]` of all heads together to `mixed`, laid out alike. */
function splitAttention(heads, length, width) {
  const size = width / heads;
  const split = (x, perm) => [node("Reshape", [x, "split"], `${x}_s`), node("Transpose", [`${x}_s`], `${x}_t`, { perm })];
  const { nodes, weights } = plainAttention(size, ["q_t", "k_t", "v_t"], "heads");
  const together = [node("Transpose", ["heads"], "apart", { perm: [0, 2, 1, 3] }), node("Reshape", ["apart", "join"], "mixed")];
  const shape = (...extents) => ({ shape: [extents.length], data: BigInt64Array.from(extents, BigInt) });
  const moved = [...split("q", [0, 2, 1, 3]), ...split("k", [0, 2, 3, 1]), ...split("v", [0, 2, 1, 3])];
  const shapes = { split: shape(1, length, heads, size), join: shape(1, length, width) };
  return { nodes: [...moved, ...nodes, ...together], weights: { ...weights, ...shapes } };
}

function causalMask(queries, keys) {
  const data = new Float32Array(queries * keys);
  for (let i = 0; i < queries; i++) data.fill(-1e9, i * keys + i + 1 + keys - queries, (i + 1) * keys);
  return { shape: [queries, keys], data };
}

const norm = (x, weight, bias, y) => node("LayerNormalization", [x, weight, bias], y, { epsilon: { float: 1e-5 }, axis: -1 });

/** From a case to the nodes that make `y` of its inputs, and constants they use. */
const kinds = {
  matmul({ ta, tb }) {
    if (!ta && !tb) return { nodes: [node("MatMul", ["a", "b"], "y")] };
    return { nodes: [node("Gemm", ["a", "b"], "y", { transA: Number(!!ta), transB: Number(!!tb) })] };
  },
  conv2d({ window, stride = 1, groups = 1 }) {
    const pad = Math.floor(window / 2);
    const attributes = { kernel_shape: [window, window], pads: [pad, pad, pad, pad], strides: [stride, stride], group: groups };
    return { nodes: [node("Conv", ["x", "w"], "y", attributes)] };
  },
  attention({ heads, causal, queries, keys, width, plain }) {
    if (plain) return plainAttention(width, ["q", "k", "v"], "y", causal && causalMask(queries, keys));
    const attributes = { num_heads: heads, unidirectional: Number(!!causal) };
    return { nodes: [node("MultiHeadAttention", ["q", "k", "v"], "y", attributes, microsoft)] };
  },
  softmax: () => ({ nodes: [node("Softmax", ["x"], "y", { axis: -1 })] }),
  layernorm: () => ({ nodes: [norm("x", "weight", "bias", "y")] }),
  rmsnorm: () => ({
    nodes: [node("SimplifiedLayerNormalization", ["x", "weight"], "y", { epsilon: { float: 1e-6 }, axis: -1 })],
  }),
  sum({ axis, shape }) {
    const axes = axis === undefined ? shape.map((_, i) => i) : [axis];
    const weights = { axes: { shape: [axes.length], data: BigInt64Array.from(axes, BigInt) } };
    return { nodes: [node("ReduceSum", ["x", "axes"], "y", { keepdims: 0 })], weights };
  },
  pointwise() {
    const inner = [["Mul", 1.1], ["Add", 0.1], ["Relu"], ["Mul", 0.5], ["Sigmoid"]];
    return chain([...inner, ["Sub", 0.25], ["Pow", 2], ["Add", 1]]);
  },
  permute: ({ order }) => ({ nodes: [node("Transpose", ["x"], "y", { perm: order })] }),
  adds({ times }) {
    const name = (i) => (i === 0 ? "x" : i === times ? "y_" : `t${i}`);
    const nodes = Array.from({ length: times }, (_, i) => node("Add", [name(i), "y"], name(i + 1)));
    return { nodes, result: "y_" };
  },
  mlp({ widths }) {
    const nodes = [];
    for (let i = 1, x = "x"; i < widths.length; i++) {
      const last = i === widths.length - 1;
      nodes.push(node("Gemm", [x, `w${i}`, `b${i}`], last ? "y" : `s${i}`));
      if (!last) nodes.push(node("Relu", [`s${i}`], (x = `h${i}`)));
    }
    return { nodes };
  },
  block({ heads, length, width, plain }) {
    const product = (a, b, y) => node("MatMul", [a, b], y);
    const add = (a, b, y) => node("Add", [a, b], y);
    const whole = node("MultiHeadAttention", ["q", "k", "v"], "mixed", { num_heads: heads }, microsoft);
    const { nodes: attention, weights } = plain ? splitAttention(heads, length, width) : { nodes: [whole], weights: {} };
    return {
      weights,
      nodes: [
        ...[norm("x", "g1", "c1", "first"), product("first", "wq", "q"), product("first", "wk", "k")],
        ...[product("first", "wv", "v"), ...attention, product("mixed", "wo", "projected"), add("x", "projected", "middle")],
        ...[norm("middle", "g2", "c2", "second"), product("second", "w1", "p1"), add("p1", "b1", "s1")],
        ...[node("Gelu", ["s1"], "hidden"), product("hidden", "w2", "p2"), add("p2", "b2", "s2"), add("middle", "s2", "y")],
      ],
    };
  },
  lengths: () => ({
    nodes: [
      ...[node("MatMul", ["x", "w1"], "a"), node("Relu", ["a"], "b")],
      ...[node("MatMul", ["b", "w2"], "c"), node("Softmax", ["c"], "y", { axis: -1 })],
    ],
  }),
  transfer: () => chain([["Add", 1]]),
};

/** How its layout of a tensor of a case differs: `shape`, and where data must be moved, `order`. */
function layout({ kind, plain }, shape, name) {
  // Ordinary operations take keys transposed, as models have them.
  if (kind === "attention" && plain) {
    const order = name === "k" ? [0, 1, 3, 2] : undefined;
    return { shape: order ? order.map((axis) => shape[axis]) : shape, order };
  }
  // Its attention takes [batch, length, heads * width].
  if (kind === "attention") return { shape: [1, shape[2], shape[1] * shape[3]], order: [0, 2, 1, 3] };
  if (kind === "lengths") return { shape: ["n", ...shape.slice(1)] };
  return kind === "block" && shape.length === 2 ? { shape: [1, ...shape] } : { shape };
}

export async function open() {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  let device;
  const buffers = [];

  function upload(values, dims) {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ size: Math.max(16, values.byteLength), usage });
    device.queue.writeBuffer(buffer, 0, values);
    buffers.push(buffer);
    return ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims });
  }

  async function session(given, data) {
    const { nodes, weights = {}, result = "y" } = kinds[given.kind](given);
    const inputs = {};
    for (const [name, { shape, weight }] of Object.entries(given.inputs)) {
      if (weight) weights[name] = { shape, data: data[name] };
      else inputs[name] = layout(given, shape, name).shape;
    }
    const bytes = model({ nodes, weights, inputs, outputs: { [result]: layout(given, given.output).shape } });
    const away = given.kind === "transfer" ? "cpu" : "gpu-buffer";
    return ort.InferenceSession.create(bytes, { executionProviders: ["webgpu"], preferredOutputLocation: away });
  }

  /** Uploads a case's data; gives what the runner needs. */
  async function prepare(given, data) {
    let built;
    const build = async () => {
      built = await session(given, data);
    };
    const run = async (feeds) => Object.values(await built.run(feeds))[0];
    const free = (results) => results.forEach((tensor) => tensor.dispose());
    if (given.kind === "transfer") {
      const step = () => run({ x: new ort.Tensor("float32", data.x, given.output) });
      return { build, step, free, read: (result) => result.data, peek() {}, dispose: () => built?.release() };
    }
    if (given.kind === "lengths") {
      const next = inputsOfLengths(given, data);
      const step = () => {
        const { shape, values } = next();
        return run({ x: new ort.Tensor("float32", values, shape) });
      };
      const peek = (results) => peekBuffers(device, results.map((tensor) => tensor.gpuBuffer));
      return { build, step, free, peek, read: (result) => result.getData(), dispose: () => built?.release() };
    }
    const feeds = {};
    for (const [name, { shape, weight }] of Object.entries(given.inputs)) {
      if (weight) continue;
      const { order, shape: dims } = layout(given, shape, name);
      feeds[name] = upload(order ? permuted(data[name], shape, order) : data[name], dims);
    }
    await device.queue.onSubmittedWorkDone();
    return {
      ...{ build, free },
      step: () => run(feeds),
      peek: (results) => peekBuffers(device, results.map((tensor) => tensor.gpuBuffer)),
      async read(result) {
        const values = (await result.getData()).slice(0, sizeOf(given.output));
        const { order } = layout(given, given.output);
        return order ? permuted(values, order.map((axis) => given.output[axis]), order) : values;
      },
      async dispose() {
        await built?.release();
        buffers.splice(0).forEach((buffer) => buffer.destroy());
      },
    };
  }

  // Its device is there while a session is: this one stays, so that all others are on the same device.
  await session({ kind: "transfer", inputs: { x: { shape: [1] } }, output: [1] }, {});
  device = await ort.env.webgpu.device;
  return { prepare };
}
