// `npm run bench`: measures warpweft and its peers on one page of one browser, and the time of each page to its first result.
//
//     --only CASE,CASE       cases by name or prefix: matmul, conv-1x1, cold
//     --libraries A,B        warpweft, tfjs, ort, jax; default: all
//     --before PACKAGE       also measures another build of warpweft, as packed by `npm pack`, to find regressions
//     --browser B            chromium, or firefox (without cold); default: chromium
//     --runs N               timed rounds; default: 7, with --models 3
//     --budget SECONDS       time for one library and one case before fewer rounds are run; default: 8
//     --heavy                also runs the cases that take minutes on a CPU
//     --json FILE            also writes the figures to this file
//     --list                 lists the cases without running them
//     --no-build             measures the present build in www/dist
//     --models               measures models, wllama and transformers.js; with --only, --runs, --json and --list
//     --python PYTHON        with --models: exports the encoder for transformers.js; has torch, transformers, onnx, onnxscript

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { cases } from "../bench/cases.js";
import { interquartile, median, table } from "../bench/table.js";
import { build as buildPackage } from "./build.mjs";
import { root, run } from "./env.mjs";
import { setup } from "./setup.mjs";
import { browsers } from "./web-tests.mjs";

const folder = join(root, "www", "bench");
const packages = { tfjs: "@tensorflow/tfjs-core", ort: "onnxruntime-web", jax: "@jax-js/jax" };
const libraries = ["warpweft", ...Object.keys(packages)];

/** Installs the peers, unless the versions of the present lock file are installed. */
async function installPeers() {
  const stamp = join(folder, "node_modules", ".installed-from");
  const wanted = createHash("sha256").update(readFileSync(join(folder, "package-lock.json"))).digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  console.log("bench: installing the peers");
  // The peers need no install scripts in a browser. `overrides` in package.json replaces large packages that transformers.js
  // needs only in Node.
  await run("npm", ["ci", "--prefix", folder, "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund"], { quiet: true });
  writeFileSync(stamp, wanted);
}

/** The folder of the other build of warpweft. */
const before = join(folder, "node_modules", "warpweft-before");

/** Bundles and minifies the pages in the same way for every library, as an application would. */
async function bundle(packed) {
  rmSync(before, { recursive: true, force: true });
  if (packed) {
    mkdirSync(before, { recursive: true });
    await run("tar", ["-xzf", resolve(packed), "-C", before, "--strip-components=1"], { quiet: true });
  }
  // An earlier build may have only one entry.
  const other = ["nn.js", "index.js"].map((name) => join(packed ? before : root, "www", "dist", name)).find(existsSync);
  const { build } = await import("vite");
  const input = [join(folder, "index.html"), ...libraries.map((name) => join(folder, "cold", `${name}.html`))];
  if (packed) input.push(join(folder, "cold", "before.html"));
  const alias = { "warpweft-before": other };
  // The bundler warns about names that one peer exports twice.
  const output = { target: "esnext", emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: false };
  await build({
    ...{ root: folder, base: "./", configFile: false, logLevel: "error", resolve: { alias } },
    build: { ...output, rollupOptions: { input }, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 1e5 },
  });
}

const versionOf = (library) => {
  const file = { warpweft: root, before }[library] ?? join(folder, "node_modules", packages[library]);
  return JSON.parse(readFileSync(join(file, "package.json"), "utf8")).version;
};

/** Returns the cases with these names or prefixes. Without names, returns all cases that are not heavy. */
export function chosen(only, heavy) {
  const names = only?.split(",").map((name) => name.trim());
  const wanted = (name) => !names || names.some((part) => name === part || name.startsWith(part));
  const odd = names?.find((part) => !["cold", ...cases.map(({ name }) => name)].some((name) => name.startsWith(part)));
  if (odd !== undefined) throw new Error(`bench: the case must be known, got ${odd}; --list shows all`);
  const asked = (given) => !given.heavy || heavy || names?.includes(given.name);
  return { list: cases.filter((given) => wanted(given.name) && asked(given)), cold: wanted("cold") };
}

