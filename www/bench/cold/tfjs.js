import "@tensorflow/tfjs-backend-webgpu";
import { matMul, ready, relu, setBackend, tensor } from "@tensorflow/tfjs-core";
import { count, measure } from "./page.js";

measure(async (data) => {
  await setBackend("webgpu");
  await ready();
  const [x, y] = data.map((values) => tensor(values, [count, count]));
  return relu(matMul(x, y)).data();
});
