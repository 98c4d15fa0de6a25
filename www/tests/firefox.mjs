// Tests the package in Firefox: its cases on a plain page, and the build of the Vite example, on WebGPU and on the CPU.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";
import { root } from "../tools/env.mjs";
import { launch } from "../tools/firefox.mjs";
import { same } from "./cases/harness.js";
import { finish, serve } from "./support/browser.js";
import { checkSame, install } from "./support/example.js";

/** The number of hostile calls, and their seed. */
const HOSTILE = [10_000, 1];

const results = [];

/** Adds a result: passed unless `body` throws. */
async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

/** Collects the errors of a page's console, because the driver does not report them. */
function collectErrors() {
  globalThis.errors = [];
  const keep = (words) => globalThis.errors.push(String(words));
  addEventListener("error", ({ message, target }) => keep(message ?? `${target.src} does not load`), true);
  addEventListener("unhandledrejection", ({ reason }) => keep(reason));
  const { error } = console;
  console.error = (...words) => {
    keep(words.join(" "));
    error.apply(console, words);
  };
}

const app = await install("firefox-example");
await build({ root: app, base: "/example/", logLevel: "warn" });
const index = join(app, "dist", "index.html");
writeFileSync(index, readFileSync(index, "utf8").replace("<head>", `<head><script>(${collectErrors})()</script>`));
const [dist, cases] = ["dist", join("tests", "cases")].map((folder) => join(root, "www", folder));
const { address, close } = await serve({ "/dist/": dist, "/cases/": cases, "/example/": join(app, "dist") });
const browser = await launch();

/** Opens an empty page whose errors are collected. */
async function open() {
  const page = await browser.newPage();
  await page.goto(address);
  await page.evaluate(collectErrors);
  return page;
}

const quiet = async (page) => same(await page.evaluate(() => globalThis.errors), [], "errors on the console");

await test("what it says of its adapter", async () => {
  const page = await open();
  const { found, info, fallback, adapterFacts } = await page.evaluate(async () => {
    const { Device } = await import("/dist/nn.js");
    const found = await Device.discover();
    const [device, adapter] = [await Device.new(), await navigator.gpu.requestAdapter()];
    const { isFallbackAdapter, vendor, architecture, description } = adapter.info;
    const adapterFacts = { isFallbackAdapter, words: `${vendor}${architecture}${description}` };
    const opened = await Device.new({ prefer: isFallbackAdapter ? "software" : "gpu" });
    return { found, info: opened.info, fallback: device.fallback, adapterFacts };
  });
  const webgpu = found.find(({ info }) => info.backend === "webgpu");
  const kind = adapterFacts.isFallbackAdapter ? "software" : "gpu";
  same([webgpu.info.kind, info.kind, webgpu.f16], [kind, kind, true], "kind, that of the open device, f16");
  same(webgpu.info.name, info.name, "the name before and after opening");
  console.log(`firefox ${browser.version()}: ${info.name} (${info.kind}); ${fallback}`);
  if (!adapterFacts.words) same(info.name, "WebGPU adapter (the browser does not name it)", "the name");
  const sentence = `${info.name} is a software GPU; computing on the CPU`;
  same(fallback, adapterFacts.isFallbackAdapter ? sentence : null, "why the CPU computes");
  await quiet(page);
  await page.close();
});

for (const prefer of ["webgpu", "cpu"]) {
  await test(`cases on ${prefer}`, async () => {
    const page = await open();
    const done = await page.evaluate(async ([wanted, hostile]) => {
      globalThis.gc = () => void TestUtils.gc();
      const { Device } = await import("/dist/nn.js");
      const gpu = (await Device.isAvailable()) ? "gpu" : "software";
      return (await import("/cases/all.js")).run(wanted === "webgpu" ? gpu : wanted, hostile);
    }, [prefer, HOSTILE]);
    same(done.info.backend, prefer, "where the cases ran");
    results.push(...done.results.map(({ name, error }) => ({ name: `${prefer}: ${name}`, error })));
    await quiet(page);
    await page.close();
  });
}

await test("a read does not wait until Firefox looks by itself, which is every 100 ms (its bug 1870699)", async () => {
  const page = await open();
  const times = await page.evaluate(async () => {
    const { Device } = await import("/dist/nn.js");
    const device = await Device.new({ prefer: (await Device.isAvailable()) ? "gpu" : "software" });
    const x = device.ones([16]);
    const times = [];
    for (let n = 0; n < 21; n++) {
      const start = performance.now();
      await x.add(n).read();
      times.push(performance.now() - start);
    }
    return times;
  });
  const median = times.sort((a, b) => a - b)[10];
  console.log(`firefox: a small read takes ${median} ms`);
  if (median > 50) throw new Error(`${median} ms`);
  await quiet(page);
  await page.close();
});

await test("a lost GPU", async () => {
  const page = await open();
  const codes = await page.evaluate(async () => {
    const { Device } = await import("/dist/nn.js");
    const real = GPUAdapter.prototype.requestDevice;
    let machine;
    GPUAdapter.prototype.requestDevice = async function (...options) {
      return (machine = await real.apply(this, options));
    };
    const prefer = (await Device.isAvailable()) ? "gpu" : "software";
    const device = await Device.new({ prefer });
    GPUAdapter.prototype.requestDevice = real;
    machine.destroy();
    await machine.lost;
    const read = async () => device.tensor([1]).add(1).read();
    const code = await read().then(() => "none", (error) => error.code);
    const next = await Device.new({ prefer });
    return [code, ...(await next.tensor([1]).add(1).read())];
  });
  same(codes, ["DeviceLost", 2], "what a read says, and a new device");
  await quiet(page);
  await page.close();
});

await test("the Vite example, built: the same numbers on every device and thread", async () => {
  const page = await browser.newPage();
  const seen = {};
  for (const prefer of ["0", "1", "auto"]) {
    await page.goto(`${address}/example/index.html?prefer=${prefer}`);
    await page.waitForFunction(() => document.querySelectorAll("output[data-answer]").length === 2);
    for (const where of ["main", "worker"]) {
      const answer = await page.evaluate((id) => document.getElementById(id).dataset.answer, where);
      seen[`${where}, ${prefer}`] = JSON.parse(answer);
    }
    await quiet(page);
  }
  checkSame(seen);
  const devices = Object.values(seen).map(({ device }) => /\((\w+)\)$/.exec(device)[1]);
  same([...new Set(devices)].sort(), ["cpu", "webgpu"], "where it was computed");
  await page.close();
});

await browser.close();
close();
finish(results);
