// Babel makes CommonJS of this. The environment is jsdom, whose global has no TextDecoder.

import { Device, Tensor } from "warpweft";
import { Generator, Layer } from "warpweft/nn";
import { product } from "./product.js";

test("a product", async () => {
  expect(typeof window).toBe("object");
  expect(await product(Device, { prefer: "cpu" })).toBe("19 22 43 50 on cpu");
});

test("both entries have the same classes", async () => {
  const device = await Device.new();
  const y = Layer.linear(new Generator(device, 1), 2, 3).forward(device.ones([4, 2]));
  expect(y).toBeInstanceOf(Tensor);
  expect((await Tensor.concat([y, device.zeros([1, 3])]).read()).length).toBe(15);
});

test("errors keep their text", async () => {
  const device = await Device.new();
  expect(() => device.ones([2]).add(device.ones([3]))).toThrow(/shape/i);
});
