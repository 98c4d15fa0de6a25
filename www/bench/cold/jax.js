import { defaultDevice, init, nn, numpy } from "@jax-js/jax";
import { count, measure } from "./page.js";

measure(async (data) => {
  await init("webgpu");
  defaultDevice("webgpu");
  const [x, y] = data.map((values) => numpy.array(values, { shape: [count, count] }));
  return nn.relu(numpy.matmul(x, y)).data();
});