/** Measures the cases on one page with all libraries. After an error, which may also break the GPU, a new page is opened. */
async function measureCases(browser, url, list, names, { runs, budget, save }) {
  const results = [];
  let page;
  let adapter;
  const renew = async () => {
    await page?.close();
    page = await browser.newPage();
    await page.goto(`${url}/bench/dist/index.html`);
    await page.waitForFunction(() => window.bench);
    adapter = await page.evaluate(() => window.bench.adapter());
    await page.evaluate((names) => window.bench.open(names), names);
  };
  for (const { name, heavy } of list) {
    if (!page) await renew();
    const rounds = heavy && isSoftware(adapter) ? 1 : runs;
    const asked = page.evaluate((list) => window.bench.measure(...list), [name, rounds, budget]);
    const nothing = ({ message: error }) => names.map((library) => ({ library, times: [], checked: false, error }));
    const entries = await asked.catch(nothing);
    for (const entry of entries) results.push({ case: name, ...summary(entry), adapter });
    console.log(`bench: ${name}: ${results.slice(-entries.length).map(short).join(", ")}`);
    save(results);
    if (entries.some(({ error }) => error)) {
      await page.close();
      page = undefined;
    }
  }
  await page?.close();
  return results;
}

const isSoftware = (adapter) => /\(software\)|swiftshader|llvmpipe|lavapipe|basic render/i.test(adapter);

async function adapterOf(browser, url) {
  const page = await browser.newPage();
  await page.goto(`${url}/bench/dist/index.html`);
  await page.waitForFunction(() => window.bench);
  const adapter = await page.evaluate(() => window.bench.adapter());
  await page.close();
  return adapter;
}

const round = (ms) => (ms === undefined ? undefined : Math.round(ms * 1000) / 1000);

function summary({ times, first_ms, ...rest }) {
  const done = times.length > 0;
  return {
    ...rest,
    median_ms: done ? round(median(times)) : null,
    spread_ms: done ? round(interquartile(times)) : null,
    first_ms: round(first_ms),
    third_ms: done ? round(times[0]) : null,
    runs: times.length,
  };
}

const short = ({ library, median_ms, error }) => `${library} ${error ?? `${median_ms} ms`}`;

/** The networks that pages are loaded over: bytes per second, and round-trip milliseconds. */
const lines = {
  cold: undefined,
  "cold-50mbit": { bytes: 50e6 / 8, latency: 20 },
  "cold-10mbit": { bytes: 10e6 / 8, latency: 20 },
};

/**
 * Measures the time to the first result and the downloaded bytes of each library's page. Libraries take turns over each
 * network. The first visit uses a fresh profile, and the second visit uses the same profile again.
 */
async function measureCold(launchProfile, url, names, runs, prefer) {
  const found = new Map();
  const entry = (name, library) => {
    const key = `${name} ${library}`;
    if (!found.has(key)) found.set(key, { case: name, library, times: [], checked: true });
    return found.get(key);
  };
  for (let i = 0; i < runs; i++) {
    for (const [name, line] of Object.entries(lines)) {
      for (const library of names) {
        const profile = mkdtempSync(join(tmpdir(), "warpweft-bench-"));
        const context = await launchProfile(profile);
        for (const visit of [name, `${name}-again`]) {
          const of = entry(visit, library);
          try {
            const address = `${url}/bench/dist/cold/${library}.html?prefer=${prefer}`;
            const { ms, gzip } = await visitCold(context, address, line);
            of.times.push(ms);
            if (visit === "cold") of.gzip_bytes ??= gzip;
          } catch (error) {
            Object.assign(of, { checked: false, error: error.message });
          }
        }
        await context.close();
        rmSync(profile, { recursive: true, force: true });
      }
    }
  }
  const order = Object.keys(lines).flatMap((name) => [name, `${name}-again`]);
  const entries = [...found.values()].sort((a, b) => order.indexOf(a.case) - order.indexOf(b.case));
  return entries.map(summary);
}

/** Opens a page. Returns the milliseconds to its first result, and the compressed size of all files that it loaded. */
async function visitCold(context, address, line) {
  const page = await context.newPage();
  const loaded = new Set();
  page.on("response", (response) => loaded.add(new URL(response.url()).pathname));
  if (line) {
    const session = await context.newCDPSession(page);
    const speed = { downloadThroughput: line.bytes, uploadThroughput: line.bytes, latency: line.latency };
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", { offline: false, ...speed });
  }
  await page.goto(address);
  const { ms, error } = await page.evaluate(() => window.cold);
  await page.close();
  if (error) throw new Error(error);
  return { ms, gzip: [...loaded].reduce((sum, path) => sum + gzipped(path), 0) };
}

