// Installs an example as a user copies it, and checks the result of the Vite example.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "../../tools/env.mjs";

/** Installs an example in a folder of this name, with the `npm pack` of this repository. */
export async function install(name, example = "vite") {
  const app = join(root, "out", name);
  rmSync(app, { recursive: true, force: true });
  const installed = join(app, "node_modules", "warpweft");
  mkdirSync(installed, { recursive: true });
  const ignored = /node_modules|dist/;
  const filter = (path) => !ignored.test(path.slice(root.length));
  cpSync(join(root, "www", "examples", example), app, { recursive: true, filter });
  await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", app], { quiet: true });
  const packed = readdirSync(app).find((name) => name.endsWith(".tgz"));
  execFileSync("tar", ["-xzf", join(app, packed), "-C", installed, "--strip-components=1"]);
  return app;
}

/** Checks the probabilities of four inputs. They must add up to 1, and must be the same everywhere. */
export function checkSame(seen) {
  for (const [where, { probabilities, error }] of Object.entries(seen)) {
    if (error) throw new Error(`${where}: ${error}`);
    for (const row of probabilities) {
      const sum = row.reduce((a, b) => a + b, 0);
      if (row.length !== 3 || Math.abs(sum - 1) > 1e-5) throw new Error(`${where}: ${row} are no probabilities`);
    }
    const first = Object.values(seen)[0].probabilities.flat();
    const off = Math.max(...probabilities.flat().map((p, i) => Math.abs(p - first[i])));
    if (!(off < 1e-4)) throw new Error(`${where}: ${off} off`);
  }
}
