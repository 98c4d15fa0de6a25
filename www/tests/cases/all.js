// All cases that run on one device, and how a page or a worker starts them.

import * as warpweft from "/dist/nn.js";
import { runAll } from "./harness.js";
import "./pointwise.js";
import "./operations.js";
import "./windows.js";
import "./linalg.js";
import "./gradients.js";
import "./programs.js";
import "./custom.js";
import "./refusals.js";
import "./memory.js";
import "./safety.js";
import "./absurd.js";
import "./data.js";
import "./leaks.js";
import "./profile.js";
import "./training.js";
import "./trainer.js";
import "./hostile.js";
import "./hostile-models.js";

/** Runs them on the device that is preferred, with so many hostile calls of a seed, and gives the results. */
export async function run(prefer, hostile) {
  const device = await warpweft.Device.new({ prefer });
  const results = await runAll({ ...warpweft, device, hostile });
  device.dispose();
  return { info: device.info, results };
}
