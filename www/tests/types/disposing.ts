// Tests `using`, for which TypeScript needs the library with `Disposable`.

import type { Device } from "../../dist/index.js";

export function block(device: Device): number {
  using x = device.ones([2]);
  const disposable: Disposable = x;
  return disposable === x ? x.rank : 0;
}
