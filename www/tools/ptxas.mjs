// NVIDIA's assembler of PTX, for tests of the translation from WGSL. It needs no GPU and no driver. It is stored in .tools.

import { chmodSync } from "node:fs";
import { arch, platform } from "node:os";
import { join } from "node:path";
import { tools } from "./env.mjs";
import { getFiles, isThere } from "./wheels.mjs";

/** The path of the program. */
export const ptxas = join(tools, "ptxas");

const packages = ["nvidia-cuda-nvcc==13.5.37"];
const file = {
  name: "ptxas",
  bytes: 50_753_552,
  sha256: "b3e295413e9628ee261a63ea3f70ec5af20988c9809214c064661662206574a3",
  parts: /\/bin\/ptxas$/,
};

/** Whether the program is installed, or this system has another one, which no test uses. */
export const havePtxas = () => platform() !== "linux" || arch() !== "x64" || isThere(tools, file);

/** Gets the program. */
export async function getPtxas(say) {
  await getFiles(say, tools, packages, [file]);
  chmodSync(ptxas, 0o755);
}
