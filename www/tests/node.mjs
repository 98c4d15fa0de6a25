// The package in Node, on the CPU's core: cases of objects and of the contract of docs/state.md, and a core that traps.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../tools/env.mjs";
import { lose } from "./cases/lost.js";
import { runAll } from "./cases/harness.js";
import "./cases/own.js";
import "./cases/state.js";
import { finish } from "./support/browser.js";

const dist = join(root, "www", "dist");
const copies = mkdtempSync(join(tmpdir(), "warpweft-"));
writeFileSync(join(copies, "package.json"), '{ "type": "module" }');
let count = 0;

/** A copy of the package, with a core of its own, and a device of it. */
async function opened() {
  const copy = join(copies, String((count += 1)));
  for (const name of ["nn.js", "shared.js", "shared-nn.js", "cpu.wasm"]) cpSync(join(dist, name), join(copy, name));
  const warpweft = await import(pathToFileURL(join(copy, "nn.js")).href);
  return { ...warpweft, device: await warpweft.Device.new({ prefer: "cpu" }) };
}

const results = await runAll(await opened(), opened);

const name = "a core that trapped";
const error = await lose(await opened(), "cpu").then(() => undefined, (caught) => String(caught.stack));
results.push({ name, error });

rmSync(copies, { recursive: true });
finish(results);
