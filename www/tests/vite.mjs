// Tests the Vite example with the package as npm installs it: served by Vite's development server, and built; in Chromium, on
// the page's thread and in a worker, on WebGPU and on the CPU.

import { join } from "node:path";
import { build, createServer, preview } from "vite";
import { root, run } from "../tools/env.mjs";
import { finish, launch, open } from "./support/browser.js";
import { checkSame, install } from "./support/example.js";

const results = [];

async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

const app = await install("vite-example");
const browser = await launch();

/** Returns both answers of the page at `address`. */
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

/** Visits the page at `address` on every device. */
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
