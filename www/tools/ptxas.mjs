// NVIDIA's assembler of PTX and disassembler, for tests of the translation from WGSL. They need no GPU and no driver. They are
// stored in .tools.

import { chmodSync } from "node:fs";
import { arch, platform } from "node:os";
import { join } from "node:path";
import { tools } from "./env.mjs";
import { getFiles, isThere } from "./wheels.mjs";

/** The path of the assembler. */
export const ptxas = join(tools, "ptxas");

const packages = ["nvidia-cuda-nvcc==13.5.37", "nvidia-cuda-nvdisasm==13.5.37"];
const files = [
  {
    name: "ptxas",
    bytes: 50_753_552,
    sha256: "b3e295413e9628ee261a63ea3f70ec5af20988c9809214c064661662206574a3",
    parts: /\/bin\/ptxas$/,
  },
  {
    name: "nvdisasm",
    bytes: 5_816_912,
    sha256: "3bf19e7ab706ed8f68ecc2403d277b97dc110c52e0ac4c4f0c8eada5f7889c3c",
    parts: /\/bin\/nvdisasm$/,
  },
];

/** Whether the programs are installed, or this system has others, which no test uses. */
export const havePtxas = () =>
  platform() !== "linux" || arch() !== "x64" || files.every((file) => isThere(tools, file));

/** Gets the programs. */
export async function getPtxas(say) {
  await getFiles(say, tools, packages, files);
  for (const { name } of files) chmodSync(join(tools, name), 0o755);
}
