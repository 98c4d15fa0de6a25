// `npm run bench -- --models`: measures models of warpweft, wllama and transformers.js on one page of one browser.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { dirname, join, resolve } from "node:path";
import { cases, measures } from "../bench/models/cases.js";
import { interquartile, median } from "../bench/table.js";
import { root, run, tools } from "./env.mjs";
import { modelFolder } from "./models.mjs";

const folder = join(root, "www", "bench");
const packages = { wllama: "@wllama/wllama", transformers: "@huggingface/transformers" };
const titles = { warpweft: "warpweft", wllama: "wllama", transformers: "transformers.js" };
/** The folder of ONNX graphs, outside git. */
const graphs = join(tools, "onnx");

/** The cases, for `--list`. */
export const listed = cases.map(({ name, what }) => `${name.padEnd(22)} ${what}`);

/** Returns the cases with these names or prefixes. Without names, returns all cases. */
function chosen(only) {
  const names = only?.split(",").map((name) => name.trim()) ?? [""];
  const odd = names.find((part) => !cases.some(({ name }) => name.startsWith(part)));
  if (odd !== undefined) throw new Error(`bench: the case must be one of ${cases.map(({ name }) => name)}, got ${odd}`);
  return cases.filter(({ name }) => names.some((part) => name.startsWith(part)));
}

/** Exports a model's graph for transformers.js, with a Python that has torch, transformers, onnx and onnxscript. */
async function exportGraph(python, model) {
  const script = join(folder, "models", "export.py");
  const [source, target] = [join(modelFolder, model), join(graphs, model)];
  const wanted = createHash("sha256").update(readFileSync(script)).update(readFileSync(join(source, "model.safetensors")));
  const [stamp, hash] = [join(target, ".exported-from"), wanted.digest("hex")];
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === hash) return;
  console.log(`bench: exporting ${model} to ONNX`);
  rmSync(target, { recursive: true, force: true });
  await run(python, [script, source, target], { quiet: true });
  writeFileSync(stamp, hash);
}

/** Bundles and minifies the page, as an application would. */
async function bundle(outDir) {
  const { build } = await import("vite");
  const output = { target: "esnext", outDir, emptyOutDir: true, assetsInlineLimit: 0, reportCompressedSize: false };
  const rollupOptions = { input: [join(folder, "models", "index.html")] };
  await build({
    ...{ root: folder, base: "./", configFile: false, logLevel: "error" },
    build: { ...output, rollupOptions, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 1e5 },
  });
}

const versionOf = (library) => {
  const file = library === "warpweft" ? root : join(folder, "node_modules", packages[library]);
  return JSON.parse(readFileSync(join(file, "package.json"), "utf8")).version;
};

const round = (value) => (value === undefined ? null : Math.round(value * 1000) / 1000);

/** Splits a library's entry of a case into one result for each measure. */
function summaries({ name, kind }, { times, ...rest }) {
  return Object.entries(measures[kind]).map(([measure, { unit }]) => {
    const values = times.map((each) => each[measure]);
    const [middle, spread] = values.length ? [median(values), interquartile(values)] : [];
    const figures = { unit, median: round(middle), spread: round(spread), runs: values.length };
    return { case: name, measure, ...rest, ...figures };
  });
}

/** Measures a case on a separate page, because an error may end the GPU's process. */
async function measureCase(browser, address, given, { runs, python, isSoftware }) {
  const page = await browser.newPage();
  await page.goto(`${address}/bench/models/index.html`);
  await page.waitForFunction(() => window.bench);
  const adapter = await page.evaluate(() => window.bench.adapter());
  const gpu = isSoftware(adapter) ? "software" : "gpu";
  const libraries = ["warpweft", ...(given.peer === "transformers" && !python ? [] : [given.peer])];
  const settings = { libraries, prefer: given.device === "cpu" ? "cpu" : gpu, runs };
  const asked = page.evaluate(([name, settings]) => window.bench.measure(name, settings), [given.name, settings]);
  const nothing = ({ message: error }) => libraries.map((library) => ({ library, times: [], checked: false, error }));
  const entries = await asked.catch(nothing);
  await page.close();
  return entries.flatMap((entry) => summaries(given, entry)).map((result) => ({ ...result, adapter }));
}

const short = ({ library, measure, error, median, unit }) => `${library} ${error ?? `${median} ${unit} (${measure})`}`;

const digits = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));

/** Returns how many times faster the first result is than the second. */
const ratioOf = (own, other) => (own.unit === "ms" ? other.median / own.median : own.median / other.median);

