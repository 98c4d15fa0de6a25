// Fits the declarations, all of which the compiler checks, too.

import { Device, type Tensor, WarpweftError } from "warpweft";

export async function product(prefer: string): Promise<Float32Array> {
  const device = await Device.new({ prefer });
  const x: Tensor<"f32"> = device.tensor([[1, 2], [3, 4]]);
  const values: Float32Array = await x.matmul(device.tensor([[5, 6], [7, 8]])).read();
  x.dispose();
  return values;
}

product("auto").catch((error: unknown) => console.error(error instanceof WarpweftError ? error.code : error));
