// Copies of the package in Node. A core that has trapped stays lost, so the following tests need another copy.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const usual = fileURLToPath(new URL("../../dist", import.meta.url));

let folder;

/** Creates a folder that is removed when the process ends. */
function made() {
  const path = mkdtempSync(join(tmpdir(), "warpweft-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  writeFileSync(join(path, "package.json"), '{ "type": "module" }');
  return path;
}

/** Returns the copy with this name, which has a separate core. It consists of the files in `dist`. */
export async function importCopy(name, dist = usual) {
  folder ??= made();
  const copy = join(folder, String(name));
  for (const file of ["nn.js", "gpu-nn.js", "cpu.js", "shared.js", "shared-nn.js", "gpu-nn.wasm", "cpu.wasm"]) {
    cpSync(join(dist, file), join(copy, file));
  }
  return import(pathToFileURL(join(copy, "nn.js")).href);
}
