// Tests the package in Node, on the CPU's core: cases of objects, of the form of errors and of the contract of docs/state.md,
// and a core that traps.

import { lose } from "./cases/lost.js";
import { runAll } from "./cases/harness.js";
import "./cases/forms.js";
import "./cases/own.js";
import "./cases/state.js";
import { finish } from "./support/browser.js";
import { importCopy } from "./support/copy.js";

let count = 0;

/** Opens a copy of the package with a separate core, and a device of it. */
async function opened() {
  const warpweft = await importCopy((count += 1));
  return { ...warpweft, device: await warpweft.Device.new({ prefer: "cpu" }) };
}

const results = await runAll(await opened(), opened);

const name = "a core that trapped";
const error = await lose(await opened(), "cpu").then(() => undefined, (caught) => String(caught.stack));
results.push({ name, error });

finish(results);
