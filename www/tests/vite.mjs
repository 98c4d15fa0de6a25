// The Vite example with the package as npm would install it: served by Vite's development server, and built; in
// Chromium, on the page's thread and in a worker, on WebGPU and on the CPU.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build, createServer, preview } from "vite";
import { root, run } from "../tools/env.mjs";
import { finish, launch, open } from "./support/browser.js";

const results = [];

async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

/** The example in a folder of its own, with what `npm pack` makes of this repository installed. */
async function install() {
  const app = join(root, "out", "vite-example");
  rmSync(app, { recursive: true, force: true });
  const installed = join(app, "node_modules", "warpweft");
  mkdirSync(installed, { recursive: true });
  const ignored = /node_modules|dist/;
  const filter = (path) => !ignored.test(path.slice(root.length));
  cpSync(join(root, "www", "examples", "vite"), app, { recursive: true, filter });
  await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", app], { quiet: true });
  const packed = readdirSync(app).find((name) => name.endsWith(".tgz"));
  execFileSync("tar", ["-xzf", join(app, packed), "-C", installed, "--strip-components=1"]);
  return app;
}

const app = await install();
const browser = await launch();

/** Both answers of the page at `address`. */
async function answers(address, prefer) {
  const { page, errors } = await open(browser, `${address}?prefer=${prefer}`);
  const answer = async (where) => {
    const output = page.locator(`#${where}[data-answer]`);
    return JSON.parse(await output.getAttribute("data-answer", { timeout: 60_000 }));
  };
  const both = { main: await answer("main"), worker: await answer("worker") };
  await page.close();
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
  return both;
}

/** Probabilities of four inputs, each adding up to 1; and the same everywhere. */
function checkSame(seen) {
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

/** The page at `address` on every device. */
async function visit(how, address) {
  await test(`${how}: the same numbers on every device and thread`, async () => {
    const [gpu, cpu, auto] = [await answers(address, "1"), await answers(address, "cpu"), await answers(address, "auto")];
    checkSame({ cpu: cpu.main, "cpu worker": cpu.worker, auto: auto.main, "auto worker": auto.worker });
    const other = /cpu/.test(gpu.main.device) ? await answers(address, "0") : gpu;
    checkSame({ cpu: cpu.main, webgpu: other.main, "webgpu worker": other.worker });
    if (!/webgpu/.test(other.worker.device)) throw new Error(`no WebGPU: ${other.worker.device}`);
    console.log(`${how}: ${other.main.device}; ${cpu.main.device}: ${cpu.main.probabilities[0]}`);
  });
}

const server = await createServer({ root: app, logLevel: "warn", server: { host: "127.0.0.1" } });
await server.listen();
await visit("development server", server.resolvedUrls.local[0]);
await server.close();

await test("the example's types", () => {
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  return run(process.execPath, [tsc, "-p", app], { quiet: true });
});

await build({ root: app, logLevel: "warn" });
const built = await preview({ root: app, logLevel: "warn", preview: { host: "127.0.0.1" } });
await visit("built", built.resolvedUrls.local[0]);
await built.close();

await browser.close();
finish(results);
