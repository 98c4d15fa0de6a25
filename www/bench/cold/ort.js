import { env, InferenceSession, Tensor } from "onnxruntime-web/webgpu";
import { model } from "../onnx.js";
import { count, measure } from "./page.js";

measure(async (data) => {
  env.wasm.numThreads = 1;
  const node = (op, inputs, outputs) => ({ op, inputs, outputs });
  const nodes = [node("MatMul", ["a", "b"], ["t"]), node("Relu", ["t"], ["y"])];
  const shape = [count, count];
  const bytes = model({ nodes, weights: {}, inputs: { a: shape, b: shape }, outputs: { y: shape } });
  const session = await InferenceSession.create(bytes, { executionProviders: ["webgpu"] });
  const [a, b] = data.map((values) => new Tensor("float32", values, shape));
  return (await session.run({ a, b })).y.data;
});
