// `npm run conformance`: runs third-party conformance vectors natively and in browsers, and writes the results into
// CONFORMANCE.md and conformance.json.
//
// The vectors are in the folder WARPWEFT_CONFORMANCE, and by default in ../shared/conformance next to the repository.
// `-- --only native`, `-- --only web` or `-- --only firefox` runs one part and keeps the other parts' rows.

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { features, nativeTestEnv, root, run } from "./env.mjs";
import { setup } from "./setup.mjs";
import { browsers, webTests } from "./web-tests.mjs";

/** The sets of vectors. `tests/conformance/mod.rs` defines the names of their files. */
const sets = ["webnn", "webnn_newer"];

const folder = () => resolve(root, process.env.WARPWEFT_CONFORMANCE ?? "../shared/conformance");
const staging = join(root, "target", "conformance");

/**
 * Copies the vectors to where browser tests fetch them, with an index. Missing vectors are reported. With `report`, the tests
 * print all counts. Of the cases without f16, one in `every` runs.
 */
export function stage({ report = false, required = false, every = 1 } = {}) {
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging, { recursive: true });
  const files = {};
  for (const name of sets) {
    files[name] = existsSync(join(folder(), `${name}.json`));
    if (!files[name]) console.error(`conformance: ${folder()} has no vectors of ${name}; they will NOT RUN in the browser`);
    else for (const end of ["json", "bin"]) copyFileSync(join(folder(), `${name}.${end}`), join(staging, `${name}.${end}`));
  }
  writeFileSync(join(staging, "index.json"), JSON.stringify({ files, report, required, every }));
}

/** Returns the output of a program, and its error message if it failed. */
async function ended(running) {
  try {
    return { output: await running, failed: "" };
  } catch (error) {
    return { output: error.output ?? "", failed: error.message };
  }
}

/** Runs the native part. Returns its reports, also if tests failed. */
async function native() {
  const reports = join(root, "target", "conformance-reports");
  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  const report = { WARPWEFT_REQUIRE: "cpu,wgpu,conformance", WARPWEFT_CONFORMANCE_REPORT: reports };
  const env = { ...nativeTestEnv(), ...report };
  // All crates, as in `npm test`, so that nothing is compiled again.
  const args = ["test", "--workspace", ...features(), "--test", "native", "run_conformance::on"];
  const { failed } = await ended(run("cargo", args, { env }));
  return { failed, reports: readdirSync(reports).map((name) => JSON.parse(readFileSync(join(reports, name), "utf8"))) };
}

async function web(browser, filter) {
  stage({ report: true, required: true });
  const { output, failed } = await ended(webTests({ browser, filter }));
  const lines = [...output.matchAll(/conformance-report (\{.*\})\s*$/gm)];
  const found = new Map(lines.map(([, json]) => JSON.parse(json)).map((report) => [report.backend, report]));
  return { failed, reports: [...found.values()] };
}

const parts = {
  native: { start: native, needs: ["rust", "vulkan"], backends: ["cpu", "wgpu", "wgpu without barriers"] },
  web: inBrowser("chromium", "run_conformance::on", ["webgpu", "cpu in a browser"]),
  firefox: inBrowser("firefox", "run_conformance::on_webgpu", ["webgpu in Firefox"]),
};

function inBrowser(browser, filter, backends) {
  const needs = ["rust", "wasm32", "wasmTools", ...browsers[browser].needs];
  return { start: () => web(browser, filter), needs, backends };
}

const backends = Object.values(parts).flatMap((part) => part.backends);

/** Returns the rows of the backends that ran, and the old rows of the other backends. */
function merged(old, reports) {
  const fresh = new Set(reports.map((report) => report.backend));
  const keep = (rows) => (rows ?? []).filter((row) => !fresh.has(row.backend));
  const all = (pick) => reports.flatMap((report) => pick(report));
  const order = (row) => backends.indexOf(row.backend);
  const devices = Object.fromEntries(reports.map((report) => [report.backend, report.device]));
  return {
    devices: { ...old.devices, ...devices },
    rows: [...keep(old.rows), ...all((report) => report.rows)].sort(
      (a, b) => a.suite.localeCompare(b.suite) || a.op.localeCompare(b.op) || order(a) - order(b),
    ),
    excepted: [
      ...keep(old.excepted),
      ...all((report) => report.excepted.map(([suite, name, why]) => ({ backend: report.backend, suite, case: name, why }))),
    ].sort((a, b) => order(a) - order(b)),
    notes: [...keep(old.notes), ...all((report) => report.notes.map((note) => ({ backend: report.backend, ...note })))],
  };
}

const kinds = ["passed", "excepted", "failed", "missing", "not_applicable"];

