// A CommonJS module, which gets the package through `require`.

import { Device, type Tensor } from "warpweft";
import nn = require("warpweft/nn");

export async function forward(x: Tensor<"f32">): Promise<number[]> {
  const device: Device = x.device;
  const layer: nn.Layer = nn.Layer.linear(new nn.Generator(device, 1), 2, 3);
  return Array.from(await layer.forward(x).read());
}