const isGood = (result) => result && !result.error && result.median !== null;

/** Returns the rows of a case, one for each measure. */
function rows({ name, kind, what, device, peer, targets, least }, results, note) {
  const cell = (result) => {
    if (!result) return "left out";
    if (result.error) return `fails (${note(`${name}, ${titles[result.library]}: ${result.error}`)})`;
    const spread = result.runs > 1 ? ` ±${digits(result.spread / 2)}` : "";
    const elsewhere = device === "webgpu" && result.where !== "WebGPU" ? `, ${result.where}` : "";
    const title = result.library === "warpweft" ? "" : `${titles[result.library]} `;
    return `${title}${digits(result.median)}${spread}${elsewhere}`;
  };
  return Object.entries(measures[kind]).map(([measure, { unit, title }]) => {
    const find = (library) => results.find((one) => one.case === name && one.measure === measure && one.library === library);
    const [own, other] = [find("warpweft"), find(peer)];
    const ratio = isGood(own) && isGood(other) ? ratioOf(own, other) : undefined;
    const target = targets[measure];
    const reached = least ? (isGood(own) ? own.median : undefined) : ratio;
    const verdict = target === undefined || reached === undefined ? "-" : reached >= target ? "met" : "missed";
    const wanted = target === undefined ? "-" : least ? `${target} ${unit}` : target.toFixed(1);
    return [what, `${title}, ${unit}`, cell(own), cell(other), ratio?.toFixed(2) ?? "-", wanted, verdict];
  });
}

/** Formats the results as a table in Markdown. */
function table(list, results, { versions, date, browser, adapter, runs, load, python }) {
  const footnotes = [];
  const note = (text) => footnotes.push(text);
  const head = ["model", "measure", "warpweft", "peer", "times as fast", "target", ""];
  const body = list.flatMap((given) => rows(given, results, note));
  const lines = [head, head.map((_, i) => (i > 1 && i < 6 ? "---:" : "---")), ...body].map((row) => `| ${row.join(" | ")} |`);
  const machine = `${cpus().length} cores, ${cpus()[0].model}; load ${load.map((x) => x.toFixed(1)).join(" to ")}`;
  const without = "transformers.js is left out, because --python was not given: it needs an export of the model.";
  const isWithout = !python && list.some(({ peer }) => peer === "transformers");
  return [
    `${date}; ${adapter}; ${browser}; ${machine}.`,
    `${Object.entries(versions).map(([name, version]) => `${titles[name]} ${version}`).join(", ")}.`,
    `Medians of ${runs} runs, ± half the middle half. Both fail where their results differ.`,
    "",
    ...lines,
    ...(isWithout ? ["", without] : []),
    ...(footnotes.length ? ["", ...footnotes.map((text, i) => `(${i + 1}) ${text}`)] : []),
  ].join("\n");
}

/** Measures the cases, prints the table, and writes the results to a file, if one is named. */
export async function benchModels({ only, runs, json, python, isSoftware }) {
  const list = chosen(only);
  const peers = [...new Set(list.map(({ peer }) => peer))].filter((peer) => peer !== "transformers" || python);
  const versions = Object.fromEntries(["warpweft", ...peers].map((name) => [name, versionOf(name)]));
  if (peers.includes("transformers")) await exportGraph(python, "all-MiniLM-L6-v2");
  const outDir = join(folder, "dist");
  await bundle(outDir);
  // Imported here, because setup installs the dependencies.
  const { launch, serve } = await import("../tests/support/browser.js");
  const { address, close } = await serve({ "/bench/": outDir, "/models/": modelFolder, "/onnx/": graphs });
  const browser = await launch();
  const load = loadavg()[0];
  const date = new Date().toISOString().slice(0, 10);
  const results = [];
  try {
    for (const given of list) {
      const found = await measureCase(browser, address, given, { runs, python, isSoftware });
      results.push(...found.map((result) => ({ ...result, version: versions[result.library], date })));
      console.log(`bench: ${given.name}: ${found.map(short).join(", ")}`);
      // Saved after every case, so that a later failure does not lose results.
      if (json) save(resolve(json), results);
    }
    const facts = { versions, date, runs, python, adapter: results[0].adapter, browser: `Chromium ${browser.version()}` };
    console.log(`\n${table(list, results, { ...facts, load: [load, loadavg()[0]] })}`);
  } finally {
    await browser.close();
    close();
    rmSync(outDir, { recursive: true, force: true });
  }
}

function save(file, results) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
}