/** Formats a cell: the number of passed cases, and the numbers of all other outcomes. */
function cell(row) {
  if (!row) return "";
  const words = { excepted: "excepted", failed: "FAILED", missing: "missing", not_applicable: "n/a" };
  const rest = kinds.slice(1).filter((kind) => row[kind]).map((kind) => `${row[kind]} ${words[kind]}`);
  return [...(row.passed || !rest.length ? [row.passed] : []), ...rest].join(", ");
}

function sum(rows) {
  const total = Object.fromEntries(kinds.map((kind) => [kind, 0]));
  for (const row of rows) for (const kind of kinds) total[kind] += row[kind];
  return total;
}

/** Returns lines of `reason: count` for each suite. If all backends have the same count, it is listed once. */
function reasons(notes) {
  const found = new Map();
  for (const { suite, why, count, backend } of notes) {
    const key = `${suite}: ${why}`;
    found.set(key, { ...found.get(key), [backend]: count });
  }
  return [...found].sort().map(([key, counts]) => {
    const numbers = Object.values(counts);
    const same = numbers.length === backends.length && numbers.every((n) => n === numbers[0]);
    const summary = same ? `${numbers[0]}` : backends.filter((b) => counts[b]).map((b) => `${counts[b]} on ${b}`).join(", ");
    return `- ${key}: ${summary}`;
  });
}

/** Returns lines of exceptions: suite, case, reason and backends. */
function exceptions(list) {
  const found = new Map();
  for (const { suite, case: name, why, backend } of list) {
    const key = `${suite}: ${name}: ${why}`;
    found.set(key, [...(found.get(key) ?? []), backend]);
  }
  return [...found].sort().map(([key, on]) => `- ${key} (${on.length === backends.length ? "everywhere" : on.join(", ")})`);
}

function markdown(data) {
  const lines = [
    "# Conformance",
    "",
    "Written by `npm run conformance`. Vectors of others, run through this library; each is held to the limit that those",
    "who wrote it give. A case that fails and is not listed below fails the tests, and so does a listed one that passes.",
    "",
    `Run on: ${backends.filter((b) => data.devices[b]).map((b) => `${b} (${data.devices[b]})`).join(", ")}.`,
  ];
  for (const suite of [...new Set(data.rows.map((row) => row.suite))]) {
    const rows = data.rows.filter((row) => row.suite === suite);
    const line = (name, pick) => `| ${name} | ${backends.map((b) => cell(pick(b))).join(" | ")} |`;
    lines.push("", `## ${suite}`, "", `| | ${backends.join(" | ")} |`, `| --- |${" --- |".repeat(backends.length)}`);
    lines.push(line("all", (b) => sum(rows.filter((row) => row.backend === b))));
    for (const op of [...new Set(rows.map((row) => row.op))]) {
      lines.push(line(op, (b) => rows.find((row) => row.op === op && row.backend === b)));
    }
  }
  lines.push("", "## Exceptions", "", ...exceptions(data.excepted));
  lines.push("", "## Missing, not applicable", "", ...reasons(data.notes), "");
  return lines.join("\n");
}

async function main() {
  const { values } = parseArgs({ options: { only: { type: "string" } } });
  const chosen = values.only?.split(",") ?? Object.keys(parts);
  const unknown = chosen.filter((name) => !parts[name]);
  if (unknown.length) throw new Error(`conformance: parts must be ${Object.keys(parts).join(", ")}, got ${unknown.join(", ")}`);
  if (!existsSync(folder())) throw new Error(`${folder()} has no test vectors; set WARPWEFT_CONFORMANCE to another folder`);
  await setup([...new Set(chosen.flatMap((name) => parts[name].needs))]);
  const reports = [];
  let failed = "";
  for (const name of chosen) {
    const part = await parts[name].start();
    failed ||= part.failed;
    for (const backend of parts[name].backends) {
      if (!part.reports.some((report) => report.backend === backend)) failed ||= `nothing was reported of ${backend}`;
    }
    reports.push(...part.reports);
  }
  const file = join(root, "tests", "conformance", "conformance.json");
  const old = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  const data = merged(old, reports);
  // One row per line, so that diffs are readable.
  const list = (rows) => `[\n    ${rows.map((row) => JSON.stringify(row)).join(",\n    ")}\n  ]`;
  const lists = ["rows", "excepted", "notes"].map((key) => `"${key}": ${list(data[key])}`);
  writeFileSync(file, `{\n  ${[`"devices": ${JSON.stringify(data.devices)}`, ...lists].join(",\n  ")}\n}\n`);
  writeFileSync(join(root, "tests", "conformance", "CONFORMANCE.md"), markdown(data));
  console.log(reports.map((report) => `${report.backend}: ${cell(sum(report.rows))}`).join("\n"));
  if (failed) throw new Error(failed);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
