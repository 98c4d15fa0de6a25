// `npm run demo`: builds and opens the demo page.
//
// With a display, the page opens in the default browser, and is served until Ctrl-C. Without one, or with --headless, a
// headless Chromium computes the page's results on WebGPU and on the CPU. The command fails if they differ.
//
//     --native            also compiles the native library (minutes), runs the same work natively, and compares
//     --screenshot FILE   the page's screenshot; default: out/demo.png
//     --json FILE         the figures; default: out/demo.json

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "./build.mjs";
import { nativeEnv, onPath, root, run } from "./env.mjs";
import { setup } from "./setup.mjs";

/** The largest allowed difference of values, which are between 0 and 1 or of similar size. */
const near = 1e-4;
/** The largest allowed difference of means. */
const nearMean = 1e-5;
/** The largest allowed difference of sums of attention weights from 1. */
const nearSum = 1e-5;

/** Runs the workload natively, on the default device and on the CPU. */
async function nativeFigures() {
  const file = join(root, "out", "native.json");
  mkdirSync(dirname(file), { recursive: true });
  await run("cargo", ["run", "-q", "--release", "-p", "warpweft-native", "--", "demo", "--json", file], { env: nativeEnv() });
  return JSON.parse(readFileSync(file, "utf8"));
}

/** Runs the workload in a headless browser, on its default device and on the CPU. */
async function browserFigures(url, screenshot) {
  const { launch, openDemo } = await import("./page.mjs");
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1180, height: 900 } });
    const fallback = await openDemo(page, url);
    if (fallback) console.log(`demo: browser: ${fallback}; using a software WebGPU device instead`);
    const figures = await page.evaluate(() => window.demo.figures());
    mkdirSync(dirname(screenshot), { recursive: true });
    await page.screenshot({ path: screenshot, fullPage: true });
    return figures;
  } finally {
    await browser.close();
  }
}

/** Returns a sentence for each disagreement between the figures. */
export function check(all) {
  const wrong = [];
  const first = all[0];
  const want = (what, apart, limit) => {
    // Missing numbers and NaN fail this test.
    if (!(Math.abs(apart) <= limit)) wrong.push(`${what}: ${Number(apart).toExponential(1)} apart, over ${limit}`);
  };
  for (const { picture, devices } of all) {
    if (picture.hash !== first.picture.hash) wrong.push(`the pictures are not the same: hash ${picture.hash}`);
    for (const device of devices) {
      const name = `${device.where} ${device.backend}`;
      const other = first.devices[0];
      want(`${name}: image, from the CPU's`, device.image.difference, near);
      want(`${name}: attention, from the CPU's`, device.attention.difference, near);
      want(`${name}: attention() and softmax(scores) v`, device.attention.fused, near);
      want(`${name}: sums of attention weights, from 1`, device.attention.rowSums, nearSum);
      for (const part of ["image", "attention"]) {
        want(`${name}: ${part}, mean`, device[part].mean - other[part].mean, nearMean);
        const apart = device[part].samples.map((value, i) => Math.abs(value - other[part].samples[i]));
        want(`${name}: ${part}, samples`, Math.max(...apart), near);
        // A picture of a single color would also agree.
        if (!(spread(device[part].samples) > 0.1)) wrong.push(`${name}: ${part}: all values are alike`);
      }
      for (const [filter, { mean, difference }] of Object.entries(other.filters)) {
        const mine = device.filters[filter];
        want(`${name}: ${filter}, mean`, mine?.mean - mean, nearMean);
        want(`${name}: ${filter}, from the CPU's`, Math.max(mine?.difference, difference), near);
      }
    }
  }
  return wrong;
}

const spread = (values) => Math.max(...values) - Math.min(...values);

/** Returns a table with one line per device. */
export function table(all) {
  const devices = all.flatMap(({ devices }) => devices);
  const rows = devices.map(({ where, backend, name, software, image, attention }) => [
    `${where}: ${backend}, ${name}${software ? " (software)" : ""}`,
    image.ms.toFixed(2),
    attention.ms.toFixed(2),
    image.mean.toFixed(6),
    Math.max(image.difference, attention.difference).toExponential(1),
  ]);
  const heads = ["device", "image ms", "attention ms", "mean", "from the CPU"];
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i].length)));
  const line = (row) => row.map((cell, i) => (i ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join("  ");
  return [line(heads), ...rows.map(line)].join("\n");
}

/** Whether a person can see a page on this machine. */
function hasScreen() {
  if (process.env.CI) return false;
  if (platform() !== "linux") return true;
  return Boolean((process.env.DISPLAY || process.env.WAYLAND_DISPLAY) && onPath("xdg-open"));
}

/** Opens a URL in the default browser. */
function show(url) {
  const programs = { darwin: ["open"], win32: ["cmd", "/c", "start", ""] };
  const [program, ...args] = programs[platform()] ?? ["xdg-open"];
  return run(program, [...args, url], { quiet: true });
}

async function main() {
  const { values } = parseArgs({
    options: {
      headless: { type: "boolean", default: !hasScreen() },
      native: { type: "boolean", default: false },
      screenshot: { type: "string", default: join(root, "out", "demo.png") },
      json: { type: "string", default: join(root, "out", "demo.json") },
    },
  });
  const [browser, driver] = [values.headless ? ["chromium"] : [], values.native ? ["vulkan"] : []];
  await setup(["rust", "crates", "node", "wasm32", "wasmTools", ...browser, ...driver]);
  await build("models");
  const { serve } = await import("./page.mjs");
  const server = await serve();
  if (!values.headless) {
    const first = `${server.url}/demo/ask.html`;
    console.log(`demo: ${first} (Ctrl-C to stop)`);
    await show(first).catch((error) => console.error(error.message));
    return true;
  }
  const inBrowser = await browserFigures(server.url, resolve(values.screenshot));
  server.close();
  const native = values.native ? await nativeFigures() : undefined;
  const all = [inBrowser, native].filter(Boolean);
  const wrong = check(all);
  mkdirSync(dirname(resolve(values.json)), { recursive: true });
  writeFileSync(values.json, `${JSON.stringify({ browser: inBrowser, native, wrong }, null, 2)}\n`);
  console.log(`\n${table(all)}\n`);
  for (const sentence of wrong) console.log(`WRONG: ${sentence}`);
  const verdict = wrong.length ? `${wrong.length} results are wrong` : `all within ${near} of each other`;
  console.log(`demo: ${verdict}; screenshot: ${values.screenshot}`);
  return wrong.length === 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const good = await main().catch((error) => {
    console.error(error.message);
    return false;
  });
  if (!good) process.exit(1);
}
