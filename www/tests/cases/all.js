// Runs all cases on one device. Pages and workers start them.

import { runAll } from "./harness.js";
import "./pointwise.js";
import "./operations.js";
import "./windows.js";
import "./linalg.js";
import "./gradients.js";
import "./programs.js";
import "./custom.js";
import "./refusals.js";
import "./forms.js";
import "./memory.js";
import "./safety.js";
import "./absurd.js";
import "./data.js";
import "./leaks.js";
import "./profile.js";
import "./training.js";
import "./trainer.js";
import "./trainer-inputs.js";
import "./own.js";
import "./state.js";
import "./hostile.js";
import "./hostile-models.js";

/** Opens a copy of the package with a separate core, and a device of it. */
async function opened(prefer, copy) {
  const warpweft = await import(`/dist/nn.js${copy ? `?copy=${copy}` : ""}`);
  return { ...warpweft, device: await warpweft.Device.new({ prefer }) };
}

/** Runs all cases on the preferred device, with the number and the seed of hostile calls. Returns the results. */
export async function run(prefer, hostile) {
  let copies = 0;
  const context = { ...(await opened(prefer, 0)), hostile };
  const { device } = context;
  const results = await runAll(context, () => opened(prefer, ++copies));
  device.dispose();
  return { info: device.info, results };
}
