// A chart library. It takes tensors that other code made, and imports the small entry only.

import { Device, Tensor, Variable } from "warpweft";

/** The elements of a tensor, after an operation of this module's own. */
export async function shown(y) {
  if (!(y instanceof Tensor) || !(y.device instanceof Device)) throw new Error("chart.js got no tensor of its own class");
  const doubled = Tensor.stack([y, y.device.zeros(y.shape)]).sum(0);
  return `${[...(await doubled.read())].join(" ")} on ${y.device.info.backend}`;
}

/** A weight that a model of other code uses. */
export const weight = (values) => new Variable(values);