const gzipped = (path) => {
  const file = join(root, "www", path);
  return existsSync(file) ? gzipSync(readFileSync(file), { level: 9 }).length : 0;
};

function write(file, results, { versions, date }) {
  mkdirSync(dirname(file), { recursive: true });
  const all = results.map((result) => ({ ...result, version: versions[result.library], date }));
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
}

/** Returns the number of `--runs`, or the default. */
function runsOf({ runs: given }, usual) {
  const runs = Number(given ?? usual);
  if (!(Number.isInteger(runs) && runs > 0)) throw new Error(`bench: --runs must be at least 1, got ${given}`);
  return runs;
}

/** Measures models with bench-models.mjs. */
async function mainOfModels(values) {
  const { benchModels, listed } = await import("./bench-models.mjs");
  if (values.list) return console.log(listed.join("\n"));
  const runs = runsOf(values, 3);
  if (values.browser !== "chromium" || values.before) throw new Error("bench: --models must be in Chromium, without --before");
  await setup(["node", "chromium", "models"]);
  if (!values["no-build"]) await buildPackage();
  await installPeers();
  await benchModels({ ...values, runs, isSoftware });
}

async function main() {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      libraries: { type: "string", default: libraries.join(",") },
      before: { type: "string" },
      browser: { type: "string", default: "chromium" },
      runs: { type: "string" },
      budget: { type: "string", default: "8" },
      heavy: { type: "boolean", default: false },
      json: { type: "string" },
      list: { type: "boolean", default: false },
      "no-build": { type: "boolean", default: false },
      models: { type: "boolean", default: false },
      python: { type: "string" },
    },
  });
  if (values.models) return mainOfModels(values);
  if (values.list) {
    for (const { name, what, heavy } of cases) console.log(`${name.padEnd(22)} ${what}${heavy ? " (--heavy)" : ""}`);
    console.log(`${"cold".padEnd(22)} time of a page to its first result: fresh profile, second visit, slow networks`);
    return;
  }
  const names = values.libraries.split(",");
  const odd = names.find((name) => !libraries.includes(name));
  if (values.before) names.splice(1, 0, "before");
  if (odd !== undefined) throw new Error(`bench: the library must be one of ${libraries.join(", ")}, got ${odd}`);
  const runs = runsOf(values, 7);
  const { list, cold } = chosen(values.only, values.heavy);
  const kind = browsers[values.browser];
  if (!kind) throw new Error(`bench: --browser must be one of ${Object.keys(browsers).join(", ")}, got ${values.browser}`);
  await setup(["node", ...kind.needs]);
  if (!values["no-build"]) await buildPackage();
  await installPeers();
  await bundle(values.before);

  // Imported here, because setup installs the dependencies.
  const { launchProfile, serve } = await import("./page.mjs");
  const { launch } = await kind.pages();
  const server = await serve({ deployed: true });
  const browser = await launch();
  const load = loadavg()[0];
  try {
    const versions = Object.fromEntries(names.map((name) => [name, versionOf(name)]));
    const date = new Date().toISOString().slice(0, 10);
    // Saved after every case, so that a later failure does not lose results.
    const save = (results) => values.json && write(resolve(values.json), results, { versions, date });
    const budget = Number(values.budget) * 1000;
    const results = await measureCases(browser, server.url, list, names, { runs, budget, save });
    const adapter = results[0]?.adapter ?? (await adapterOf(browser, server.url));
    if (cold && values.browser === "chromium") {
      const prefer = isSoftware(adapter) ? "software" : "gpu";
      const entries = await measureCold(launchProfile, server.url, names, runs, prefer);
      results.push(...entries.map((entry) => ({ ...entry, adapter })));
    }
    save(results);
    const facts = { adapter, versions, browser: `${kind.title} ${browser.version()}`, date, runs };
    const machine = { cpu: cpus()[0].model, cores: cpus().length, load: [load, loadavg()[0]] };
    console.log(`\n${table(results, { ...facts, ...machine })}`);
  } finally {
    await browser.close();
    server.close();
    rmSync(join(folder, "dist"), { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
